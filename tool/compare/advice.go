package compare

import (
	"fmt"
	"math"

	"github.com/hone-go/hone/tool/record"
)

const (
	// defaultPairs detect a difference of 5 % where runs vary by 2 %; twice as many show
	// that two are the same.
	defaultPairs = 12
	// looksAhead is how often advise doubles the number of pairs before it gives up.
	looksAhead = 3
	// unlucky is how often the true spread exceeds the one that the advice assumes.
	unlucky = 0.3
)

// advise returns how to get a clear verdict.
func (j *judgement) advise() *Advice {
	c := &j.c
	switch c.LimitedBy {
	case ByUnfit:
		if j.Unfit == record.Late {
			return &Advice{Reason: "not usable: the generator was late; give it CPUs of its own, or a larger --max-lag if that does not matter for the question"}
		}
		return &Advice{Reason: "not usable: the samples are not valid"}
	case ByValues:
		return &Advice{Reason: "values that are not positive have no ratio"}
	case ByMissing:
		return &Advice{Reason: j.lacks()}
	case ByNumber:
		return &Advice{Pairs: defaultPairs, Reason: fmt.Sprintf("%s; at least %d are needed, %d are usual", j.number(), FewestPairs, defaultPairs)}
	case ByNoFloor:
		return &Advice{Reason: "A and B were not measured alternately, and the difference between sessions on this machine is not known"}
	}
	deviation := (j.sampled.high - j.sampled.low) / 2 / tBound(j.level(), j.df) * math.Sqrt(j.df/chiSquaredBound(unlucky, j.df))
	// room is the largest half-width of an interval that settles it.
	room := max(j.tau/2, math.Abs(j.sampled.center)-deviation) - j.step
	switch {
	case j.step > 0 && room <= 0:
		return &Advice{Reason: fmt.Sprintf("more %s will not settle it; values come in steps of %g %s, %s of the median", j.things(), c.Resolution, c.Unit, percent(math.Expm1(j.step)))}
	case c.Floor != nil && j.floor > room:
		if j.Pairs == nil {
			return &Advice{Reason: fmt.Sprintf("more runs will not settle it; this machine's sessions differ by ±%s; measure alternately", percent(math.Expm1(j.floor)))}
		}
		return &Advice{Reason: fmt.Sprintf("more pairs will not settle it; this machine's rebuilds differ by ±%s; measure in several sessions", percent(math.Expm1(j.floor)))}
	}
	for i := 1; i <= looksAhead; i++ {
		times, level := math.Ldexp(1, i), j.share*j.rules.alpha(j.rules.Look+i)
		if tBound(level, times*(j.df+1)-1)*deviation/math.Sqrt(times) <= room {
			return &Advice{Pairs: j.planned() << i, Reason: fmt.Sprintf("about %d %s in all would settle it", j.planned()<<i, j.things())}
		}
	}
	return &Advice{Reason: fmt.Sprintf("it may take more than %d %s; make each run longer, or the machine quieter", j.planned()<<looksAhead, j.things())}
}

// things names what to measure more of.
func (j *judgement) things() string {
	if j.Pairs != nil {
		return "pairs"
	}
	return "runs of each"
}

// number describes how many runs the verdict rests on.
func (j *judgement) number() string {
	if j.Pairs != nil {
		return fmt.Sprintf("%d pairs", j.c.Pairs)
	}
	return fmt.Sprintf("%d and %d runs", len(j.c.A), len(j.c.B))
}

// lacks describes which side's values are missing.
func (j *judgement) lacks() string {
	if j.Pairs != nil {
		return fmt.Sprintf("%d of %d pairs have it (A lacks %d, B %d)", j.c.Pairs, len(j.Pairs), j.c.MissingA, j.c.MissingB)
	}
	return fmt.Sprintf("%d of %d runs of A and %d of %d of B have it", len(j.c.A), len(j.A), len(j.c.B), len(j.B))
}
