package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/hone-go/hone/tool/record"
)

// exact compares counts that every run of a side agrees on.
const exact Method = "exact"

// Counted reports whether a unit is a count that the benchmark's own code determines. Go prints it
// as a whole number, and that number is the figure: no step is hidden behind it.
func Counted(unit string) bool { return unit == "allocs/op" || unit == "B/op" }

// isExact reports whether each side's runs agree on a count, or have counts of nothing and no count in
// common with the other side: a buffer that grows once has some bytes in one run of several.
func (j *judgement) isExact() bool {
	c := &j.c
	if !Counted(j.Unit) || min(len(c.A), len(c.B)) < FewestPairs || c.LimitedBy != "" && c.LimitedBy != ByValues {
		return false
	}
	return agree(c.A) && agree(c.B) || c.LimitedBy == ByValues && apart(c.A, c.B)
}

func agree(values []float64) bool { return slices.Min(values) == slices.Max(values) }

func apart(a, b []float64) bool {
	return slices.Max(a) < slices.Min(b) || slices.Max(b) < slices.Min(a)
}

// exactP bounds the probability that two sides with the same distribution come out as they did. If a
// value has the probability q, then n of A have it and n of B another one with at most q^n (1-q)^n,
// which is greatest at q = 1/2, and the sides may be swapped. Sides that are only apart are two of
// the equally probable ways to divide the runs.
func exactP(a, b []float64) float64 {
	n := min(len(a), len(b))
	if agree(a) && agree(b) {
		return 2 * math.Pow(0.25, float64(n))
	}
	p := 2.0
	for i := range n {
		p *= float64(i+1) / float64(len(a)+len(b)-i)
	}
	return p
}

// exactly judges such a count. A count that was zero has no ratio, but a verdict.
func (j *judgement) exactly() {
	c := &j.c
	a, b := *c.MedianA, *c.MedianB
	p, ratio := 1.0, 1.0
	if a != b {
		p, ratio = exactP(c.A, c.B), b/a
	}
	if a != b && p > j.level() {
		c.LimitedBy = ByNumber
		c.Advice = &Advice{Pairs: defaultPairs, Reason: fmt.Sprintf("%g and %g, but %s are too few among so many figures; %d are usual", a, b, j.number(), defaultPairs)}
		return
	}
	c.Method, c.LimitedBy = exact, BySpread
	c.P, c.PFamily = &p, new(min(1, p*alpha/j.level()))
	if agree(c.A) && agree(c.B) && !math.IsInf(ratio, 0) {
		c.Ratio, c.Low, c.High = &ratio, &ratio, &ratio
	}
	switch {
	case a == b, c.Ratio != nil && ratio > 0 && math.Abs(math.Log(ratio)) < j.tau:
		c.Verdict = Same
	case (b > a) == (j.Better == record.Higher):
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
}

// exactWords is Words of an exact count.
func (c *Change) exactWords(tolerance float64) string {
	a, b := *c.MedianA, *c.MedianB
	switch {
	case a == b:
		return "same: exactly equal"
	case c.Verdict == Same:
		return fmt.Sprintf("same within %s: %s %%, exact", percent(tolerance), signed(*c.Ratio-1))
	case c.Ratio == nil && agree(c.A) && agree(c.B):
		return fmt.Sprintf("%s: from %g to %g, exact; %s", c.Verdict, a, b, c.runs())
	case c.Ratio == nil:
		return fmt.Sprintf("%s: from %g to %g, with no run in between; %s", c.Verdict, a, b, c.runs())
	}
	return fmt.Sprintf("%s: %s %%, exact; %s", c.Verdict, signed(*c.Ratio-1), c.runs())
}
