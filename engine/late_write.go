package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Writes late replies, pushes, and what a peer did not accept at once: from the loop, or
// from a flusher of a goroutine engine. No write here blocks.

// write sends the queued output, as far as the socket accepts it. If the socket was full the
// last time, it tries again only with again set, because that costs a system call.
func (k held) write(x *inflight, again bool) {
	k.countLate(x)
	if x.g != nil && x.g.Raw == nil { // without a plain socket, every write may block
		if !x.writing && x.g.nextFront() {
			x.g.startWriter()
		}
		return
	}
	for left := maxSend; !x.front.Lent() || again; {
		if !x.front.Lent() {
			if x.queue.Waits() {
				if !x.unfinished { // otherwise the peer still has to receive what was sent
					x.stall.Store(0)
				}
				break
			}
			x.front, x.sent = x.queue.Take(), 0
		}
		before := x.written.Load()
		n, err := k.send(x.front.Bytes()[x.sent:], left)
		x.sent += n
		x.waiting -= int64(x.written.Load() - before)
		left -= n
		if err == sys.ErrAgain {
			k.notSent(x, left == 0)
			k.shrinkFront(x)
			k.widen(x, maxSend-left)
			break
		}
		if err != nil {
			k.fail(PeerReset)
			k.s.dead = true
			break
		}
		if memory := &k.sh.srv.buffers; !memory.Spares.Any() { // giveBack, without a call for most
			x.front.Release()
		} else {
			memory.GiveBack(x.front)
		}
		x.front = pool.Buffer{}
		x.blocked.Store(false)
		if x.stall.Load() != 0 {
			x.stall.Store(0)
			k.touch() // a peer that reads slowly is not idle
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
		x.g.startWriter() // the rest needs a writer that may block
	}
}

// shrinkFront moves the rest of a mostly sent buffer to a smaller one.
func (k held) shrinkFront(x *inflight) {
	all := x.front.Bytes()
	if rest := all[x.sent:]; cap(all) > maxPooled/4 && len(rest) <= cap(all)/4 {
		b := k.sh.srv.buffers.Get(max(1, len(rest)))
		b.SetLen(copy(b.Bytes(), rest))
		k.sh.srv.buffers.GiveBack(x.front)
		x.front, x.sent = b, 0
	}
}

// maxSend is how much one peer is sent at a time. Otherwise a peer that reads a large
// reply as fast as it is sent would hold its loop, and its mutex, for the whole reply: 12
// MB took up to 200 ms.
const maxSend = 256 << 10

// send writes once without blocking, at most that many bytes. ErrAgain means that p was not
// sent in full: the socket is full, or other connections are due. With TLS, n bytes were sealed,
// and inflight.written says how many were written.
func (k held) send(p []byte, most int) (n int, err error) {
	q := p[:min(len(p), most)]
	x := k.x.Load()
	if k.s.secured {
		return k.sendSealed(x, q, len(p))
	}
	if len(q) == 0 {
		return 0, sys.ErrAgain
	}
	if x != nil && x.g != nil {
		n, err = x.g.WriteNow(q)
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

// sendSealed is send with TLS, for at most q of all bytes.
func (k held) sendSealed(x *inflight, q []byte, all int) (n int, err error) {
	c := k.layer()
	n, written, err := c.Send(k.sh.poll, k.s.socket, q)
	k.sh.counts.bytesOut.Add(uint64(written))
	if x != nil {
		x.written.Add(uint32(written))
	}
	switch {
	case err == nil && n < all:
		err = sys.ErrAgain
	case err != nil && err != sys.ErrAgain:
		c.Drop() // now: the connection may end without an inflight, or lose it first
	}
	return n, err
}
