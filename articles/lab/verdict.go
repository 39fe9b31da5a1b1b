package lab

import (
	"slices"

	"github.com/hone-go/hone/tool/figure"
)

// verdict is the judgement of a claim.
type verdict string

// The verdicts.
const (
	holds        verdict = "holds"
	holdsLess    verdict = "holds less" // the effect is present, and clearly smaller
	contradicted verdict = "contradicted"
	untold       verdict = "inconclusive"
	noClaim      verdict = "no claim" // a baseline of other rows
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
func (s spread) row(what, unit, why string) row {
	return row{what: what, unit: unit, measured: s, verdict: untold, why: why}
}

// beside adds the article's figure to the measured one.
func (r row) beside(article float64) row {
	r.article = article
	if article != 0 {
		r.ratio, r.ratioTo = r.measured.times(1/article), "the article"
	}
	return r
}

// to compares the measured figure with another one of this lab.
func (r row) to(ratio spread, what string) row {
	r.ratio, r.ratioTo = ratio, what
	return r
}

// as gives a row its verdict.
func (r row) as(v verdict) row {
	if r.measured.known() {
		r.verdict = v
	}
	return r
}

// gained judges a gain, such as 1.4 times the requests, against the article's. Below 1
// the claim is a loss.
func gained(article float64, here spread) verdict {
	if len(here.rounds) < fewestRounds {
		return untold
	}
	if article < 1 {
		return gained(1/article, inverse(here))
	}
	median := here.median()
	switch {
	case slices.Max(here.rounds) <= 1:
		return contradicted
	case slices.Min(here.rounds) <= 1:
		return untold
	case median-1 >= enough*(article-1):
		return holds
	}
	return holdsLess
}

// better judges a claim without a figure: that a ratio is over 1.
func better(ratio spread) verdict {
	switch {
	case len(ratio.rounds) < fewestRounds:
		return untold
	case slices.Min(ratio.rounds) > 1:
		return holds
	case slices.Max(ratio.rounds) < 1:
		return contradicted
	}
	return untold
}

// larger judges the same for figures that do not vary between rounds, such as bytes, and
// so are measured once.
func larger(ratio spread) verdict {
	switch r := ratio.median(); {
	case r > 1.02:
		return holds
	case r < 0.98:
		return contradicted
	}
	return untold
}

func inverse(s spread) (turned spread) {
	for _, v := range s.rounds {
		if v != 0 {
			turned.rounds = append(turned.rounds, 1/v)
		}
	}
	return turned
}

// one is a figure of one round.
func one(v float64) spread { return spread{[]float64{v}} }

// first returns holds, holdsLess or, if neither is true, contradicted.
func first(whole, part bool) verdict {
	switch {
	case whole:
		return holds
	case part:
		return holdsLess
	}
	return contradicted
}

const perRequest = "µs of CPU"
