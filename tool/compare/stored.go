package compare

import "github.com/hone-go/hone/tool/record"

// Stored converts two stored runs to two sides for Match; paired reports whether their
// samples alternated. Only valid samples count, and only pairs with two of them.
func Stored(a, b *record.Run) (ra, rb *Runs, paired bool) {
	ra, rb = &Runs{Settings: SettingsOf(a)}, &Runs{Settings: SettingsOf(b)}
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

// addSample adds run number run, from 0; figures that it lacks are missing for this run
// only.
func (r *Runs) addSample(run int, s *record.Sample) {
	for _, m := range s.Metrics {
		r.series(m.Name, m.Unit, m.Better).set(run, m.Value)
	}
	r.complete(run + 1)
}
