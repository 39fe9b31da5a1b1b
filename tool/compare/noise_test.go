package compare

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// A session counts as soon as it is measured, so that a failing store does not lose its
// figures, and counts only once if it is stored.
func TestNoiseOfASessionThatIsNotStored(t *testing.T) {
	store, err := record.Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	for day := range 3 {
		a, b := pairOf(record.Repeat, "X", now.AddDate(0, 0, -1-day), 1.02)
		if err := store.AddTogether(a, b); err != nil {
			t.Fatal(err)
		}
	}
	a, b := pairOf("bench", "X", now, 1.02)
	for _, when := range []string{"not stored", "stored"} {
		var n Noise
		if err := n.Measure(store, []*record.Run{a, b}); err != nil {
			t.Fatal(err)
		}
		if n.Sessions != 4 || len(n.Floors) != 1 || n.Floors[0].InTurn == nil {
			t.Errorf("%s: %d sessions, floors %+v", when, n.Sessions, n.Floors)
		}
		if err := store.AddTogether(a, b); err != nil {
			t.Fatal(err)
		}
	}
}

// Only pairs with two valid samples count.
func TestShort(t *testing.T) {
	a, b := pairOf("bench", "X", time.Now(), 1)
	runs := []*record.Run{a, b}
	if got := Short(runs, 12); got != nil {
		t.Errorf("12 of 12: %q", got)
	}
	slices.Reverse(b.Samples) // pairs have numbers, whatever the order
	if got := Short(runs, 12); got != nil {
		t.Errorf("12 of 12 in another order: %q", got)
	}
	a.Samples[2].Valid, b.Samples[9].Valid = false, false // both of pair 3
	a.Samples[2].Reasons, b.Samples[9].Reasons = []string{"slow"}, []string{"slow"}
	if got := strings.Join(Short(runs, 12), "; "); got != "11 of 12 samples are valid: slow" {
		t.Errorf("without one pair: %q", got)
	}
	a.Samples[2].Valid, b.Samples[9].Valid = true, true
	slices.Reverse(b.Samples)
	b.Samples[3].Valid, b.Samples[3].Reasons = false, []string{"slow", "others used 40 % of the CPUs"}
	if got := strings.Join(Short(runs, 12), "; "); got != "11 of 12 samples are valid: others used 40 % of the CPUs" {
		t.Errorf("11 of 12: %q", got)
	}
	few := []*record.Run{{Samples: b.Samples[1:4]}} // a run that gave up
	if got := strings.Join(Short(few, 5), "; "); got != "2 of 3 samples are valid, and 5 are needed: others used 40 % of the CPUs" {
		t.Errorf("3 of 5 taken: %q", got)
	}
	var n Noise
	if n.Check(runs, 12); n.Valid || n.Pairs != 12 || len(n.InvalidReasons) != 1 {
		t.Errorf("11 of 12: %+v", n)
	}
	if n.Check(runs, 11); !n.Valid || n.Pairs != 11 || n.InvalidReasons == nil || len(n.InvalidReasons) != 0 {
		t.Errorf("11 of 11: %+v", n)
	}
}

func TestNoiseText(t *testing.T) {
	n := Noise{Valid: true, Scenario: "echo", Sessions: 5, Pairs: 12, Store: "runs", Floors: []NoiseFigure{
		{Metric: "p99", Unit: "µs", InTurn: new(0.012), Apart: new(0.034)}, {Metric: "rate", Unit: "req/s", InTurn: new(0.005)},
	}}
	const first, last = `VALID: the figures are the server's, not the generator's
echo: 5 sessions so far, 12 pairs in this one

figure      builds differ by (alternating)  between sessions
p99 µs      ±1.2 %                          ±3.4 %
rate req/s  ±0.5 %                          –

stored in runs for verdicts about this machine and scenario
`, `verdicts about pairs need 4 sessions, verdicts about runs that did not alternate one more; 8 are better, on several days
`
	for sessions, want := range map[int]string{5: first, 4: strings.Replace(first, "5 sessions", "4 sessions", 1) + last} {
		n.Sessions = sessions
		var b strings.Builder
		if n.Write(&b); b.String() != want {
			t.Errorf("%d sessions:\n%s\nwant\n%s", sessions, b.String(), want)
		}
	}
}
