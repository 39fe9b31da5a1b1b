// Package compare reports whether B differs from A, by how much, and with what
// confidence.
//
// One value is one run of a fresh process: samples within a run are correlated and count
// as one. Pairs of runs, A and B right after each other, are best, because drift and
// interference affect both.
//
// Each figure has one interval. The estimate, p and the verdict follow from it, so they
// cannot disagree. The intervals are simultaneous: in at most one comparison of twenty is
// any verdict of any figure wrong, whether it is better, worse or same. TestSimulated
// enforces that.
package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// alpha is the probability that any verdict of a comparison is wrong.
const alpha = 0.05

// FewestPairs are needed for a verdict.
const FewestPairs = 5

// Figure is a quantity measured on both sides, once per run.
type Figure struct {
	Name   string
	Unit   string
	Better string // as in record.Metric. Zero: record.Lower
	// Primary figures weigh three times as much as others: they get a larger share of
	// alpha.
	Primary bool
	// Pairs are of runs that were measured alternately. Nil: they were not, and A and B
	// hold the values.
	Pairs []Pair
	A, B  []float64 // NaN: that run has no value
	// Unfit figures are shown, not judged.
	Unfit record.Unfit
	// Sessions are those of the same program against itself on this machine.
	Sessions []Session
	// Noise is the relative difference up to which the caller considers two builds of the
	// same source equal. 0: only Sessions determine that.
	Noise float64
}

// Pair is the values of two runs measured right after each other.
type Pair struct {
	ID   int
	A, B float64 // NaN: that run has no value
}

// Rules set how to judge. The zero value works.
type Rules struct {
	// Tolerance is the relative difference that does not matter: B is the same as A if
	// the difference is certainly smaller. 0: 3 %; negative: none.
	Tolerance float64
	// Look counts the looks at the same question: first at n pairs, then at 2n, 4n and so
	// on. 0: the first.
	Look int
	// Comparisons is how many comparisons alpha is for, as of several programs with one. 0: 1.
	Comparisons int
}

// alpha returns the share of alpha for a look at one of the comparisons.
func (r Rules) alpha(look int) float64 { return alphaOf(look) / float64(max(1, r.Comparisons)) }

// Comparison holds the result for all figures.
type Comparison struct {
	Family    Family   `json:"family"`
	Tolerance float64  `json:"tolerance"`
	Scope     Scope    `json:"scope"`
	Changes   []Change `json:"changes"`
}

// Family is how alpha is divided among figures and looks.
type Family struct {
	Figures   int     `json:"figures"`
	Alpha     float64 `json:"alpha"` // for all figures and all looks
	Look      int     `json:"look"`
	Schedule  []int   `json:"schedule"` // pairs, or runs per side, at each look
	AlphaLook float64 `json:"alpha_look"`
}

// Scope is where the verdicts apply.
type Scope string

// The scopes.
const (
	ThisSession Scope = "session" // these builds, in this session
	ThisMachine Scope = "machine" // also other builds of the same sources on this machine
)

// Compare judges the figures. Pass every figure that was meant to be measured, including
// those without values.
func (r Rules) Compare(figures []Figure) *Comparison {
	r.Look = max(1, r.Look)
	r.Tolerance = cmp.Or(r.Tolerance, 0.03)
	c := &Comparison{Tolerance: max(0, r.Tolerance), Scope: ThisMachine, Changes: make([]Change, len(figures))}
	c.Family = Family{Figures: len(figures), Alpha: alpha, Look: r.Look, AlphaLook: r.alpha(r.Look)}
	weights, most := 0.0, 0
	for i := range figures {
		weights += weight(&figures[i])
		most = max(most, figures[i].planned())
	}
	for look := 1; look <= r.Look+looksAhead; look++ {
		c.Family.Schedule = append(c.Family.Schedule, int(math.Ceil(math.Ldexp(float64(most), look-r.Look))))
	}
	for i := range figures {
		f := &figures[i]
		j := &judgement{Figure: f, rules: r, share: weight(f) / weights, tau: math.Log1p(c.Tolerance)}
		c.Changes[i] = j.change()
		if c.Changes[i].Floor == nil && c.Changes[i].Method != exact {
			c.Scope = ThisSession
		}
	}
	return c
}

