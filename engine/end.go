package engine

import (
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// The end of a connection.

// end closes the socket, whatever happened, and calls the callbacks.
func (k owner) end(d *workspace) {
	s, srv := k.s, k.sh.srv
	if k.reason() == 0 {
		k.fail(Panicked) // only runtime.Goexit gets here without a reason
	}
	if s.secured && s.own.shakesNext() {
		k.shakeFailed(k.reason())
	}
	s.mu.Lock()
	s.dead = true
	k.held().setAway(true) // no owner from here on
	s.marks.clear(isListed)
	s.want = 0
	stream := k.link().Stream
	resets := stream.Resets()
	if x := k.x.Load(); x != nil {
		x.ended = true
		k.held().drop(x)
	}
	k.sh.poll.CloseSocket(s.socket)
	s.socket = sys.NoSocket
	addr, facets := k.held().addr().Addr(), s.facets
	s.mu.Unlock()
	stream.Close(resets) // not under mu
	k.endTurn()
	why := k.reason()
	defer func() { // even if OnClose panics or ends the goroutine
		srv.uncount(why, addr, s.counted, facets)
		k.free()
	}()
	defer func() { // even if Ended ends the goroutine
		if s.own.has(isKnown) && srv.OnClose != nil {
			s.own.clear(isKnown)
			k.call(d, func() { srv.OnClose(k.conn(), why) })
		}
	}()
	if told := k.speaks().ended; told != nil {
		k.call(d, func() { told(k.conn(), s.state, why) })
	}
}

// abort ends the connection at once: unsent output is dropped.
func (k held) abort(why Reason) {
	s := k.s
	if s.facets.has(isGiven) {
		return
	}
	switch why {
	case 0: // its linger time is over; the reason was sent before
	case Forced:
		s.why.Store(uint32(Forced)) // overrides a graceful reason
	default:
		k.fail(why)
	}
	s.dead = true
	if x := k.x.Load(); x != nil {
		k.endContext(x)
		if !x.writing {
			k.dropOutput(x) // now: the owner may be busy, and memory scarce
		}
	}
	hard := why != 0 // a peer that does not read must not keep our bytes in the kernel
	switch x := k.x.Load(); {
	case x == nil || x.rare == nil || x.rare.given == nil:
		k.link().CutOff(hard)
	case x.g != nil: // no reset: its user may still say goodbye
		x.g.Expire()
	default:
		x.rare.given.SetDeadline(transport.Past())
	}
	k.notify()
}

// drop drops everything in flight, except for the bytes that a blocked writer holds: it
// releases them itself.
func (k held) drop(x *inflight) {
	k.sh.counts.late.Add(x.late)
	x.late = 0
	k.dropOutput(x)
	k.endContext(x)
	x.in.Forget(&k.sh.srv.input)
	if x.rare != nil {
		k.sh.srv.input.Add(int64(-x.rare.holds))
		x.rare.holds = 0
	}
	x.promises.Abandon()
	x.debt.Drop(&k.sh.srv.requests)
	x.stall.Store(0)
	x.share.Drop(&k.sh.srv.output)
}

// breakOff ends a connection that has been sent a part of a reply, after a panic. What was
// sent still reaches the peer; then the connection is reset, because a graceful close would
// look like the end of the reply; where the peer's receipts cannot be seen, it is closed.
func (k owner) breakOff() {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	k.fail(Panicked)
	s.marks.set(isShut | isSaid) // nothing may follow the part
	x := k.held().attach()
	x.unfinished = k.link().Control(func(uintptr) {})
	x.waiting -= int64(x.queue.DropHeld())
	x.promises.Abandon()
}
