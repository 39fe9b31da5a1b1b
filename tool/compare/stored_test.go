package compare_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
)

// runOf has a sample for each value; a negative one is not valid, and NaN is a figure
// that the sample lacks.
func runOf(id, with string, values ...float64) *record.Run {
	r := &record.Run{ID: id, PairedWith: with, Environment: record.Environment{Strict: map[string]string{"cpu": "X"}, Soft: map[string]string{"thp": "always", "revision": id}}}
	for i, v := range values {
		s := record.Sample{Pair: i + 1, Valid: !(v < 0)}
		if !math.IsNaN(v) {
			s.Metrics = []record.Metric{{Name: "p999", Unit: "µs", Better: record.Lower, Value: max(v, -v)}}
		}
		r.Samples = append(r.Samples, s)
	}
	return r
}

func figureOf(t *testing.T, a, b *record.Run) compare.Figure {
	t.Helper()
	ra, rb, paired := compare.Stored(a, b)
	figures, err := compare.Match(ra, rb, paired)
	if err != nil || len(figures) != 1 || figures[0].Name != "p999" || figures[0].Better != compare.Lower {
		t.Fatalf("figures %+v, %v", figures, err)
	}
	return figures[0]
}

// A run that lacks a figure must not move the others into another pair: B takes half
// as long again as A in each pair, and the machine becomes slower from pair to pair.
func TestMissingFiguresKeepPairsTogether(t *testing.T) {
	var a, b []float64
	for pair := range 9 {
		a = append(a, 100*math.Pow(3, float64(pair)))
		b = append(b, 150*math.Pow(3, float64(pair)))
	}
	a[0], b[8] = math.NaN(), math.NaN()
	f := figureOf(t, runOf("a", "b", a...), runOf("b", "a", b...))
	c := compare.Rules{}.Compare([]compare.Figure{f}).Changes[0]
	if c.Verdict != compare.Worse || math.Abs(*c.Ratio-1.5) > 1e-9 || !slices.Equal(c.PairIDs, []int{2, 3, 4, 5, 6, 7, 8}) || c.MissingA != 1 || c.MissingB != 1 {
		t.Errorf("%+v: %s", c.PairIDs, c.Words(0.03))
	}
}

func TestStored(t *testing.T) {
	a, b := runOf("a", "b", 1, -2, 3, 4), runOf("b", "a", 11, 12, -13, 14)
	slices.Reverse(b.Samples) // the order in which they are kept does not matter
	if f := figureOf(t, a, b); !slices.Equal(f.Pairs, []compare.Pair{{ID: 1, A: 1, B: 11}, {ID: 4, A: 4, B: 14}}) {
		t.Errorf("pairs: %+v", f)
	}
	b.PairedWith = "c"
	if f := figureOf(t, a, b); f.Pairs != nil || !slices.Equal(f.A, []float64{1, 3, 4}) || !slices.Equal(f.B, []float64{14, 12, 11}) {
		t.Errorf("no pairs: %+v", f)
	}
	a, b = runOf("a", "b", -1, 2), runOf("b", "a", 1, -2)
	ra, rb, paired := compare.Stored(a, b)
	if figures, err := compare.Match(ra, rb, paired); !paired || len(figures) != 0 || err != nil {
		t.Errorf("no pair of which both are valid: %+v, %v", figures, err)
	}
}

// A figure that one side never has counts, without a value.
func TestFigureOfOneSide(t *testing.T) {
	a, b := runOf("a", "b", 1, 2), runOf("b", "a", 1, 2)
	for i := range b.Samples {
		b.Samples[i].Metrics = append(b.Samples[i].Metrics, record.Metric{Name: "rate", Unit: "req/s", Better: record.Higher, Value: 5})
	}
	ra, rb, paired := compare.Stored(a, b)
	figures, err := compare.Match(ra, rb, paired)
	if err != nil || len(figures) != 2 || figures[1].Name != "rate" || len(figures[1].Pairs) != 2 || !math.IsNaN(figures[1].Pairs[0].A) || figures[1].Pairs[0].B != 5 {
		t.Errorf("%+v, %v", figures, err)
	}
}

func TestReadRuns(t *testing.T) {
	read := func(text string) *compare.Runs {
		r, err := compare.ReadRuns("file", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const load = `{"schema":"hone.load/1","valid":true,"rate":5,"latency_us":{"p99":900}}` + "\n"
	const lacks = `{"schema":"hone.load/1","valid":true,"rate":6,"latency_us":{"p99":null}}` + "\n"
	figures, err := compare.Match(read(load+lacks+load), read(lacks+load+load), true)
	if err != nil || len(figures) != 2 {
		t.Fatalf("%+v, %v", figures, err)
	}
	p99 := figures[1].Pairs
	if len(p99) != 3 || !math.IsNaN(p99[0].B) || !math.IsNaN(p99[1].A) || p99[2] != (compare.Pair{ID: 3, A: 900, B: 900}) {
		t.Errorf("%+v", p99)
	}
	if _, err := compare.Match(read(load+load), read(load), true); !errors.Is(err, compare.ErrNoPairs) {
		t.Errorf("two and one: %v", err)
	}
	one, two := read("BenchmarkX 10 5 B/op\nBenchmarkX 10 7 B/op\n"), read("BenchmarkX 10 5 B/op\n")
	if _, err := compare.Match(one, two, true); !errors.Is(err, compare.ErrNoPairs) {
		t.Errorf("two and one benchmark: %v", err)
	}
	if figures, err := compare.Match(one, two, false); err != nil || !slices.Equal(figures[0].A, []float64{5, 7}) {
		t.Errorf("%+v, %v", figures, err)
	}
	if figures, err := compare.Match(one, read(load), false); err != nil || figures != nil {
		t.Errorf("nothing in common: %+v, %v", figures, err)
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
	if d := compare.Doubts(ra, rb); !slices.Equal(d, []string{`thp differs: "always" and "never"`}) {
		t.Errorf("doubts %+v", d)
	}
}
