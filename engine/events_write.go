package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Output that does not wait: on an event loop all of it, on a goroutine engine what
// a flusher sends. Holding the connection's mutex is the right to write.

// flushNow writes what a visit has produced, and what was posted during it. It
// reports false when the connection is dead.
func (k *connRef) flushNow(t *Turn, said bool) bool {
	s := k.s
	s.mu.Lock()
	x := k.x.Load()
	if x != nil {
		x.queue.visiting = false
	}
	if said {
		s.marks.set(isSaid)
	}
	switch {
	case s.dead:
	case len(t.Out) == 0:
	case x == nil || x.unwritten():
		n, err := k.send(t.Out)
		switch {
		case err == sys.ErrAgain:
			x = k.attach()
			x.front, x.sent = k.keep(t, n)
			x.blocked.Store(true)
			k.charge(x, len(x.front.Bytes())-x.sent)
			k.startStall(x)
		case err != nil:
			k.fail(PeerReset)
			s.dead = true
		}
	default:
		x.queue.insert(k.sh.srv, t.Out)
		k.charge(x, len(t.Out))
	}
	t.Out = t.Out[:0]
	if cap(t.Out) > maxPooled {
		t.Out = nil // one large reply is no reason to stay large
	}
	if x != nil && !s.dead {
		k.write(x, false)
	}
	dead := s.dead
	s.mu.Unlock()
	return !dead
}

// maxSend is what one peer is sent at a time. A peer that takes large replies as
// fast as they come would otherwise hold its loop, and its mutex, for as long as
// the reply lasts: 12 MB took up to 200 ms.
const maxSend = 256 << 10

// send is one write that does not wait. ErrAgain says that p was not sent whole:
// the socket is full, or it was time to look at others. mu held.
func (k *connRef) send(p []byte) (n int, err error) {
	q := p[:min(len(p), maxSend)]
	if x := k.x.Load(); x != nil && x.g != nil {
		n, err = x.g.sendNow(q)
	} else {
		n, err = k.sh.poll.Write(k.s.socket, q)
	}
	k.sh.counts.bytesOut.Add(uint64(n))
	if err == nil && n < len(p) {
		err = sys.ErrAgain
	}
	return n, err
}

// keep is what the peer has not taken of t.Out, of which sent bytes have gone: a
// copy, or t.Out itself where that is cheaper.
func (k *connRef) keep(t *Turn, sent int) (pool.Buffer, int) {
	if rest := t.Out[sent:]; len(rest) < maxPooled/4 {
		b := k.sh.srv.buffers.Get(len(rest))
		copy(b.Bytes(), rest)
		return b, 0
	}
	b := k.sh.srv.buffers.Get(1)
	b.SetBytes(t.Out)
	t.Out = nil
	return b, sent
}

// write sends what waits, as far as the peer takes it. mu held. Where the peer
// took nothing the last time, it is tried again only if that is said to be worth
// a system call.
func (k *connRef) write(x *inflight, again bool) {
	k.countLate(x)
	for !x.front.Lent() || again {
		if !x.front.Lent() {
			if x.queue.held() {
				x.stall.Store(0)
				break
			}
			x.front, x.sent = x.queue.take(), 0
		}
		n, err := k.send(x.front.Bytes()[x.sent:])
		x.sent += n
		k.charge(x, -n)
		if err == sys.ErrAgain {
			if n > 0 || x.stall.Load() == 0 {
				k.startStall(x)
			}
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
	switch {
	case x.g == nil:
	case k.s.dead:
		x.g.nudge()
	case x.front.Lent():
		x.g.startWriter() // what is left needs somebody who waits
	}
}

// startStall starts the stall clock anew.
func (k *connRef) startStall(x *inflight) {
	x.unsent.Store(0)
	k.sh.srv.clock.stamp(&x.stall)
}
