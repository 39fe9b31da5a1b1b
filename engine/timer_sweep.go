package engine

import (
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

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
		case <-s.output.Impatient():
			if s.how.hand != Inline { // whose handlers never block
				s.output.Hasten()
			}
			continue
		}
		now := s.readLate()
		next, busy := s.judgeAll(last, now)
		if !busy {
			s.clock.Park(true)
			next, busy = s.judgeAll(last, now)
			if busy {
				s.clock.Park(false)
			}
		}
		s.helpers.dismiss(!busy) // once parked, or nobody dismisses one that is idle from now on; see idles
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
	if s.endsAll.Load() {
		pace, busy = uint64(s.rules.Hurried()), true
	}
	if busy {
		next = pace
	}
	return next, busy
}

// since reports whether t lies between last and now, or was stamped while now was being read.
func since(t, last, now timing.Tick) bool { return now-t <= now-last || t-now < timing.Ahead }
