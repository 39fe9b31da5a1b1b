// Package knee decides which loads to try so that the highest one under which
// goals are met is found soon, makes them, and judges what they show.
//
// Plan measures nothing and keeps nothing: the trials that were made go in, and the next
// one, or what they show, comes out. Search makes them with package load.
//
//	plan := knee.Plan{From: 100}
//	var made []knee.Trial
//	for {
//		next, more := plan.Next(made)
//		if !more {
//			break
//		}
//		made = append(made, measure(next))
//	}
//	found := plan.Find(made)
//
// The load doubles until a goal is missed, then the range between the highest load
// that met it and the lowest that missed it is halved, geometrically, with short
// trials. When it is narrow enough, full trials confirm its two ends. One short
// trial is never believed: where full trials show the opposite, the search goes on.
//
// A trial whose generator could not offer the load says nothing of the target. It
// bounds the search from above, and the search goes on below. If no miss is found
// there, the knee is not known, only a load that it is not below.
package knee

import (
	"math"
	"slices"
)

// Plan is what to search for. From is required.
type Plan struct {
	// Goals is how many goals every trial is held against. Zero: 1.
	Goals int
	// From is the lowest load, and the first: above 0, and where loads are whole, 1
	// or more.
	From float64
	// To is the highest load. Zero: there is none.
	To float64
	// Width is how narrow the range must get, as a part of its lower end. Zero: 0.02.
	Width float64
	// Whole takes whole loads only, as connections are.
	Whole bool
	// Confirm is how many full trials must meet the goals before a load counts. One
	// full trial that misses is enough for the contrary. Zero: 3.
	Confirm int
	// Most is how many trials to make at most. Zero: 100, which a target that is the
	// same all the time never needs.
	Most int
}

// Step is a trial to be made.
type Step struct {
	Load float64
	// Full is a trial of the length that counts; others may be shorter.
	Full bool
	// Rest says that the trial before this one was too much for somebody: wait until
	// the target can have recovered.
	Rest bool
}

// Trial is a step and its result.
type Trial struct {
	Step
	// Met says of each goal whether it was met. It is not looked at when Invalid.
	Met []bool
	// Invalid says that the trial says nothing of the target.
	Invalid bool
}

// State is what is known of a knee.
type State uint8

const (
	// Unfinished: there are not enough trials yet.
	Unfinished State = iota
	// Found: Met was confirmed, and Missed was missed in a full trial.
	Found
	// Below: the goal was missed at Plan.From, in a full trial.
	Below
	// Above: the goal was met at Plan.To.
	Above
	// Hidden: whether the goal is met above Met cannot be known, since Invalid could
	// not be offered. Met is 0 if not even Plan.From could.
	Hidden
)

// String returns the state as in JSON: "found", "below", "above", "hidden" or
// "unfinished".
func (s State) String() string {
	names := []string{"unfinished", "found", "below", "above", "hidden"}
	return names[min(int(s), len(names)-1)]
}

// Knee is what the trials show of one goal. A load that is not known is 0.
type Knee struct {
	State   State
	Met     float64 // the highest load below Missed and Invalid that met the goal
	Missed  float64 // the lowest that missed it
	Invalid float64 // the lowest that could not be offered, if it is below Missed
	// Again is the highest load above Missed under which a trial met the goal all the
	// same: far above, the target is not the same all the time. 0: there is none.
	Again float64
}

// Result is what the trials show.
type Result struct {
	All   Knee   // of all goals at the same time
	Goals []Knee // of each
}

// Find returns what the trials show until now.
func (p Plan) Find(made []Trial) Result {
	p = p.complete()
	r := Result{All: p.search(made, all).knee()}
	for goal := range p.Goals {
		r.Goals = append(r.Goals, p.search(made, goal).knee())
	}
	return r
}

// Next returns the trial to make after those that were made. All goals together
// come first, so that a search that is cut short has found what matters most; the
// knee of each goal then needs few trials more, or none.
func (p Plan) Next(made []Trial) (next Step, more bool) {
	p = p.complete()
	if len(made) >= p.Most {
		return Step{}, false
	}
	for goal := all; goal < p.Goals; goal++ {
		if goal == 0 && p.Goals == 1 {
			break // it is all there are
		}
		if next, more = p.search(made, goal).next(); more {
			next.Rest = tooMuch(made)
			return next, true
		}
	}
	return Step{}, false
}

// complete fills in what zero stands for. It panics on what cannot be.
func (p Plan) complete() Plan {
	if !(p.From > 0) || p.Whole && p.From < 1 || p.To != 0 && p.To < p.From {
		panic("knee: the plan needs a From above 0 (1, where loads are whole), and a To above it")
	}
	if p.Whole {
		p.From = math.Ceil(p.From)
		if p.To > 0 {
			p.To = max(math.Floor(p.To), p.From)
		}
	}
	for _, field := range []struct {
		is    *int
		usual int
	}{{&p.Goals, 1}, {&p.Confirm, 3}, {&p.Most, 100}} {
		if *field.is <= 0 {
			*field.is = field.usual
		}
	}
	if p.Width <= 0 {
		p.Width = 0.02
	}
	return p
}

// tooMuch reports whether the last trial was not simply met.
func tooMuch(made []Trial) bool {
	if len(made) == 0 {
		return false
	}
	last := made[len(made)-1]
	return last.Invalid || slices.Contains(last.Met, false)
}
