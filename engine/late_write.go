package engine

import (
	"net"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Where late replies and pushes are written, and what a peer did not take at once: by
// the loop, or by a flusher of a goroutine engine. No write waits here.

// write sends what waits, as far as the peer takes it. mu held. Where the peer
// took nothing the last time, it is tried again only if that is said to be worth
// a system call.
func (k *connRef) write(x *inflight, again bool) {
	k.countLate(x)
	if x.g != nil && x.g.raw == nil { // nobody can write to it without waiting
		if !x.writing && x.g.nextFront() {
			x.g.startWriter()
		}
		return
	}
	for !x.front.Lent() || again {
		if !x.front.Lent() {
			if x.queue.held() {
				x.stall.Store(0)
				break
			}
			x.front, x.sent = x.queue.take(&k.sh.srv.buffers), 0
		}
		n, err := k.send(x.front.Bytes()[x.sent:])
		x.sent += n
		x.waiting -= int64(n)
		if err == sys.ErrAgain {
			k.notSent(x, n)
			k.shrinkFront(x)
			k.widen(x, n)
			break
		}
		if err != nil {
			k.fail(PeerReset)
			k.s.dead = true
			break
		}
		x.front.Release()
		x.front = pool.Buffer{}
		x.blocked.Store(false)
		if x.stall.Load() != 0 {
			x.stall.Store(0)
			k.touch() // whoever takes its time to read is not idle meanwhile
		}
	}
	k.recount(x)
	if k.s.dead || x.goal == written && x.reached() {
		x.wakeOwner()
	}
	switch {
	case x.g == nil:
	case k.s.dead:
		x.g.nudge()
	case x.front.Lent():
		x.g.startWriter() // what is left needs somebody who waits
	}
}

// shrinkFront moves the rest of a large buffer to one of its size, when most of it has
// gone. mu held.
func (k *connRef) shrinkFront(x *inflight) {
	all := x.front.Bytes()
	if rest := all[x.sent:]; cap(all) > maxPooled/4 && len(rest) <= cap(all)/4 {
		b := k.sh.srv.buffers.Get(len(rest))
		copy(b.Bytes(), rest)
		x.front.Release()
		x.front, x.sent = b, 0
	}
}

// What the kernel may accept for a peer beyond what it can send at once. Without a
// limit, a peer that does not read costs a megabyte and more of the kernel's memory.
// One that has taken much of its output without a pause gets more: the socket of a fast
// reader would run dry between two visits of its loop.
const (
	maxUnsent  = 128 << 10
	moreUnsent = 2 << 20
	provenFast = 1 << 20
)

// widen raises the limit for a peer that takes what it is sent, of which n bytes have
// just gone. mu held.
func (k *connRef) widen(x *inflight, n int) {
	if x.wide {
		return
	}
	if x.took += n; x.took >= provenFast {
		x.wide = true
		k.limitUnsent(x, moreUnsent)
	}
}

// narrow takes that back from a peer that has stalled. mu held.
func (k *connRef) narrow(x *inflight) {
	if x.took = 0; x.wide {
		x.wide = false
		k.limitUnsent(x, maxUnsent)
	}
}

// limitUnsent sets the limit of the connection's socket.
func (k *connRef) limitUnsent(x *inflight, n int) {
	if x == nil || x.g == nil {
		sys.LimitUnsent(uintptr(k.s.socket), n)
		return
	}
	if tcp, ok := innermost(x.g.nc).(*net.TCPConn); ok {
		if raw := rawConn(tcp); raw != nil {
			raw.Control(func(fd uintptr) { sys.LimitUnsent(fd, n) })
		}
	}
}

// maxSend is what one peer is sent at a time. A peer that takes large replies as
// fast as they come would otherwise hold its loop, and its mutex, for as long as
// the reply lasts: 12 MB took up to 200 ms.
const maxSend = 256 << 10

// send is one write that does not wait. ErrAgain says that p was not sent whole:
// the socket is full, or it was time to look at others. mu held.
func (k *connRef) send(p []byte) (n int, err error) {
	q := p[:min(len(p), maxSend)]
	x := k.x.Load()
	if x != nil && x.g != nil {
		n, err = x.g.sendNow(q)
	} else {
		n, err = k.sh.poll.Write(k.s.socket, q)
	}
	k.sh.counts.bytesOut.Add(uint64(n))
	if x != nil {
		x.written.Add(uint32(n))
	}
	if err == nil && n < len(p) {
		err = sys.ErrAgain
	}
	return n, err
}

// notSent notes that output waits, after a write of n bytes. mu held.
func (k *connRef) notSent(x *inflight, n int) {
	if x.cut = n == maxSend; x.cut && x.stall.Load() != 0 {
		k.sh.srv.clock.stamp(&x.stall)
	}
	k.startStall(x)
}

// startStall starts the stall clock, unless it runs: that our own kernel accepts a
// little more does not say that the peer has taken anything. mu held.
func (k *connRef) startStall(x *inflight) {
	if x.stall.Load() == 0 {
		x.measured = false
		k.sh.srv.clock.stamp(&x.stall)
	}
}
