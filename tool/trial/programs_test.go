package trial

import (
	"math"
	"slices"
	"testing"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
)

// TestTwoPrograms has B hash two hundred times as much for each request, at a target of its own: its CPU is certainly
// worse, and each run knows its own program's command.
func TestTwoPrograms(t *testing.T) {
	p, b := planFor(t, ""), planFor(t, "-work 200")
	b.Servers[0].Target = b.Load.Target
	p.Servers, p.Samples, p.Retakes, p.Load.Requests = append(p.Servers, b.Servers...), 5, 20, 2000
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	f := cpuOf(t, runs)
	if c := (compare.Rules{}).Compare([]compare.Figure{f}).Changes[0]; c.Verdict != compare.Worse {
		t.Errorf("%v: %s", f.Pairs, c.Words(0.03))
	}
	if a, b := runs[0].Environment.Soft, runs[1].Environment.Soft; a["command"] == b["command"] || a["sha256"] != b["sha256"] {
		t.Errorf("%v and %v", a, b)
	}
}

// cpuOf pairs the server's CPU per request, or the rate where that is not known.
func cpuOf(t *testing.T, runs []*record.Run) compare.Figure {
	t.Helper()
	if len(runs) != 2 {
		t.Fatalf("%d runs", len(runs))
	}
	f := compare.Figure{Name: "server CPU", Primary: true}
	if !slices.ContainsFunc(runs[0].Samples[0].Metrics, func(m record.Metric) bool { return m.Name == f.Name }) {
		f.Name, f.Better = "rate", record.Higher
	}
	of := func(s record.Sample) float64 {
		for _, m := range s.Metrics {
			if m.Name == f.Name {
				return m.Value
			}
		}
		return math.NaN()
	}
	for i, s := range runs[0].Samples {
		f.Pairs = append(f.Pairs, compare.Pair{ID: s.Pair, A: of(s), B: of(runs[1].Samples[i])})
	}
	return f
}

// A target of its own is kept when there is one, and the load's is used otherwise.
func TestTargets(t *testing.T) {
	own := codec.HTTP{URL: "http://127.0.0.1:2/"}
	c, err := Plan{Servers: []Server{{Command: "x"}, {Command: "y", Target: own}}, Load: load.Plan{Target: codec.HTTP{URL: "http://127.0.0.1:1/"}}}.begin()
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	if a, b := c.servers[0].Target.String(), c.servers[1].Target.String(); a != "http://127.0.0.1:1/" || b != "http://127.0.0.1:2/" {
		t.Errorf("%s and %s", a, b)
	}
}
