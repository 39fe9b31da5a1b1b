package compare

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// pairOf returns two runs of 12 pairs on that machine, with ratio B to A and a spread of
// 1 %.
func pairOf(made, cpu string, at time.Time, ratio float64) (a, b *record.Run) {
	run := func(side int) *record.Run {
		r := &record.Run{
			Made: made, At: at, Scenario: record.Scenario{Name: "hello", Settings: map[string]string{"conns": "5"}},
			Environment: record.Environment{Strict: map[string]string{"cpu": cpu, "go": "go1.26"}},
		}
		for i := range 12 {
			value := 100 + math.Sin(float64(i))
			if side == 1 {
				value *= ratio * math.Exp(0.01*math.Sin(3.7*float64(i)))
			}
			r.Samples = append(r.Samples, record.Sample{
				Pair: i + 1, Order: 2*i + 1 + side, At: at, Valid: true, Metrics: []record.Metric{{Name: "p99", Unit: "µs", Better: record.Lower, Value: value}},
			})
		}
		return r
	}
	return run(0), run(1)
}

// Verdicts use the sessions of hone bench --against-self on the same machine once there are
// enough.
func TestVerdictsKnowTheFloor(t *testing.T) {
	store, err := record.Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	add := func(made, cpu string, at time.Time, ratio float64) (a, b *record.Run) {
		a, b = pairOf(made, cpu, at, ratio)
		if err := store.AddTogether(a, b); err != nil {
			t.Fatal(err)
		}
		return a, b
	}
	now := time.Now().UTC()
	a, b := add("bench", "X", now, 1.08)
	_, other := add("bench", "X", now.Add(time.Hour), 1.08)
	judge := func(b *record.Run) *Report {
		c, err := Judge{Tolerance: 0.03, Look: 1}.Stored(store, a, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	expect := func(when string, c *Report, verdict Verdict, scope Scope, note string) {
		t.Helper()
		if c.Changes[0].Verdict != verdict || c.Scope != scope {
			t.Errorf("%s: %s, for this %s", when, c.words(0), c.Scope)
		}
		if has := note == "" || slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, note) }); !has {
			t.Errorf("%s: notes %q, want %q", when, c.Notes, note)
		}
	}
	expect("nothing is known", judge(b), Worse, ThisSession, "valid in this session, for these builds")
	expect("not in turn", judge(other), Unclear, ThisSession, "measure alternately")
	for day := range 3 {
		add(record.Repeat, "X", now.AddDate(0, 0, -40-day), 1.02)
		add(record.Repeat, "Y", now.AddDate(0, 0, -day), 1)
	}
	expect("three sessions", judge(b), Worse, ThisSession, "measured 3 sessions of this scenario here; a noise floor needs 4")
	add(record.Repeat, "X", now.AddDate(0, 0, -50), 0.98)
	c := judge(b)
	expect("four sessions", c, Worse, ThisMachine, "the noise floor is 40 days old")
	if f := c.Changes[0].Floor; f.Sessions != 4 || f.Pairs != 12 || math.Abs(f.RMS-0.02) > 0.002 || !f.Oldest.Equal(now.AddDate(0, 0, -50)) {
		t.Errorf("floor %+v", f)
	}
	expect("four sessions, not in turn", judge(other), Unclear, ThisSession, "measure alternately")
	add(record.Repeat, "X", now, 0.9)
	c = judge(b)
	expect("a build that is 10 % off", c, Unclear, ThisMachine, "")
	if c.Changes[0].LimitedBy != ByFloor || !c.unclear() || !strings.HasPrefix(c.Summary(), "UNCLEAR: p99 is unclear: +8.") {
		t.Errorf("limited by %s: %s", c.Changes[0].LimitedBy, c.Summary())
	}
	if c = judge(other); c.Scope != ThisMachine || !strings.Contains(c.words(0), "this machine's sessions differ by") {
		t.Errorf("five sessions, not in turn: %s, for this %s", c.words(0), c.Scope)
	}
}
