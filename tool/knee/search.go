package knee

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// mostInvalid is how many invalid trials of one load show that it cannot be offered.
const mostInvalid = 3

// evidence is what the trials of one load show.
type evidence struct {
	load          float64
	fullMet       int
	fullMissed    int
	invalid       int
	short         bool // there was a valid short trial
	shortMet      bool // the last of them met the goals
	everMet       bool // some valid trial did
	mostConfirmed int  // full trials needed
}

// verdict is the judgement of a load, and whether it is certain.
type verdict uint8

const (
	met verdict = iota
	missed
	blocked // it could not be offered
)

func (e *evidence) add(t Trial) {
	if t.Invalid {
		e.invalid++
		return
	}
	e.everMet = e.everMet || t.Met
	switch {
	case t.Full && t.Met:
		e.fullMet++
	case t.Full:
		e.fullMissed++
	default:
		e.short, e.shortMet = true, t.Met
	}
}

func (e *evidence) verdict() (v verdict, certain bool) {
	switch {
	case e.fullMissed > 0:
		return missed, true
	case e.fullMet >= e.mostConfirmed:
		return met, true
	case e.invalid >= mostInvalid:
		return blocked, true
	case e.fullMet > 0 || e.short && e.shortMet:
		return met, false
	case e.short:
		return missed, false
	}
	return blocked, false
}

// search is what a search knows: the loads tried, ascending, and the range that they leave.
type search struct {
	plan      Plan
	tried     []evidence
	low, high *evidence // the highest load that met the goal below the lowest that missed; nil: none
	// fooled counts loads that short trials met and full trials refuted. From mostFooled
	// on, short trials are not trusted.
	fooled int
}

// mostFooled is more than chance: trials that are too short for a queue to grow meet
// every goal, and refuting them load by load would take full trials without end.
const mostFooled = 2

func (p Plan) search(made []Trial) *search {
	s := &search{plan: p}
	for _, t := range made {
		i, known := slices.BinarySearchFunc(s.tried, t.Load, func(e evidence, load float64) int { return cmp.Compare(e.load, load) })
		if !known {
			s.tried = slices.Insert(s.tried, i, evidence{load: t.Load, mostConfirmed: p.Confirm})
		}
		s.tried[i].add(t)
	}
	s.fooled = fooled(s.tried)
	for i := range s.tried {
		e := &s.tried[i]
		if v, _ := e.verdict(); v != met {
			s.high = e
			break
		}
		if e.fullMet > 0 || s.fooled < mostFooled {
			s.low = e
		}
	}
	return s
}

func fooled(tried []evidence) (n int) {
	shortMet := false // at this load or above
	for _, e := range slices.Backward(tried) {
		shortMet = shortMet || e.short && e.shortMet
		if v, certain := e.verdict(); shortMet && certain && v != met {
			n++
		}
	}
	return n
}

// next returns the trial that advances the search.
func (s *search) next() (Step, bool) {
	switch {
	case len(s.tried) == 0:
		return Step{Load: s.plan.From}, true
	case s.high == nil && s.low.load < s.plan.To:
		return Step{Load: s.round(min(2*s.low.load, s.plan.To), s.low.load)}, true
	case s.high == nil:
		return s.confirm(s.low)
	case s.high.invalid == 1 && !s.high.short && s.high.fullMet+s.high.fullMissed == 0:
		return Step{Load: s.high.load}, true // a single miss may be chance
	case s.fooled >= mostFooled && s.below() < s.high.load:
		return Step{Load: s.below(), Full: true}, true
	case s.low != nil && !s.narrow():
		return Step{Load: s.round(math.Sqrt(s.low.load*s.high.load), s.low.load)}, true
	}
	if step, more := s.confirm(s.high); more || s.low == nil {
		return step, more
	}
	return s.confirm(s.low)
}

// below returns where to run a full trial that should meet the goal when short ones are
// not trusted: below the range's upper end by a distance that doubles every time, and
// then in the middle. It returns the upper end itself if no load is left to try.
func (s *search) below() float64 {
	low := s.plan.From
	if s.low != nil {
		low = s.low.load
	}
	far := s.high.load * math.Pow(1+s.plan.Width, -math.Exp2(float64(s.fooled-mostFooled+1)))
	switch {
	case s.low != nil && s.narrow():
		return s.high.load
	case far > low*(1+s.plan.Width):
		return s.round(far, low)
	case s.low != nil:
		return s.round(math.Sqrt(low*s.high.load), low)
	}
	return s.plan.From // it may be the upper end
}

// confirm requests a full trial of a load that is not certain.
func (s *search) confirm(e *evidence) (Step, bool) {
	_, certain := e.verdict()
	return Step{Load: e.load, Full: true}, !certain
}

// narrow reports whether the range is narrow enough.
func (s *search) narrow() bool {
	return s.high.load <= s.low.load*(1+s.plan.Width) || s.plan.Whole && s.high.load-s.low.load <= 1
}

// significant digits of a load, if they suffice
const digits = 4

// round rounds a load to an integer, or to a few digits, if it stays within the range
// above low.
func (s *search) round(load, low float64) float64 {
	top := s.plan.To
	if s.high != nil {
		top = s.high.load
	}
	within := func(v float64) bool { return v > low && (v < top || s.high == nil && v <= top) }
	if s.plan.Whole {
		return min(max(math.Round(load), low+1), top)
	}
	text := strconv.FormatFloat(load, 'g', digits, 64)
	if readable, err := strconv.ParseFloat(text, 64); err == nil && within(readable) {
		return readable
	}
	return load
}

// knee returns what the search has found.
func (s *search) knee() Knee {
	var k Knee
	if s.low != nil {
		k.Met = s.low.load
	}
	highVerdict := met
	if s.high != nil {
		highVerdict, _ = s.high.verdict()
	}
	for _, e := range s.tried {
		if v, _ := e.verdict(); v == missed && k.Missed == 0 {
			k.Missed = e.load
		} else if e.everMet && k.Missed > 0 {
			k.Again = e.load
		}
	}
	if highVerdict == blocked {
		k.Invalid = s.high.load
	}
	if _, more := s.next(); more {
		return k
	}
	switch {
	case s.high == nil:
		k.State = Above
	case highVerdict == blocked:
		k.State = Hidden
	case s.low == nil:
		k.State = Below
	default:
		k.State = Found
	}
	return k
}