// alphaOf returns the share of alpha for a look. The shares of all looks, however many,
// add up to alpha.
func alphaOf(look int) float64 {
	if look == 1 {
		return 0.8 * alpha
	}
	return math.Ldexp(0.2*alpha, 1-look)
}

func weight(f *Figure) float64 {
	if f.Primary {
		return 3
	}
	return 1
}

// planned returns the number of pairs, or of runs of the smaller side.
func (f *Figure) planned() int {
	if f.Pairs != nil {
		return len(f.Pairs)
	}
	return min(len(f.A), len(f.B))
}

// Verdict is the judgement of one figure.
type Verdict string

// The verdicts.
const (
	Same    Verdict = "same"    // the difference is smaller than the tolerance
	Better  Verdict = "better"  // B is better
	Worse   Verdict = "worse"   // B is worse
	Unclear Verdict = "unclear" // none of these is certain
)

// Limit is what determines the width of an interval, or keeps the verdict unclear.
type Limit string

// The limits.
const (
	BySpread     Limit = "spread"     // between runs: more runs make it narrower
	ByFloor      Limit = "floor"      // how much builds of the same source differ
	ByResolution Limit = "resolution" // of the values: they come in steps
	ByMissing    Limit = "missing"    // too many values, or more on one side, which is rarely chance
	ByNumber     Limit = "number"     // too few runs
	ByNoFloor    Limit = "no-floor"   // the runs are not pairs, and the difference between sessions is unknown
	ByUnfit      Limit = "unfit"      // the generator was late, or the samples were disturbed
	ByValues     Limit = "values"     // not all are positive: there is no ratio
)

