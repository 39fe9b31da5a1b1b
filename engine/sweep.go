package engine

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// clock is a server's coarse time. While anything happens the sweeper advances
// it every period; when nothing has happened for a period it is parked, the
// sweeper sleeps until the next limit is due, and the first connection with
// something to stamp wakes it: an idle server does not tick.
type clock struct {
	start  time.Time
	now    atomic.Uint32
	parked atomic.Bool
	kick   chan struct{}
}

func (k *clock) init() {
	k.start = time.Now()
	k.kick = make(chan struct{}, 1)
	k.read()
}

// ahead is how far now can be ahead of what read has just measured; beyond it
// the difference is the wrap of a server that slept for weeks.
const ahead = 20 * 60 * 1000

// read brings now up to date.
func (k *clock) read() tick {
	fresh := max(1, tick(time.Since(k.start).Milliseconds()+1))
	for {
		old := k.now.Load()
		if old-fresh < ahead {
			return old // somebody else was faster
		}
		if k.now.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// wakeUp makes now trustworthy and the sweeper tick again.
func (k *clock) wakeUp() {
	k.read()
	if k.parked.CompareAndSwap(true, false) {
		k.sweepNow()
	}
}

// sweepNow asks for a sweep without waiting for it.
func (k *clock) sweepNow() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// stamp sets f to now: about 2 ns while the clock ticks. Parked is looked at on
// both sides of the store: before, because a stale now would make an innocent
// connection look old; after, because a sweeper that parked meanwhile may have
// missed the store (it sets parked first and then looks once more).
func (k *clock) stamp(f *atomic.Uint32) {
	for {
		if k.parked.Load() {
			k.wakeUp()
		}
		if now := k.now.Load(); f.Load() != now {
			f.Store(now)
		}
		if !k.parked.Load() {
			return
		}
	}
}

// enter begins a phase of the connection's life. The moment is stamped before
// the phase, which would otherwise look as old as the server, and again behind
// it, for a sweeper that parked in between.
func (k *clock) enter(since, phase *atomic.Uint32, p phase) {
	k.stamp(since)
	phase.Store(uint32(p))
	k.stamp(since)
}

func (c *session) stamp(f *atomic.Uint32) { c.srv.clock.stamp(f) }

func (c *session) enter(p phase) { c.srv.clock.enter(&c.since, &c.phase, p) }

// sweep is the sweeper: one goroutine a server.
func (s *Server) sweep() {
	defer s.goroutines.Done()
	timer := time.NewTimer(time.Duration(s.rules.period) * time.Millisecond)
	defer timer.Stop()
	var last tick
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		case <-s.clock.kick:
		}
		now := s.clock.read()
		next, busy := s.judgeAll(last, now)
		if !busy {
			s.crew.dismiss()
			s.clock.parked.Store(true)
			next, busy = s.judgeAll(last, now)
			if busy {
				s.clock.parked.Store(false)
			}
		}
		last = now
		if next == never {
			timer.Stop()
		} else {
			timer.Reset(time.Duration(next) * time.Millisecond)
		}
	}
}

// rest gives back what a quiet connection does not need.
func (c *session) rest() {
	c.mu.Lock()
	if c.late != nil {
		c.late.promises.forget()
	}
	c.mu.Unlock()
	if c.parks() {
		c.hurry() // the owner sees that it is tired
	} else {
		c.tired.Store(false)
	}
}

// held is how many bytes the kernel still holds for the peer.
func (c *session) held() (n uint32) {
	if c.raw != nil {
		c.raw.Control(func(fd uintptr) { n = uint32(sys.Unsent(fd)) })
	}
	return n
}

// stillReads reports whether a peer that seems to have stalled has taken
// something after all. A blocked write does not tell: the kernel wakes it only
// when a third of a buffer of megabytes is free again. (Nor does the peer's
// kernel tell at once: it reopens its window by sixteenths of its own buffer, so
// a reader behind 6 MB must take 400 KB in StallTime.)
func (c *session) stillReads(now tick) bool {
	before := c.unsent.Load()
	if before == 0 || c.raw == nil {
		return false
	}
	after := 1 + c.held()
	if after >= before {
		return false
	}
	c.unsent.Store(after)
	c.stall.CompareAndSwap(c.stall.Load(), now)
	return true
}

