package compare

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hone-go/hone/tool/record"
)

// Stored makes two sides for Match of two runs from the store; paired says whether
// their samples were taken in turn. Only valid samples count, and of pairs only those
// of which both are. The strict part of the environment, and the scenario's hash, are
// the settings in which they must not differ.
func Stored(a, b *record.Run) (ra, rb *Runs, paired bool) {
	ra, rb = emptyRuns(a), emptyRuns(b)
	if a.PairedWith == "" || a.PairedWith != b.ID || b.PairedWith != a.ID {
		ra.addValid(a)
		rb.addValid(b)
		return ra, rb, false
	}
	partner := make(map[int]*record.Sample)
	for i, s := range b.Samples {
		if s.Pair > 0 && s.Valid {
			partner[s.Pair] = &b.Samples[i]
		}
	}
	for i := range a.Samples {
		s := &a.Samples[i]
		if other := partner[s.Pair]; other != nil && s.Valid {
			ra.addSample(len(ra.PairIDs), s)
			rb.addSample(len(ra.PairIDs), other)
			ra.PairIDs = append(ra.PairIDs, s.Pair)
		}
	}
	rb.PairIDs = ra.PairIDs
	return ra, rb, true
}

func (r *Runs) addValid(run *record.Run) {
	added := 0
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Valid {
			r.addSample(added, s)
			added++
		}
	}
}

func emptyRuns(r *record.Run) *Runs {
	settings := maps.Clone(r.Environment.Strict)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["scenario"] = r.Scenario.Hash()
	return &Runs{Settings: settings, Soft: r.Environment.Soft}
}

// addSample adds run number run, from 0; what it lacks is missing of this run alone.
func (r *Runs) addSample(run int, s *record.Sample) {
	for _, m := range s.Metrics {
		r.series(m.Name, m.Unit, Direction(m.Better)).set(run, m.Value)
	}
	r.complete(run + 1)
}

// notOfTheMachine are soft settings in which two programs are meant to differ.
var notOfTheMachine = []string{"revision", "sha256", "command", "build"}

// Doubts are about settings in which figures may differ a little, and do.
func Doubts(a, b *Runs) []string {
	var doubts []string
	keys := slices.Collect(maps.Keys(a.Soft))
	slices.Sort(keys)
	for _, key := range keys {
		va, vb := a.Soft[key], b.Soft[key]
		if vb != "" && va != vb && !slices.Contains(notOfTheMachine, key) {
			doubts = append(doubts, fmt.Sprintf("%s differs: %q and %q", key, va, vb))
		}
	}
	return doubts
}
