package engine

import (
	"cmp"
	"math"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
)

// What the sweeper does when a budget is exhausted, and when its memory is no longer
// needed.

// debtor is a connection that holds memory of a budget.
type debtor struct {
	k    connRef
	age  timing.Tick // how long its peer has read nothing, or the age of its unfinished message
	held int64
}

// evict closes connections when a budget is exhausted, and reports whether one is.
func (s *Server) evict(now timing.Tick) (pressed bool) {
	out, w := &s.output, &s.sweeper
	out.Review()
	held := out.Held()
	if held > out.Limit() || out.Waiting() > 0 {
		pressed = true
		if w.pressed++; w.pressed > 6 { // by now the stamps of peers that read are fresh
			s.evictReaders(now, held)
		}
	} else {
		w.pressed = 0
	}
	if in := &s.input; in.Held() > in.High() {
		pressed = true
		s.evictSenders(now)
	}
	return pressed
}

// evictReaders selects peers that hold the output budget: those that have read nothing
// for an eighth of StallTime, or for a moment when the budget is exceeded; and when a
// visit has waited for half of StallTime, those that hold most, even if they read.
func (s *Server) evictReaders(now timing.Tick, held int64) {
	out := &s.output
	patience := max(2*s.rules.Period, timing.Tick(min(s.rules.Stall/8, math.MaxInt32)))
	if held > out.Limit() {
		patience = 4 * s.rules.Hurried()
	}
	waited, size := out.Oldest(now)
	slow := uint64(waited) > s.rules.Stall/2
	target := out.Limit()*11/16 - max(size, out.Limit()/16)
	debtors := s.debtors(func(k connRef, x *inflight) (age timing.Tick, held int64) {
		if held = k.held().memory(x); held == 0 {
			return 0, 0
		}
		if stall := x.stall.Load(); stall != 0 && now-stall < timing.Ahead {
			age = now - stall
		}
		if age <= patience && !(slow && held > ration.SmallVisit) {
			return 0, 0
		}
		return age, held
	})
	slices.SortFunc(debtors, func(a, b debtor) int {
		return cmp.Or(-cmp.Compare(min(a.age, patience), min(b.age, patience)), -cmp.Compare(a.held, b.held))
	})
	for _, d := range debtors {
		if held <= target {
			return
		}
		s.sweeper.condemned = append(s.sweeper.condemned, sentence{k: d.k, v: timing.Abort, why: OutputBudget, sure: d.age <= patience})
		held -= d.held
	}
}

// evictSenders selects peers that hold the input budget: those with the most bytes held
// for the longest time, but none whose message has only just begun.
func (s *Server) evictSenders(now timing.Tick) {
	in, patience := &s.input, s.rules.Hurried()
	debtors := s.debtors(func(k connRef, x *inflight) (age timing.Tick, held int64) {
		since := cmp.Or(x.frame.Began(), x.stall.Load(), k.s.seen.Load())
		if age = now - since; age <= patience || age >= timing.Ahead {
			return 0, 0
		}
		if held = int64(x.input.Load()); x.rare != nil {
			held += int64(x.rare.holds)
		}
		if held <= input.Small {
			return 0, 0
		}
		return age, held
	})
	slices.SortFunc(debtors, func(a, b debtor) int { return -cmp.Compare(int64(a.age)*a.held, int64(b.age)*b.held) })
	over := in.Held() - (in.High() - in.Limit()/8)
	for _, d := range debtors {
		if over <= 0 {
			return
		}
		s.sweeper.condemned = append(s.sweeper.condemned, sentence{k: d.k, v: timing.Abort, why: InputBudget})
		over -= d.held
	}
}

// debtors returns the connections for which owes reports memory held.
func (s *Server) debtors(owes func(k connRef, x *inflight) (age timing.Tick, held int64)) (all []debtor) {
	s.each(func(k connRef) {
		if x := k.x.Load(); x != nil && !k.s.dead {
			if age, held := owes(k, x); held > 0 {
				all = append(all, debtor{k, age, held})
			}
		}
	})
	return all
}

// returnMemory checks the memory held by the budgets, and reports whether to call it again soon.
func (s *Server) returnMemory(now timing.Tick) (pending bool) {
	out, in := &s.output, &s.input
	evicted := s.ended[OutputBudget].Load() + s.ended[InputBudget].Load() + s.ended[SlowReader].Load()
	due, pending := s.sweeper.surplus.Review(now, out.Held()+in.Held(), out.Peak()+in.Peak(), int64(evicted)*int64(s.limits.HighWater))
	if due {
		out.ForgetPeak()
		in.ForgetPeak()
		s.goroutines.Go(func() {
			runtime.GC() // empties half of the pools, and the next one the rest
			debug.FreeOSMemory()
		})
	}
	return pending
}