// Change is the result for one figure. What is not available is nil.
type Change struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Better  string `json:"better"`
	Primary bool   `json:"primary"`
	// Pairs is how many pairs have both values, PairIDs lists them. Unpaired runs have
	// none.
	Pairs    int   `json:"pairs"`
	MissingA int   `json:"missing_a"`
	MissingB int   `json:"missing_b"`
	PairIDs  []int `json:"pair_ids"`
	// A and B are the values that count, for pairs in the order of PairIDs.
	A       []float64 `json:"a"`
	B       []float64 `json:"b"`
	MedianA *float64  `json:"median_a"`
	MedianB *float64  `json:"median_b"`
	Method  Method    `json:"method,omitempty"`
	// Ratio is B divided by A. The true ratio lies between Low and High except with
	// probability Level.
	Ratio *float64 `json:"ratio"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Level float64  `json:"level"`
	// P is at most Level exactly if the interval excludes 1. PFamily is P scaled so that
	// 0.05 is the limit for all figures together.
	P         *float64 `json:"p"`
	PFamily   *float64 `json:"p_family"`
	Verdict   Verdict  `json:"verdict"`
	LimitedBy Limit    `json:"limited_by"`
	// Resolution is the step of the values if the runs of a side differ by less than
	// that, so that it widened the interval. 0: it did not.
	Resolution float64 `json:"resolution"`
	Floor      *Floor  `json:"floor"`
	Advice     *Advice `json:"advice"` // of an unclear verdict
}

// Advice is how to get a clear verdict.
type Advice struct {
	Pairs  int    `json:"pairs"` // the approximate number that would settle it; 0: more will not
	Reason string `json:"reason"`
}

// judgement is a figure whose Change is being computed.
type judgement struct {
	*Figure
	rules Rules
	share float64 // of alpha
	tau   float64 // log of the tolerance
	c     Change

	sampled estimate // from the runs alone
	df      float64  // of sampled, for the advice
	step    float64  // log of the step that rounding hides
	floor   float64  // half-width of the noise floor's interval
}

func (j *judgement) level() float64 { return j.share * j.rules.alpha(j.rules.Look) }

func (j *judgement) change() Change {
	j.c = Change{Name: j.Name, Unit: j.Unit, Better: j.Better, Primary: j.Primary, PairIDs: []int{}, A: []float64{}, B: []float64{}, Level: j.level(), Verdict: Unclear}
	j.c.Better = cmp.Or(j.c.Better, record.Lower)
	j.takeValues()
	j.c.LimitedBy = j.unfit()
	if j.isExact() {
		j.exactly()
		return j.c
	}
	if j.c.LimitedBy == ByUnfit || min(len(j.c.A), len(j.c.B)) < FewestPairs || !positive(j.c.A, j.c.B) {
		j.c.Advice = j.advise()
		return j.c
	}
	e := j.estimate()
	j.c.Ratio, j.c.Low, j.c.High = new(math.Exp(e.center)), new(math.Exp(e.low)), new(math.Exp(e.high))
	p := e.p(0)
	j.c.P, j.c.PFamily = &p, new(min(1, p*alpha/j.level()))
	if j.c.LimitedBy == "" {
		j.c.LimitedBy = j.widest()
		j.c.Verdict = j.verdict(e)
	}
	if j.c.Verdict == Unclear {
		j.c.Advice = j.advise()
	}
	return j.c
}

// takeValues collects the values that count, and counts the missing ones.
func (j *judgement) takeValues() {
	c := &j.c
	for _, p := range j.Pairs {
		if missing(p.A) {
			c.MissingA++
		}
		if missing(p.B) {
			c.MissingB++
		}
	}
	for _, p := range wholePairs(j.Pairs) {
		c.PairIDs, c.A, c.B = append(c.PairIDs, p.ID), append(c.A, p.A), append(c.B, p.B)
	}
	c.Pairs = len(c.PairIDs)
	if j.Pairs == nil {
		c.A, c.B = present(j.A), present(j.B)
		c.MissingA, c.MissingB = len(j.A)-len(c.A), len(j.B)-len(c.B)
	}
	if len(c.A) > 0 {
		c.MedianA = new(figure.Median(c.A))
	}
	if len(c.B) > 0 {
		c.MedianB = new(figure.Median(c.B))
	}
}

func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), missing)
}

// unfit returns why the values cannot give a verdict; empty if they can. Slow runs lose
// values more often than others, so the remaining values are biased.
func (j *judgement) unfit() Limit {
	c := &j.c
	used, all := c.Pairs, len(j.Pairs)
	if j.Pairs == nil {
		used, all = len(c.A)+len(c.B), len(j.A)+len(j.B)
	}
	switch {
	case j.Unfit != "":
		return ByUnfit
	case 4*(all-used) > all || max(c.MissingA-c.MissingB, c.MissingB-c.MissingA) > 2:
		return ByMissing
	case min(len(c.A), len(c.B)) < FewestPairs:
		return ByNumber
	case !positive(c.A, c.B):
		return ByValues
	}
	return ""
}

// positive reports whether all values have a logarithm.
func positive(a, b []float64) bool {
	return !slices.ContainsFunc(slices.Concat(a, b), func(v float64) bool { return v <= 0 })
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

// estimate computes the complete interval, and fills in what limits it.
func (j *judgement) estimate() estimate {
	a, b := logs(j.c.A), logs(j.c.B)
	if j.Pairs != nil {
		j.sampled, j.df = ofPairs(minus(b, a), j.level()), float64(len(a)-1)
	} else {
		j.sampled, j.df = ofRuns(a, b, j.level()), float64(len(a)+len(b)-2)
	}
	e := j.sampled
	j.c.Method = e.method
	j.c.Floor = floorOf(j.Figure, e.method)
	if j.Noise > 0 {
		j.c.Floor = &Floor{Given: j.Noise}
	}
	if j.c.Floor != nil {
		f := j.c.Floor.around(e.center, j.level())
		j.floor = f.high - f.center
		e = e.hull(f)
	} else if j.Pairs == nil && j.c.LimitedBy == "" {
		j.c.LimitedBy = ByNoFloor
	}
	if !Counted(j.Unit) {
		j.c.Resolution = hiddenStep(j.c.A, j.c.B)
	}
	if j.c.Resolution > 0 {
		j.step = math.Log1p(j.c.Resolution/min(*j.c.MedianA, *j.c.MedianB)) * (1 + 1e-9) // so that a difference of exactly one step is inside
		e = e.widened(j.step)
	}
	return e
}

func (j *judgement) verdict(e estimate) Verdict {
	switch {
	case -j.tau < e.low && e.high < j.tau:
		return Same
	case e.holds(0):
		return Unclear
	case (e.center > 0) == (j.Better == record.Higher):
		return Better
	}
	return Worse
}

// widest returns the largest contribution to the interval.
func (j *judgement) widest() Limit {
	sampled := (j.sampled.high - j.sampled.low) / 2
	switch {
	case j.step > max(sampled, j.floor):
		return ByResolution
	case j.floor > sampled:
		return ByFloor
	}
	return BySpread
}
