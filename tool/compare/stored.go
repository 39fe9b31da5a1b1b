package compare

import (
	"slices"

	"github.com/hone-go/hone/tool/record"
)

// Stored converts two stored runs to two sides for Match; paired reports whether their
// samples alternated, alone or with others. Only valid samples count, and only pairs with two of them. Where these are too few
// for a verdict, the others are there to be seen, with what is wrong with them in Runs.Unfit.
func Stored(a, b *record.Run) (ra, rb *Runs, paired bool) {
	ra, rb = &Runs{Settings: SettingsOf(a)}, &Runs{Settings: SettingsOf(b)}
	if a.PairedWith == "" || b.PairedWith == "" || a.PairedWith != b.ID && b.PairedWith != a.ID && a.PairedWith != b.PairedWith {
		ra.addValid(a)
		rb.addValid(b)
		return ra, rb, false
	}
	partner := make(map[int]*record.Sample)
	for i, s := range b.Samples {
		partner[s.Pair] = &b.Samples[i]
	}
	pairs, unfit := fittest(a, partner)
	ra.Unfit, rb.Unfit = unfit, unfit
	for i, pair := range pairs {
		ra.addSample(i, pair[0])
		rb.addSample(i, pair[1])
		ra.PairIDs = append(ra.PairIDs, pair[0].Pair)
	}
	rb.PairIDs = ra.PairIDs
	return ra, rb, true
}

// fittest returns the best pairs that suffice for a verdict, or else the best that there are.
func fittest(a *record.Run, partner map[int]*record.Sample) (pairs [][2]*record.Sample, unfit record.Unfit) {
	for _, least := range []int{FewestPairs, 1} {
		for _, unfit = range []record.Unfit{"", record.Late, record.Disturbed} {
			pairs = nil
			for i := range a.Samples {
				s := &a.Samples[i]
				if other := partner[s.Pair]; s.Pair > 0 && other != nil && belongs(s, unfit) && belongs(other, unfit) {
					pairs = append(pairs, [2]*record.Sample{s, other})
				}
			}
			if len(pairs) >= least && (least == 1 || unfit != record.Disturbed) {
				return pairs, unfit
			}
		}
	}
	return nil, ""
}

// belongs reports whether a sample belongs to those that are at most so unfit.
func belongs(s *record.Sample, unfit record.Unfit) bool {
	return s.Valid || unfit == record.Disturbed || unfit == record.Late && s.Unfit == record.Late
}

// common drops the benchmarks that only one side ever printed, and says which.
func common(a, b *Runs) (notes []string) {
	for _, side := range []struct {
		of, other *Runs
		name      string
	}{{a, b, "A"}, {b, a, "B"}} {
		side.of.Series = slices.DeleteFunc(side.of.Series, func(s Series) bool {
			if side.other.index(s.Name, s.Unit) >= 0 {
				return false
			}
			if note := s.Name + " is only in " + side.name + ", so it is not compared"; !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			return true
		})
	}
	return notes
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

// addSample adds run number run, from 0; figures that it lacks are missing for this run
// only.
func (r *Runs) addSample(run int, s *record.Sample) {
	for _, m := range s.Metrics {
		r.series(m.Name, m.Unit, m.Better).set(run, m.Value)
	}
	r.complete(run + 1)
}
