package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/hone-go/hone/tool/record"
)

// Profile combines all profiles of one kind of one program.
type Profile struct {
	Kind  Kind
	parts []part
}

// part is one profile, with the load under which it was taken.
type part struct {
	profile *profile.Profile
	rate    float64  // answers per second; 0: not known
	doubts  []string // why the load was not valid
}

// OfRun reads a run's profiles of one kind, from all its samples. If there are none, the
// error says what it has.
func OfRun(r *record.Run, kind Kind) (*Profile, error) {
	all := &Profile{Kind: kind}
	for _, s := range r.Samples {
		for _, a := range s.Artefacts {
			if Kind(a.Kind) != kind {
				continue
			}
			one, err := Parse(a.Data, kind)
			if err != nil {
				return nil, err
			}
			if one.parts[0].doubts = s.Reasons; s.Rate != nil {
				one.parts[0].rate = *s.Rate
			}
			all.parts = append(all.parts, one.parts[0])
		}
	}
	if len(all.parts) > 0 {
		return all, nil
	}
	has := "it has none at all"
	if kinds := KindsOf(r); len(kinds) > 0 {
		has = "it has " + kindNames(kinds)
	}
	return nil, fmt.Errorf("probe: run %s has no %s profile (%s); take one: hone bench --profile %[2]s --pprof URL", r.ID, kind, has)
}

// KindsOf lists the profiles that a run has, in the order of Profiles.
func KindsOf(r *record.Run) (kinds []Kind) {
	for _, kind := range Profiles() {
		if slices.ContainsFunc(r.Samples, func(s record.Sample) bool {
			return slices.ContainsFunc(s.Artefacts, func(a record.Artefact) bool { return Kind(a.Kind) == kind })
		}) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Parse reads a profile as go tool pprof does.
func Parse(data []byte, kind Kind) (*Profile, error) {
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("probe: this is not a profile: %w; give a file that net/http/pprof or go test -cpuprofile wrote", err)
	}
	if _, err := kind.index(p); err != nil {
		return nil, fmt.Errorf("probe: this is not a %s profile: %w; give another --kind", kind, err)
	}
	return &Profile{kind, []part{{profile: p}}}, nil
}

// valueType returns the sample type to show for a kind.
func (k Kind) valueType() string {
	switch k {
	case CPU:
		return "cpu"
	case Allocs:
		return "alloc_space"
	}
	return string(k)
}

// index returns the position of that type.
func (k Kind) index(p *profile.Profile) (int, error) {
	var has []string
	for i, t := range p.SampleType {
		if t.Type == k.valueType() {
			return i, nil
		}
		has = append(has, t.Type)
	}
	return 0, fmt.Errorf("it has %s, not %s", strings.Join(has, ", "), k.valueType())
}

// Per is the unit to which a View's values are scaled.
type Per string

// samples returns the number of samples of a CPU profile; nil for other kinds.
func (p *Profile) samples() *int64 {
	if p.Kind != CPU {
		return nil // the counts of allocations are estimates
	}
	var n int64
	for _, each := range p.parts {
		for i, t := range each.profile.SampleType {
			for _, s := range each.profile.Sample {
				if t.Type == "samples" {
					n += s.Value[i]
				}
			}
		}
	}
	return &n
}

// doubts returns why the loads were not valid, each reason once.
func (p *Profile) doubts() []string {
	doubts := []string{}
	for _, each := range p.parts {
		for _, doubt := range each.doubts {
			if !slices.Contains(doubts, doubt) {
				doubts = append(doubts, doubt)
			}
		}
	}
	return doubts
}

// The units to which values may be scaled.
const (
	PerMillion Per = "per million requests"
	PerSecond  Per = "per second"      // the number of requests is not known
	AsTaken    Per = "as it was taken" // the duration is not known
)

// per returns the best unit to which the values can be scaled.
func (p *Profile) per() Per {
	best := PerMillion
	for _, each := range p.parts {
		switch {
		case each.profile.DurationNanos <= 0:
			return AsTaken
		case each.rate <= 0:
			best = PerSecond
		}
	}
	return best
}

// scaled merges all parts into their mean per unit.
func (p *Profile) scaled(per Per) (*profile.Profile, error) {
	var all []*profile.Profile
	for _, each := range p.parts {
		factor := 1.0
		if per != AsTaken {
			factor /= float64(len(p.parts))
		}
		if seconds := float64(each.profile.DurationNanos) / 1e9; per == PerSecond {
			factor /= seconds
		} else if per == PerMillion {
			factor *= 1e6 / (seconds * each.rate)
		}
		one := each.profile.Copy()
		one.Scale(factor)
		all = append(all, one)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return nil, fmt.Errorf("probe: the profiles of the samples cannot be merged: %w; pass them one by one, as files", err)
	}
	return merged, nil
}
