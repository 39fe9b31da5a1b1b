// Package compare says whether B differs from A, by how much, and how sure that
// is.
//
// One value is one run of a fresh process: what happens within a run repeats
// itself and proves nothing. Best are pairs of runs, A and B right after each other
// in random order, so that what the machine does meanwhile happens to both.
//
// A difference counts when three things are true: chance would seldom make it,
// it is larger than what the user said does not matter, and it is larger than what two
// runs of the same thing were seen to differ by.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Metric is what was measured of both sides, one value a run.
type Metric struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Better Direction `json:"better"`
	// A and B are the values. Of pairs, A[i] and B[i] are one.
	A []float64 `json:"a"`
	B []float64 `json:"b"`
	// Noise is the relative difference that runs of the same thing show here. 0:
	// not known.
	Noise float64 `json:"noise"`
}

// Direction says which values of a metric are good. Zero: lower ones.
type Direction string

// The directions.
const (
	Lower  Direction = "lower"
	Higher Direction = "higher"
)

// Rules are how to judge. The zero value works, for runs that are no pairs.
type Rules struct {
	Paired bool
	// Alpha is how often a difference may be found where there is none. 0: 0.05.
	Alpha float64
	// Tolerance is the relative difference that does not matter. 0: 0.01; below: none.
	Tolerance float64
}

// Verdict is what became of one metric.
type Verdict string

// The verdicts.
const (
	Same    Verdict = "same"    // no difference that matters was shown
	Better  Verdict = "better"  // B is
	Worse   Verdict = "worse"   // B is
	Unclear Verdict = "unclear" // it could not have been shown: see the warnings
)

// Change is what a comparison found of one metric. A figure that cannot be had
// is nil.
type Change struct {
	Metric
	MedianA *float64 `json:"median_a"`
	MedianB *float64 `json:"median_b"`
	// Ratio is B to A: of pairs the Hodges–Lehmann estimate, else of the medians.
	Ratio *float64 `json:"ratio"`
	// Low and High bound the ratio of pairs, but for one time in 1/Alpha.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// P is how often chance alone makes a difference at least as large. For all
	// metrics but the first it is larger by what it takes that asking for many of
	// them does not find more (Holm).
	P        *float64  `json:"p"`
	Verdict  Verdict   `json:"verdict"`
	Warnings []Warning `json:"warnings"`
}

// Warning is what to know before believing a Change.
type Warning struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// Kind is for programs.
type Kind string

// The kinds of warnings.
const (
	TooFew      Kind = "too-few"      // no result could have been significant
	NotPositive Kind = "not-positive" // zeros, negative values or none at all: there is no ratio
	NoPairs     Kind = "no-pairs"     // as many values of A as of B are needed
	NoNoise     Kind = "no-noise"     // nobody has measured how much runs of the same thing differ
	OldNoise    Kind = "old-noise"    // it was measured long ago
	SoftDiffers Kind = "soft-differs" // a setting differs that may make a small difference
)

// Compare judges each metric. The first one is what the comparison is about; the
// others are looked at beside it.
func (r Rules) Compare(metrics []Metric) []Change {
	if r.Alpha == 0 {
		r.Alpha = 0.05
	}
	if r.Tolerance == 0 {
		r.Tolerance = 0.01
	}
	changes := make([]Change, len(metrics))
	least := make([]float64, len(metrics)) // the smallest P that was possible
	for i, m := range metrics {
		changes[i] = Change{Metric: m, Verdict: Unclear, Warnings: []Warning{}}
		if r.Paired {
			least[i] = r.pairs(&changes[i])
		} else {
			least[i] = r.apart(&changes[i])
		}
	}
	if len(changes) > 1 {
		factor := holm(changes[1:])
		for i := range least[1:] {
			least[1+i] *= factor
		}
	}
	for i := range changes {
		r.judge(&changes[i], least[i])
	}
	return changes
}

// judge gives the verdict, where there is a P.
func (r Rules) judge(c *Change, least float64) {
	if c.P == nil {
		return
	}
	if least > r.Alpha {
		c.warn(TooFew, "with %d and %d runs, chance alone makes any result as likely as %.2g; make more runs", len(c.A), len(c.B), least)
		return
	}
	c.Verdict = Same
	if c.Noise == 0 {
		c.warn(NoNoise, "how much runs of the same thing differ here is not known")
	}
	if *c.P > r.Alpha || math.Abs(*c.Ratio-1) <= max(r.Tolerance, c.Noise) {
		return
	}
	c.Verdict = Worse
	if (*c.Ratio > 1) == (c.Metric.Better == Higher) {
		c.Verdict = Better
	}
}

func (c *Change) warn(k Kind, format string, args ...any) {
	c.Warnings = append(c.Warnings, Warning{k, fmt.Sprintf(format, args...)})
}

// pairs fills c in from pairs and returns the smallest P that so many can have.
func (r Rules) pairs(c *Change) (least float64) {
	if len(c.A) != len(c.B) {
		c.warn(NoPairs, "%d values of A and %d of B are no pairs", len(c.A), len(c.B))
		return 1
	}
	if !r.positive(c) {
		return 1
	}
	logs := make([]float64, len(c.A))
	for i := range logs {
		logs[i] = math.Log(c.B[i] / c.A[i])
	}
	center, low, high, bounded := hodgesLehmann(logs, r.Alpha)
	c.Ratio = of(math.Exp(center))
	if bounded {
		c.Low, c.High = of(math.Exp(low)), of(math.Exp(high))
	}
	c.P = of(signFlip(logs))
	return math.Ldexp(2, -len(logs))
}

// apart fills c in from runs that are no pairs, as benchstat does.
func (r Rules) apart(c *Change) (least float64) {
	if !r.positive(c) {
		return 1
	}
	a := benchmath.NewSample(slices.Clone(c.A), &benchmath.DefaultThresholds)
	b := benchmath.NewSample(slices.Clone(c.B), &benchmath.DefaultThresholds)
	c.Ratio = of(*c.MedianB / *c.MedianA)
	c.P = of(benchmath.AssumeNothing.Compare(a, b).P)
	return 2 / choose(len(c.A)+len(c.B), len(c.A))
}

// positive fills in the medians and reports whether there can be a ratio.
func (r Rules) positive(c *Change) bool {
	if len(c.A) == 0 || len(c.B) == 0 {
		c.warn(NotPositive, "there are no values")
		return false
	}
	c.MedianA, c.MedianB = of(median(c.A)), of(median(c.B))
	if least := min(slices.Min(c.A), slices.Min(c.B)); !(least > 0) || math.IsInf(max(slices.Max(c.A), slices.Max(c.B)), 1) {
		c.warn(NotPositive, "values that are not positive numbers have no ratio")
		return false
	}
	return true
}

func of(x float64) *float64 { return &x }

// holm makes each P what it is among so many, and returns the factor of the
// smallest.
func holm(changes []Change) (most float64) {
	var asked []*Change
	for i := range changes {
		if changes[i].P != nil {
			asked = append(asked, &changes[i])
		}
	}
	slices.SortStableFunc(asked, func(a, b *Change) int { return cmp.Compare(*a.P, *b.P) })
	so := 0.0
	for i, c := range asked {
		so = max(so, min(1, *c.P*float64(len(asked)-i)))
		c.P = of(so)
	}
	return float64(len(asked))
}
