package compare_test

import (
	"slices"
	"testing"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
)

// runOf has a sample for each value; a negative one is not valid.
func runOf(id, with string, values ...float64) *record.Run {
	r := &record.Run{ID: id, PairedWith: with, Environment: record.Environment{Strict: map[string]string{"cpu": "X"}, Soft: map[string]string{"thp": "always", "revision": id}}}
	for i, v := range values {
		r.Samples = append(r.Samples, record.Sample{Pair: i + 1, Valid: v > 0, Metrics: []record.Metric{{Name: "p99", Unit: "µs", Better: record.Lower, Value: max(v, -v)}}})
	}
	return r
}

func valuesOf(t *testing.T, r *compare.Runs) []float64 {
	t.Helper()
	if len(r.Series) != 1 || r.Series[0].Name != "p99" || r.Series[0].Better != compare.Lower {
		t.Fatalf("series %+v", r.Series)
	}
	return r.Series[0].Values
}

func TestStored(t *testing.T) {
	a, b := runOf("a", "b", 1, -2, 3, 4), runOf("b", "a", 11, 12, -13, 14)
	ra, rb, paired := compare.Stored(a, b)
	if !paired || !slices.Equal(valuesOf(t, ra), []float64{1, 4}) || !slices.Equal(valuesOf(t, rb), []float64{11, 14}) {
		t.Errorf("pairs: %v, %v, %v", paired, ra, rb)
	}
	b.PairedWith = "c"
	ra, rb, paired = compare.Stored(a, b)
	if paired || !slices.Equal(valuesOf(t, ra), []float64{1, 3, 4}) || !slices.Equal(valuesOf(t, rb), []float64{11, 12, 14}) {
		t.Errorf("no pairs: %v, %v, %v", paired, ra, rb)
	}
}

func TestSettingsOfStored(t *testing.T) {
	a, b := runOf("a", "", 1), runOf("b", "", 1)
	differences := func() []string {
		ra, rb, _ := compare.Stored(a, b)
		return compare.Differences(ra, rb)
	}
	if d := differences(); len(d) != 0 {
		t.Errorf("differences %v", d)
	}
	b.Environment.Strict = map[string]string{"cpu": "Y", "go": "go1.26"}
	b.Scenario.Text = "rate=5"
	if d := differences(); !slices.Equal(d, []string{"cpu", "scenario"}) {
		t.Errorf("differences %v", d)
	}
	b.Environment.Soft = map[string]string{"thp": "never", "swap": "on"}
	ra, rb, _ := compare.Stored(a, b)
	if d := compare.Doubts(ra, rb); len(d) != 1 || d[0].Kind != compare.SoftDiffers || d[0].Text != `thp differs: "always" and "never"` {
		t.Errorf("doubts %+v", d)
	}
}
