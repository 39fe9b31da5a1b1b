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
		agree(c.A) && agree(c.B) && exactP(c.A, c.B) <= j.level()
}

func agree(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}

// exactP bounds the probability that two sides with the same distribution come out as they did:
// if a value has the probability q, then n of A have it and n of B another one with at most
// q^n (1-q)^n, which is greatest at q = 1/2, and the sides may be swapped. It is 0 if all are
// equal, which isExact accepts at any level.
func exactP(a, b []float64) float64 {
	if a[0] == b[0] {
		return 0
	}
	return 2 * math.Pow(0.25, float64(min(len(a), len(b))))
}

// exactly judges such a count. A count that was zero has no ratio, but a verdict.
func (j *judgement) exactly() {
	c := &j.c
	a, b := c.A[0], c.B[0]
	c.Method, c.LimitedBy = exact, BySpread
	p := 1.0
	if a != b {
		p = exactP(c.A, c.B)
	}
	c.P, c.PFamily = &p, new(min(1, p*alpha/j.level()))
	ratio := 1.0
	if a != b {
		ratio = b / a
	}
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
