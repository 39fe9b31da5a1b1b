package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hone-go/hone/tool/record"
)

// Stored makes what Match joins of two runs from the store; paired says whether
// their samples were taken in turn. Only valid samples count, and of pairs only
// those of which both are. The strict part of the environment, and the scenario's
// hash, are the settings in which they must not differ.
func Stored(a, b *record.Run) (ra, rb *Runs, paired bool) {
	partner := make(map[int]*record.Sample)
	for i, s := range b.Samples {
		if s.Pair > 0 && s.Valid && b.PairedWith == a.ID && a.PairedWith == b.ID {
			partner[s.Pair] = &b.Samples[i]
		}
	}
	ra, rb = emptyRuns(a), emptyRuns(b)
	if len(partner) == 0 {
		for _, side := range []struct {
			run *record.Run
			to  *Runs
		}{{a, ra}, {b, rb}} {
			for i := range side.run.Samples {
				if side.run.Samples[i].Valid {
					side.to.addSample(&side.run.Samples[i])
				}
			}
		}
		return ra, rb, false
	}
	for i := range a.Samples {
		if other := partner[a.Samples[i].Pair]; other != nil && a.Samples[i].Valid {
			ra.addSample(&a.Samples[i])
			rb.addSample(other)
		}
	}
	return ra, rb, true
}

func emptyRuns(r *record.Run) *Runs {
	settings := maps.Clone(r.Environment.Strict)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["scenario"] = r.Scenario.Hash()
	return &Runs{Settings: settings, Soft: r.Environment.Soft}
}

func (r *Runs) addSample(s *record.Sample) {
	for _, m := range s.Metrics {
		if !math.IsNaN(m.Value) {
			r.add(m.Name, m.Unit, Direction(m.Better), m.Value)
		}
	}
}

// notOfTheMachine are soft settings in which two programs are meant to differ.
var notOfTheMachine = []string{"revision", "sha256", "command", "build"}

// Doubts are about settings in which figures may differ a little, and do.
func Doubts(a, b *Runs) []Warning {
	var doubts []Warning
	keys := slices.Collect(maps.Keys(a.Soft))
	slices.Sort(keys)
	for _, key := range keys {
		va, vb := a.Soft[key], b.Soft[key]
		if vb != "" && va != vb && !slices.Contains(notOfTheMachine, key) {
			doubts = append(doubts, Warning{SoftDiffers, fmt.Sprintf("%s differs: %q and %q", key, va, vb)})
		}
	}
	return doubts
}
