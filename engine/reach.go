package engine

import (
	"net/netip"

	"github.com/hone-go/hone/internal/sys"
)

// This file is what others than its owner do to a connection of a loop, and what
// is anybody's.

func (k *link) conn() Conn { return Conn{l: k.l, key: k.key} }

// reason is why the connection is ending, 0 while it is not.
func (k *link) reason() Reason { return Reason(k.s.why.Load()) }

// ending reports whether nothing more is to be served. A drain still serves what
// was sent before it.
func (k *link) ending() bool {
	why := k.reason()
	return why != 0 && why != ShuttingDown
}

func (k *link) fail(why Reason) { fail(&k.s.why, why) }

func (k *link) phase() phase { return phase(k.s.stamps.phase.Load()) }

func (k *link) enterPhase(p phase) {
	k.l.srv.clock.enter(&k.s.stamps.since, &k.s.stamps.phase, p)
}

func (k *link) touch() { k.l.srv.clock.stamp(&k.s.stamps.seen) }

// startFrame starts the clock of the message that has begun to arrive and lacks
// need bytes; a message that goes on keeps its clock.
func (k *link) startFrame(box *inbox, need int) {
	if box.len() == 0 {
		return
	}
	k.s.mu.Lock()
	x := k.fly()
	k.s.mu.Unlock()
	x.size.Store(uint32(box.len() + need))
	if x.frame.Load() == 0 {
		k.l.srv.clock.stamp(&x.frame)
	}
}

// paceFrame stops the clock of a message that we do not read on, which is not the
// peer's to hurry, and starts it anew when we do.
func (k *link) paceFrame(x *flight) {
	switch running := x.frame.Load() != 0; {
	case running && x.stuck.Load():
		x.frame.Store(0)
	case !running && x.rest.Lent() && !x.ready && !x.stuck.Load():
		k.l.srv.clock.stamp(&x.frame)
	}
}

func (k *link) stopFrame() {
	if x := k.x.Load(); x != nil && x.frame.Load() != 0 {
		x.frame.Store(0)
	}
}

// moments is what the sweeper judges. mu held.
func (k *link) moments() moments {
	st := &k.s.stamps
	m := moments{phase: phase(st.phase.Load()), since: st.since.Load(), seen: st.seen.Load()}
	if x := k.x.Load(); x != nil {
		m.frame, m.size, m.stall = x.frame.Load(), x.size.Load(), x.stall.Load()
		m.owed, m.measured = x.promises.open > 0, x.unsent.Load() != 0
		m.tired = x.value == nil && x.zone == "" && m.frame == 0 && !m.owed && x.waiting == 0 && x.given == nil
	}
	return m
}

// waiting is how many bytes wait for the peer. mu held.
func (k *link) waiting() int64 {
	if x := k.x.Load(); x != nil {
		return x.waiting
	}
	return 0
}

// post queues a late reply or a push.
func (l *loop) post(key, ticket uint64, parts [][]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	k, ok := l.lock(key)
	if !ok {
		return ErrClosed
	}
	s := k.s
	if s.over || s.marks.has(isShut) {
		s.mu.Unlock()
		return ErrClosed
	}
	x := k.fly()
	if x.queue.len() > l.srv.limits.HardCap && !k.relieve(x) {
		k.abort(SlowReader)
		s.mu.Unlock()
		return SlowReader
	}
	if ticket != noTicket {
		if !x.promises.settle(ticket) {
			s.mu.Unlock()
			return ErrSettled
		}
		x.late++
	} else {
		l.tally.pushes.Add(1)
	}
	if n > 0 {
		x.queue.add(l.srv, parts, n)
		k.charge(x, n)
	}
	if !x.front.Lent() && !x.queue.held() && !k.inVisit() || s.marks.has(isWaiting) && (k.room(x) || flown(x)) {
		k.notify()
	}
	s.mu.Unlock()
	return nil
}

// inVisit reports whether the loop is in a visit of the connection right now: what
// is posted then is written with the visit's own output. mu held.
func (k *link) inVisit() bool { return k.l.turn.Load()&turnSlots == uint64(uint32(k.key))+1 }

