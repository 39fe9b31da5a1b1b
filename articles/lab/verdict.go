package lab

import (
	"slices"

	"github.com/hone-go/hone/tool/figure"
)

// Verdict is the judgement of a claim.
type Verdict string

// The verdicts.
const (
	Holds        Verdict = "holds"
	HoldsLess    Verdict = "holds less" // the effect is present, and clearly smaller
	Contradicted Verdict = "contradicted"
	Untold       Verdict = "inconclusive"
	NoClaim      Verdict = "no claim" // a baseline of other rows
)

// fewestRounds is how many rounds it takes to state that one thing is better in all.
const fewestRounds = 3

// enough is the share of a claimed effect at which the claim holds.
const enough = 0.8

// spread holds the results of all rounds. The zero spread is no figure.
type spread struct{ rounds []float64 }

func (s spread) known() bool { return len(s.rounds) > 0 }

func (s spread) median() float64 { return figure.Median(s.rounds) }

// over is s divided by t, round by round: interference in a round affects both.
func (s spread) over(t spread) (ratio spread) {
	for i := range min(len(s.rounds), len(t.rounds)) {
		if t.rounds[i] != 0 {
			ratio.rounds = append(ratio.rounds, s.rounds[i]/t.rounds[i])
		}
	}
	return ratio
}

func (s spread) times(factor float64) (scaled spread) {
	for _, v := range s.rounds {
		scaled.rounds = append(scaled.rounds, v*factor)
	}
	return scaled
}

// row is a row with its figures, not judged yet.
func (s spread) row(what, unit, why string) Row {
	r := Row{What: what, Unit: unit, Verdict: Untold, Why: why}
	if s.known() {
		r.Measured, r.Low, r.High = new(s.median()), new(slices.Min(s.rounds)), new(slices.Max(s.rounds))
	}
	return r
}

// beside adds the article's figure to the measured one.
func (r Row) beside(article float64) Row {
	r.Article = &article
	if r.Measured != nil && article != 0 {
		r.Ratio, r.RatioTo = new(*r.Measured/article), "the article"
	}
	return r
}

// to compares the measured figure with another one of this lab.
func (r Row) to(ratio spread, what string) Row {
	if ratio.known() {
		r.Ratio, r.RatioTo = new(ratio.median()), what
	}
	return r
}

// as gives a row its verdict.
func (r Row) as(v Verdict) Row {
	if r.Measured != nil {
		r.Verdict = v
	}
	return r
}

// gained judges a gain, such as 1.4 times the requests, against the article's. Below 1
// the claim is a loss.
func gained(article float64, here spread) Verdict {
	if len(here.rounds) < fewestRounds {
		return Untold
	}
	if article < 1 {
		return gained(1/article, inverse(here))
	}
	median := here.median()
	switch {
	case slices.Max(here.rounds) <= 1:
		return Contradicted
	case slices.Min(here.rounds) <= 1:
		return Untold
	case median-1 >= enough*(article-1):
		return Holds
	}
	return HoldsLess
}

// better judges a claim without a figure: that a ratio is over 1.
func better(ratio spread) Verdict {
	switch {
	case len(ratio.rounds) < fewestRounds:
		return Untold
	case slices.Min(ratio.rounds) > 1:
		return Holds
	case slices.Max(ratio.rounds) < 1:
		return Contradicted
	}
	return Untold
}

// larger judges the same for figures that do not vary between rounds, such as bytes, and
// so are measured once.
func larger(ratio spread) Verdict {
	switch r := ratio.median(); {
	case r > 1.02:
		return Holds
	case r < 0.98:
		return Contradicted
	}
	return Untold
}

func inverse(s spread) (turned spread) {
	for _, v := range s.rounds {
		if v != 0 {
			turned.rounds = append(turned.rounds, 1/v)
		}
	}
	return turned
}
