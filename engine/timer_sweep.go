package engine

import (
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
)

// sweeper checks all connections of a server every period: one goroutine.
type sweeper struct {
	condemned []sentence
	pressed   int // consecutive sweeps with the output budget exceeded, or with a visit waiting for it
	surplus   ration.Surplus
}

// sentence is a verdict to be carried out.
type sentence struct {
	k    connRef
	v    timing.Verdict
	why  Reason
	sure bool // even if the peer has read something
}

// sweep runs the sweeper.
func (s *Server) sweep() {
	timer := time.NewTimer(time.Duration(s.rules.Period) * time.Millisecond)
	defer timer.Stop()
	var last timing.Tick
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		case <-s.clock.Kicks():
		}
		now := s.readLate()
		next, busy := s.judgeAll(last, now)
		s.helpers.dismiss(!busy)
		if !busy {
			s.clock.Park(true)
			next, busy = s.judgeAll(last, now)
			if busy {
				s.clock.Park(false)
			}
		}
		last = now
		if next == timing.Never {
			timer.Stop()
		} else {
			timer.Reset(time.Duration(next) * time.Millisecond)
		}
	}
}

// readLate updates the clock. On a busy machine, or after the whole process was stopped,
// the clock may have stood still for longer than a period: then timestamps from that time
// look too old and are stored again, because no limit may apply early.
func (s *Server) readLate() (now timing.Tick) {
	parked, shown := s.clock.Parked(), s.clock.Now()
	now = s.clock.Read()
	if parked || now-shown <= s.rules.Period+s.rules.Period/4+1 {
		return now
	}
	again := func(stamp *atomic.Uint32) { stamp.CompareAndSwap(shown, now) }
	s.each(func(k connRef) {
		again(&k.s.seen)
		again(&k.s.since)
		if x := k.x.Load(); x != nil {
			x.frame.Restamp(shown, now)
			again(&x.stall)
		}
	})
	return now
}

// judgeAll checks every connection once. It returns in how many ticks to check again, and
// whether anything has happened since last: if so, after a period, else when the next
// limit can be due. It allocates nothing unless there are more verdicts than ever before.
func (s *Server) judgeAll(last, now timing.Tick) (next uint64, busy bool) {
	w := &s.sweeper
	next = timing.Never
	w.condemned = w.condemned[:0]
	s.each(func(k connRef) {
		m := k.held().moments()
		m.Judged = last
		v, limit, due := s.rules.Judge(m, now)
		if v != timing.Live {
			w.condemned = append(w.condemned, sentence{k: k, v: v, why: exceeded(limit)})
		}
		next = min(next, due)
		busy = busy || since(m.Seen, last, now) || m.Stall != 0 && since(m.Stall, last, now)
		if x := k.x.Load(); x != nil {
			if !x.writing { // a blocked writer is about to report its progress itself
				x.share.Recount(&s.output, k.held().memory(x))
			}
			x.share.Review(&s.output, now, s.rules.Period)
			busy = k.held().listen(x) || busy
		}
	})
	pace := uint64(s.rules.Period)
	if s.evict(now) {
		pace, busy = uint64(s.rules.Hurried()), true
	}
	if s.requests.Review(now, s.rules.Period) {
		busy = true
	}
	if s.returnMemory(now) {
		busy = true
	}
	s.idlers.Forget(now, s.rules.Period)
	if s.judged != nil {
		s.judged(now)
	}
	for i := range w.condemned {
		w.condemned[i].carryOut(now)
		w.condemned[i] = sentence{}
		busy = true
	}
	if s.draining.Load() {
		pace, busy = uint64(s.rules.Hurried()), true
	}
	if busy {
		next = pace
	}
	return next, busy
}

// since reports whether t lies between last and now, or was stamped while now was being read.
func since(t, last, now timing.Tick) bool { return now-t <= now-last || t-now < timing.Ahead }

// carryOut carries out the verdict, if the connection is still open.
func (c *sentence) carryOut(now timing.Tick) {
	k, ok := c.k.sh.lock(c.k.key)
	if !ok {
		return
	}
	s := k.s
	defer s.mu.Unlock()
	x := k.x.Load()
	if s.dead || k.phase() == life.TakenOver && !(c.why == InputBudget && x.rare.holds > input.Small) {
		return // the connection has ended, or user code has got its socket meanwhile
	}
	switch c.v {
	case timing.Measure:
		if x != nil {
			k.held().hasTaken(x, now)
			if x.unfinished && x.settled() && k.link().IsReceived() {
				k.held().abort(k.reason())
			}
		}
	case timing.Rest:
		k.held().rest(x)
	case timing.Ask:
		k.held().ask()
	case timing.Refuse:
		s.suspect = c.why
		k.held().notify()
	case timing.Abort:
		if c.why == IdleTimeout && !k.held().moments().Owed {
			return // the last reply was sent meanwhile
		}
		asks := (c.why == WriteStall || c.why == OutputBudget) && !c.sure && x != nil && x.stall.Load() != 0
		if !asks || !k.held().hasTaken(x, now) {
			k.held().abort(c.why)
		}
	}
}

// ask sends the protocol's ping.
func (k held) ask() {
	if s := k.s; s.marks.has(isShut) || s.marks.has(isSaid) || k.reason() != 0 {
		return
	}
	ping := k.speaks().ping
	k.sh.counts.pushes.Add(1)
	k.enqueue(k.attach(), [][]byte{ping}, len(ping), true)
}

// rest makes an idle connection free what it does not need.
func (k held) rest(x *inflight) {
	if x != nil && x.g != nil {
		x.promises.Forget() // its owner keeps the rest for life, and must not be woken
		return
	}
	k.s.marks.set(isTired)
	k.notify()
}

// hasTaken reports whether a peer that seems to have stalled has read something since the
// last check: what our kernel has accepted, less what it still holds. A blocked write does
// not tell: the kernel wakes it only when a third of a buffer of megabytes is free again, and
// accepts more although the peer reads nothing. (Nor does the peer's kernel report at once:
// with a buffer of 64 KiB, it acknowledges a reader of 16 KiB/s every 8 s.)
func (k held) hasTaken(x *inflight, now timing.Tick) bool {
	written := x.written.Load()
	if k.s.secured {
		written = k.layer().Wrote()
	}
	taken := written - k.link().Unsent()
	progress := !x.measured || int32(taken-x.taken) > 0
	if !progress {
		k.narrow(x)
	} else {
		x.taken, x.measured = taken, true
		if old := x.stall.Load(); old != 0 {
			x.stall.CompareAndSwap(old, now) // a writer may have ended its wait just now
		}
	}
	return progress
}
