package probe

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// View is a profile, or its difference from an earlier one, on one scale.
type View struct {
	Kind Kind   `json:"kind"`
	Unit string `json:"unit"` // "s" or "B"
	Per  Per    `json:"per"`
	// Total is the sum of all values, Before that of the earlier profile; nil: none.
	Total  float64  `json:"total"`
	Before *float64 `json:"total_before"`
	// Samples is the number of samples of a CPU profile; else nil. Every value is a
	// multiple of the value of one sample.
	Samples       *int64 `json:"samples"`
	SamplesBefore *int64 `json:"samples_before"`
	// Doubts are why the load under which it was taken was not valid.
	Doubts       []string `json:"-"`
	DoubtsBefore []string `json:"-"`

	now, before *profile.Profile // before: nil without an earlier profile
}

// NewView scales now, and before, which may be nil, to the best unit that suits both.
func NewView(now, before *Profile) (*View, error) {
	v := &View{Kind: now.Kind, Per: now.per(), Unit: now.Kind.unit(), Samples: now.samples(), Doubts: now.doubts()}
	if before != nil {
		if before.Kind != now.Kind {
			return nil, fmt.Errorf("probe: one is a %s profile and the other a %s profile; compare two of a kind", now.Kind, before.Kind)
		}
		v.Per = leastOf(v.Per, before.per())
	}
	var err error
	if v.now, err = now.scaled(v.Per); err != nil {
		return nil, err
	}
	v.Total = v.sum(v.now)
	if before == nil {
		return v, nil
	}
	if v.before, err = before.scaled(v.Per); err != nil {
		return nil, err
	}
	v.Before, v.SamplesBefore, v.DoubtsBefore = new(v.sum(v.before)), before.samples(), before.doubts()
	return v, nil
}

// fewSamples is how many samples of a CPU profile are too few for rows of one or two.
const fewSamples = 100

// Few says that rows of a sample or two may be chance, and how much two samples are; empty: there are enough.
func (v *View) Few() (why string, two float64) {
	for _, side := range []struct {
		samples *int64
		total   *float64
	}{{v.Samples, &v.Total}, {v.SamplesBefore, v.Before}} {
		if n := side.samples; n != nil && *n > 0 && *n < fewSamples {
			why = fmt.Sprintf("only %d samples: a row of one or two may be chance; profile for longer, or under more load", *n)
			two = max(two, 2**side.total/float64(*n))
		}
	}
	return why, two
}

func leastOf(a, b Per) Per {
	for _, per := range []Per{AsTaken, PerSecond} {
		if a == per || b == per {
			return per
		}
	}
	return a
}

func (k Kind) unit() string {
	if k == Allocs {
		return "B"
	}
	return "s"
}

// value returns a sample's value, in the view's unit.
func (v *View) value(p *profile.Profile, s *profile.Sample) float64 {
	i, _ := v.Kind.index(p) // cannot fail: checked when the profile was read
	one := float64(s.Value[i])
	if v.Unit == "s" {
		one /= 1e9
	}
	return one
}

func (v *View) sum(p *profile.Profile) (total float64) {
	for _, s := range p.Sample {
		total += v.value(p, s)
	}
	return total
}

// Line is a function's line. Flat is its own cost, Cum includes
// callees.
type Line struct {
	Function string `json:"function"`
	File     string `json:"file"`

	Flat       float64  `json:"flat"`
	Cum        float64  `json:"cum"`
	FlatBefore *float64 `json:"flat_before,omitempty"` // of the earlier profile; nil: none
	CumBefore  *float64 `json:"cum_before,omitempty"`
}

// FlatGrowth returns the increase of Flat; all of Flat if there was none before.
func (l Line) FlatGrowth() float64 { return growth(l.Flat, l.FlatBefore) }

// CumGrowth does the same for Cum.
func (l Line) CumGrowth() float64 { return growth(l.Cum, l.CumBefore) }

func growth(now float64, before *float64) float64 {
	if before == nil {
		return now
	}
	return now - *before
}

// Top lists the functions by their own cost, largest first; with two profiles, those that changed most first,
// up or down.
func (v *View) Top() []Line {
	lines := v.lines()
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(
			cmp.Compare(math.Abs(b.FlatGrowth()), math.Abs(a.FlatGrowth())),
			cmp.Compare(b.Cum, a.Cum),
			cmp.Compare(a.Function, b.Function),
		)
	})
	return lines
}

// lines sums both profiles by function.
func (v *View) lines() []Line {
	found := make(map[string]*Line)
	v.add(found, v.now, func(l *Line) (flat, cum *float64) { return &l.Flat, &l.Cum })
	if v.before != nil {
		v.add(found, v.before, func(l *Line) (flat, cum *float64) { return l.FlatBefore, l.CumBefore })
	}
	var lines []Line
	for _, l := range found {
		lines = append(lines, *l)
	}
	return lines
}

func (v *View) add(found map[string]*Line, p *profile.Profile, columns func(*Line) (flat, cum *float64)) {
	for _, s := range p.Sample {
		value := v.value(p, s)
		if value == 0 {
			continue
		}
		seen := make(map[string]bool) // a recursive function counts once
		for depth, frame := range frames(s) {
			at := frame.Function.Name
			l := found[at]
			if l == nil {
				l = &Line{Function: at, File: frame.Function.Filename}
				if v.before != nil {
					l.FlatBefore, l.CumBefore = new(float64), new(float64)
				}
				found[at] = l
			}
			flat, cum := columns(l)
			if depth == 0 {
				*flat += value
			}
			if !seen[at] {
				seen[at] = true
				*cum += value
			}
		}
	}
}

// frames returns a sample's frames, innermost first. A frame without a name has its
// address.
func frames(s *profile.Sample) []profile.Line {
	var all []profile.Line
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				all = append(all, line)
			}
		}
		if len(location.Line) == 0 {
			all = append(all, profile.Line{Function: &profile.Function{Name: fmt.Sprintf("0x%x", location.Address)}})
		}
	}
	return all
}