// sentence is a verdict to be carried out.
type sentence struct {
	c   subject
	v   verdict
	why Reason
}

// subject is a connection as the sweeper sees it.
type subject interface {
	carryOut(v verdict, why Reason, now tick)
}

func (c *session) carryOut(v verdict, why Reason, now tick) {
	switch v {
	case measure:
		c.unsent.Store(1 + c.held())
	case rest:
		c.rest()
	case refuse:
		c.nudge(why)
	case abort:
		if why != WriteStall || !c.stillReads(now) {
			c.abort(why)
		}
	}
}

// judgeAll looks at every connection once. It reports in how many ticks to look
// again, and whether anything has happened since last: if so, that is a period,
// else when the next limit can be due.
func (s *Server) judgeAll(last, now tick) (next uint64, busy bool) {
	const slice = 4096 // connections judged under one hold of the lock
	next = never
	total := int64(0)
	s.condemned = s.condemned[:0]
	judge := func(c subject, m moments, waiting int64) {
		v, why, due := s.rules.judge(m, now)
		if v != live {
			s.condemned = append(s.condemned, sentence{c, v, why})
		}
		next = min(next, due)
		busy = busy || since(m.seen, last, now) || m.stall != 0 && since(m.stall, last, now)
		total += waiting
	}
	for _, l := range s.started() {
		l.links(func(k link) { judge(k, k.moments(), k.waiting()) })
	}
	for from := 0; ; from += slice {
		s.mu.Lock()
		to := min(from+slice, len(s.sessions))
		for i := from; i < to; i++ {
			c := s.sessions[i]
			m := c.snapshot(c.owed.Load() > 0)
			m.tired = c.tired.Load()
			judge(c, m, c.waiting.Load())
		}
		moved := s.moved
		s.moved = false
		done := to == len(s.sessions)
		s.mu.Unlock()
		busy = busy || moved // a connection that took another's place was not judged
		if done || from > to {
			break
		}
	}
	pace := uint64(s.rules.period)
	if total > int64(s.limits.TotalOutput) {
		if s.over++; s.over > 6 { // by now the stamps of those who read are fresh
			s.condemnSlowest(total, now)
		}
		pace, busy = uint64(s.rules.hurried()), true
	} else {
		s.over = 0
	}
	for i, x := range s.condemned {
		x.c.carryOut(x.v, x.why, now)
		s.condemned[i] = sentence{}
		busy = true
	}
	if busy {
		next = pace
	}
	return next, busy
}

// since reports whether t lies between last and now, or was stamped while now
// was being read.
func since(t, last, now tick) bool { return now-t <= now-last || t-now < ahead }

// condemnSlowest picks those who have taken nothing for longest, until the rest
// is within seven eighths of the budget. Who has taken something within the last
// four sweeps is reading, and does not pay.
func (s *Server) condemnSlowest(total int64, now tick) {
	type debtor struct {
		c       subject
		age     tick
		waiting int64
	}
	var debtors []debtor
	consider := func(c subject, stall tick, waiting int64) {
		if stall == 0 || stall-now <= ahead || waiting == 0 {
			return
		}
		if age := now - stall; age > 4*s.rules.hurried() {
			debtors = append(debtors, debtor{c, age, waiting})
		}
	}
	for _, l := range s.started() {
		l.links(func(k link) { consider(k, k.moments().stall, k.waiting()) })
	}
	budget := int64(s.limits.TotalOutput)
	s.mu.Lock()
	for _, c := range s.sessions {
		consider(c, c.stall.Load(), c.waiting.Load())
	}
	s.mu.Unlock()
	slices.SortFunc(debtors, func(a, b debtor) int {
		return cmp.Or(cmp.Compare(b.age, a.age), cmp.Compare(b.waiting, a.waiting))
	})
	for _, d := range debtors {
		if total <= budget-budget/8 {
			return
		}
		s.condemned = append(s.condemned, sentence{d.c, abort, OutputBudget})
		total -= d.waiting
	}
}
