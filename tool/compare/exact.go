package compare

import (
	"fmt"
	"math"
	"slices"
)

// exact compares counts that every run of a side agrees on.
const exact Method = "exact"

// counted reports whether a unit is a count that the benchmark's own code determines. Go prints it
// as a whole number, and that number is the figure: no step is hidden behind it.
func counted(unit string) bool { return unit == "allocs/op" || unit == "B/op" }

// isExact reports whether each side's runs agree on a count.
func (j *judgement) isExact() bool {
	c := &j.c
	return counted(j.Unit) && (c.LimitedBy == "" || c.LimitedBy == ByValues) && min(len(c.A), len(c.B)) >= fewestPairs &&
		agree(c.A) && agree(c.B)
}

func agree(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}

// exactP bounds the probability that two sides with the same distribution come out as they did:
// if a value has the probability q, then n of A have it and n of B another one with at most
// q^n (1-q)^n, which is greatest at q = 1/2, and the sides may be swapped.
func exactP(a, b []float64) float64 {
	return 2 * math.Pow(0.25, float64(min(len(a), len(b))))
}

// exactly judges such a count. A count that was zero has no ratio, but a verdict.
func (j *judgement) exactly() {
	c := &j.c
	a, b := c.A[0], c.B[0]
	p, ratio := 1.0, 1.0
	if a != b {
		p, ratio = exactP(c.A, c.B), b/a
	}
	if a != b && p > j.level() {
		c.LimitedBy = ByNumber
		c.Advice = &Advice{Pairs: usualPairs, Reason: fmt.Sprintf("always %g and %g, but %s are too few among so many figures; %d are usual", a, b, j.number(), usualPairs)}
		return
	}
	c.Method, c.LimitedBy = exact, BySpread
	c.P, c.PFamily = &p, new(min(1, p*alpha/j.level()))
	if !math.IsInf(ratio, 0) {
		c.Ratio, c.Low, c.High = &ratio, &ratio, &ratio
	}
	switch {
	case a == b, ratio > 0 && math.Abs(math.Log(ratio)) < j.tau:
		c.Verdict = Same
	case (b > a) == (j.Better == Higher):
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
}

// exactWords is Words of an exact count.
func (c *Change) exactWords(tolerance float64) string {
	a, b := c.A[0], c.B[0]
	switch {
	case a == b:
		return "same: exactly equal"
	case c.Verdict == Same:
		return fmt.Sprintf("same within %s: %s %%, exact", percent(tolerance), signed(*c.Ratio-1))
	case c.Ratio == nil:
		return fmt.Sprintf("%s: from %g to %g, exact; %s", c.Verdict, a, b, c.runs())
	}
	return fmt.Sprintf("%s: %s %%, exact; %s", c.Verdict, signed(*c.Ratio-1), c.runs())
}