// relieve is asked when more is posted than the hard cap: a queue that only waits
// for its loop is not the peer's fault, and is written here and now. It reports
// whether the queue may grow by one more. mu held.
func (k *link) relieve(x *flight) bool {
	if x.queue.visiting {
		return x.queue.len() <= k.l.srv.limits.hardest()
	}
	k.write(x, true)
	return !k.s.over && x.queue.len() <= k.l.srv.limits.HardCap
}

func (k *link) promise() (ticket uint64, more bool) {
	k.s.mu.Lock()
	x := k.fly()
	ticket = x.promises.take()
	more = k.below(x)
	k.s.mu.Unlock()
	return ticket, more
}

func (k *link) revoke(tickets []uint64) (open int) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.fly().promises.revoke(tickets)
}

// closeFor ends the connection from outside, politely.
func (l *loop) closeFor(key uint64, why Reason) {
	if k, ok := l.lock(key); ok {
		k.fail(why)
		k.notify()
		k.s.mu.Unlock()
	}
}

// abort ends the connection at once: what waits for the peer is dropped. mu held.
func (k *link) abort(why Reason) {
	s := k.s
	switch why {
	case 0: // its time to linger is over; why it lingers has been said
	case Forced:
		s.why.Store(uint32(Forced)) // whatever it was about to end for, it was not let
	default:
		k.fail(why)
	}
	s.over = true
	if x := k.x.Load(); x != nil && x.given != nil {
		x.given.SetDeadline(past())
	} else if why != 0 && s.socket != sys.NoSocket {
		s.socket.ResetOnClose() // a peer that does not read must not keep our bytes in the kernel
	}
	k.notify()
}

func (l *loop) remoteAddr(key uint64) netip.AddrPort {
	k, ok := l.lock(key)
	if !ok {
		return netip.AddrPort{}
	}
	defer k.s.mu.Unlock()
	return k.addr()
}

func (l *loop) value(key uint64) any {
	k, ok := l.lock(key)
	if !ok {
		return nil
	}
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil {
		return x.value
	}
	return nil
}

func (l *loop) setValue(key uint64, v any) {
	if k, ok := l.lock(key); ok {
		k.fly().value = v
		k.s.mu.Unlock()
	}
}

// carryOut is what the sweeper has decided.
func (k link) carryOut(v verdict, why Reason, now tick) {
	k, ok := k.l.lock(k.key)
	if !ok {
		return
	}
	s := k.s
	defer s.mu.Unlock()
	if s.over {
		return
	}
	x := k.x.Load()
	switch v {
	case measure:
		if x != nil {
			x.unsent.Store(1 + uint32(s.socket.Unsent()))
		}
	case rest:
		s.marks.set(isTired)
		k.notify()
	case refuse:
		s.suspect = why
		k.notify()
	case abort:
		if why != WriteStall || x == nil || !k.stillReads(x, now) {
			k.abort(why)
		}
	}
}

// stillReads reports whether a peer that seems to have stalled has taken something
// after all: see session.stillReads. mu held.
func (k *link) stillReads(x *flight, now tick) bool {
	before := x.unsent.Load()
	if before == 0 {
		return false
	}
	after := 1 + uint32(k.s.socket.Unsent())
	if after >= before {
		return false
	}
	x.unsent.Store(after)
	if x.stall.Load() != 0 {
		x.stall.Store(now)
	}
	return true
}

// links calls do with every connection of the loop, its mutex held.
func (l *loop) links(do func(k link)) {
	for i, c := range *l.chunks.Load() {
		for j := range c.slots {
			s := &c.slots[j]
			if s.generation.Load() == 0 {
				continue
			}
			s.mu.Lock()
			if g := s.generation.Load(); g != 0 {
				do(link{l: l, s: s, x: &c.flights[j], key: keyOf(i*chunkSlots+j, g)})
			}
			s.mu.Unlock()
		}
	}
}
