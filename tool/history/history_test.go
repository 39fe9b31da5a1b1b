package history

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/record"
)

// stored makes a store with n runs of main, a day apart, whose p99 rises by 8 % in run 30 and whose
// allocs/op rise from 0 to 1 in run 20, and returns it with the runs.
func stored(t *testing.T, n int) (*record.Store, []*record.Run) {
	t.Helper()
	s, err := record.Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	var runs []*record.Run
	for i := range n {
		p99, allocs := 1000*(1+0.01*r.NormFloat64()), 0.0
		if i >= 30 {
			p99 *= 1.08
		}
		if i >= 20 {
			allocs = 1
		}
		commit := fmt.Sprintf("%08x%032d", i+1, 0)
		run := &record.Run{
			Name: "main " + commit[:10], Made: "bench", At: time.Date(2026, 1, 1+i, 12, 0, 0, 0, time.UTC), Scenario: record.Scenario{Name: "hello", Settings: map[string]string{"conns": "1"}},
			Environment: record.Environment{Strict: map[string]string{"cpu": "one", "go": "go1.26"}, Soft: map[string]string{"revision": commit}},
		}
		for k := range 3 {
			run.Samples = append(run.Samples, record.Sample{Order: k, Valid: k < 2, Metrics: []record.Metric{
				{Name: "p99", Unit: "µs", Better: record.Lower, Value: p99 + float64(2*(k%2))},
				{Name: "Encode", Unit: "allocs/op", Better: record.Lower, Value: allocs},
			}})
		}
		runs = append(runs, run)
	}
	return s, runs
}

func add(t *testing.T, s *record.Store, runs ...*record.Run) {
	t.Helper()
	for _, run := range runs {
		if err := s.Add(run); err != nil {
			t.Fatal(err)
		}
	}
}

// What decides about the runs is the first figure, and too few runs are not called unchanged.
func TestFewRunsAreNotUnchanged(t *testing.T) {
	t.Parallel()
	s, runs := stored(t, 20)
	for i := range runs {
		runs[i].Scenario.Primary = "Encode"
	}
	add(t, s, runs[:3]...)
	for _, c := range []struct {
		n    int
		want string
	}{{3, "not known: too few runs (3 of 11)"}, {20, "no change; a new one shows after 4 more runs, a large one after 3"}} {
		n, want := c.n, c.want
		if n > 3 {
			add(t, s, runs[3:n]...)
		}
		h, err := Read(s, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Words(&h.Figures[1]); h.Figures[0].Name != "Encode" || got != want || h.Figures[1].Needs != max(0, 11-n) {
			t.Errorf("%d runs: first %s, then %q, needs %d", n, h.Figures[0].Name, got, h.Figures[1].Needs)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	s, runs := stored(t, 45)
	other, repeat, elsewhere, invalid := *runs[3], *runs[4], *runs[5], *runs[6]
	other.Name, repeat.Made = "branch", record.Repeat
	elsewhere.Environment.Strict = map[string]string{"cpu": "two", "go": "go1.26"}
	runs[30].Environment.Strict = map[string]string{"cpu": "one", "go": "go1.26"}
	invalid.Samples = invalid.Samples[2:]
	add(t, s, runs...)
	add(t, s, &other, &repeat, &elsewhere, &invalid)
	for _, ref := range []string{"main", runs[0].ID, runs[40].ID} {
		h, err := Read(s, ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Runs) != 45 || len(h.LeftOut) != 1 || h.Name != "main" || h.Runs[0].ID != runs[0].ID {
			t.Fatalf("%q: %+v", ref, h)
		}
		p99, allocs := h.Figures[0], h.Figures[1]
		if *p99.Values[0] != (runs[0].Samples[0].Metrics[0].Value+runs[0].Samples[1].Metrics[0].Value)/2 {
			t.Errorf("%q: not the median of the valid samples: %v", ref, *p99.Values[0])
		}
		if len(p99.Changes) != 1 || p99.Changes[0].Run != 30 || p99.Changes[0].Verdict != compare.Worse || p99.Changes[0].ID != runs[30].ID {
			t.Errorf("%q: %+v", ref, p99.Changes)
		}
		if len(allocs.Changes) != 1 || allocs.Changes[0].Run != 20 || allocs.Changes[0].Ratio != nil {
			t.Errorf("%q: %+v", ref, allocs.Changes)
		}
		if want := "worse: from 0 to 1 in 0000001400..0000001500 (2026-01-21, 25 runs since)"; h.Words(&allocs) != want {
			t.Errorf("%q, want %q", h.Words(&allocs), want)
		}
		if words := h.Words(&p99); !strings.HasPrefix(words, "worse: +8.") && !strings.HasPrefix(words, "worse: +7.") {
			t.Errorf("%q", words)
		}
	}
	if h, err := Read(s, "main", Options{All: true, Across: []string{"cpu"}, Limit: 20}); err != nil || len(h.Runs) != 20 || len(h.LeftOut) != 0 {
		t.Errorf("%v, %+v", err, h)
	}
	if h, err := Read(s, "main", Options{All: true, Across: []string{"cpu"}}); err != nil || len(h.Runs) != 47 {
		t.Errorf("%v, %+v", err, h)
	}
	if h, err := Read(s, invalid.ID, Options{Across: []string{"cpu"}, Limit: 1}); err != nil || !h.Valid {
		t.Errorf("of a run without valid samples: %v, %+v", err, h)
	}
	if _, err := Read(s, "nobody", Options{}); err == nil {
		t.Error("there is a history of nobody")
	}
}

// A change beside which the machine or the toolchain changed says so, as does one without a commit.
func TestWordsOfAChange(t *testing.T) {
	t.Parallel()
	h := &History{Runs: make([]Run, 3)}
	c := Change{Run: 1, ID: "3f9c", Since: "0123456789ab", To: "ba9876543210", Ratio: new(0.97), Verdict: compare.Better, With: []string{`go differs: "go1.25" and "go1.26"`}}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, `better: −3.0 % in 0123456789..ba98765432 (0001-01-01, 2 runs since, go differs: "go1.25" and "go1.26")`},
		{func() { c.Since, c.With = "", nil }, "better: −3.0 % at ba98765432 (0001-01-01, 2 runs since)"},
		{func() { c.Since = c.To }, "better: −3.0 % between runs of ba98765432, so it is not the code's (0001-01-01, 2 runs since)"},
		{func() { c.To = "" }, "better: −3.0 % from run 3f9c on (0001-01-01, 2 runs since)"},
	} {
		if step.change(); h.words(&c) != step.want {
			t.Errorf("%q, want %q", h.words(&c), step.want)
		}
	}
}
