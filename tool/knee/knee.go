// Package knee finds the highest load under which goals are met: it chooses which loads
// to try, runs the trials and judges them.
//
// Plan measures and stores nothing: finished trials go in, and the next trial, or the
// result, comes out. Search runs the trials with package load.
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
// The load doubles until a goal is missed. Short trials then bisect the range between the
// highest load that met it and the lowest that missed it, geometrically. When the range
// is narrow enough, full trials confirm both ends. A single short trial is never
// decisive: where full trials contradict it, the search goes on.
//
// A trial whose generator could not offer the load is no evidence about the target. It
// bounds the search from above, and the search continues below it. If no miss is found
// there, the result is not the knee but a lower bound of it.
package knee

import (
	"cmp"
	"math"
)

// Plan is what to search for. From is required.
type Plan struct {
	// From is the lowest load, tried first: above 0, and with Whole 1 or more.
	From float64
	// To is the highest load. Zero: no limit.
	To float64
	// Width is how narrow the range must get, relative to its lower end. Zero: 0.02.
	Width float64
	// Whole restricts loads to integers, for connections.
	Whole bool
	// Confirm is how many full trials must meet the goals before a load counts. One full
	// trial that misses is enough for a miss. Zero: 3.
	Confirm int
}

// mostTrials is more than a target with constant capacity ever needs.
const mostTrials = 100

// Step is a trial to run.
type Step struct {
	Load float64
	// Full requests a trial of full length; others may be shorter.
	Full bool
	// Rest means that the previous trial was too much for the target or the generator:
	// wait for the target to recover.
	Rest bool
}

// Trial is a step and its result.
type Trial struct {
	Step
	// Met reports whether all goals were met. Ignored if Invalid.
	Met bool
	// Invalid marks a trial that says nothing about the target.
	Invalid bool
}

// State is what is known about a knee.
type State uint8

const (
	// Unfinished: there are not enough trials yet.
	Unfinished State = iota
	// Found: Met was confirmed, and a full trial missed at Missed.
	Found
	// Below: a full trial missed the goal at Plan.From.
	Below
	// Above: the goal was met at Plan.To.
	Above
	// Hidden: whether the goal is met above Met cannot be known, because Invalid could
	// not be offered. Met is 0 if even Plan.From could not.
	Hidden
)

// String returns the state as in JSON: "found", "below", "above", "hidden" or
// "unfinished".
func (s State) String() string {
	return [...]string{"unfinished", "found", "below", "above", "hidden"}[s]
}

// Knee is what the trials show. An unknown load is 0.
type Knee struct {
	State   State
	Met     float64 // the highest load below Missed and Invalid that met the goals
	Missed  float64 // the lowest that missed it
	Invalid float64 // the lowest that could not be offered, if it is below Missed
	// Again is the highest load above Missed at which a trial still met the goals: if it
	// is far above, the target's capacity is not constant. 0: none.
	Again float64
}

// Find returns what the trials have shown so far.
func (p Plan) Find(made []Trial) Knee {
	return p.complete().search(made).knee()
}

// Next returns the trial to run after those in made.
func (p Plan) Next(made []Trial) (next Step, more bool) {
	p = p.complete()
	if len(made) >= mostTrials {
		return Step{}, false
	}
	next, more = p.search(made).next()
	if n := len(made); n > 0 {
		next.Rest = made[n-1].Invalid || !made[n-1].Met
	}
	return next, more
}

// complete fills in the defaults. It panics on invalid values.
func (p Plan) complete() Plan {
	if !(p.From > 0) || p.Whole && p.From < 1 || p.To != 0 && !(p.To >= p.From) {
		panic("knee: the plan needs a From above 0 (1, where loads are whole), and a To above it")
	}
	p.To = cmp.Or(p.To, math.MaxFloat64)
	if p.Whole {
		p.From = math.Ceil(p.From)
		p.To = max(math.Floor(p.To), p.From)
	}
	p.Confirm, p.Width = cmp.Or(p.Confirm, 3), cmp.Or(p.Width, 0.02)
	return p
}
