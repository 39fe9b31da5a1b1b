package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// flush writes what a visit has produced, and what was posted during it. It
// reports false when the connection is over.
func (k *link) flush(t *Turn) bool {
	s := k.s
	s.mu.Lock()
	x := k.x.Load()
	if x != nil {
		x.queue.visiting = false
	}
	switch {
	case s.over:
	case len(t.Out) == 0:
	case x == nil || !x.front.Lent() && !x.queue.buffer.Lent():
		n, err := k.l.poll.Write(s.socket, t.Out)
		k.l.tally.bytesOut.Add(uint64(n))
		switch {
		case err == nil:
		case err == sys.ErrAgain:
			x = k.fly()
			x.front, x.sent = k.keep(t, n)
			x.stuck.Store(true)
			k.charge(x, len(x.front.Bytes())-x.sent)
			k.stalled(x)
		default:
			k.fail(PeerReset)
			s.over = true
		}
	default:
		x.queue.insert(k.l.srv, t.Out)
		k.charge(x, len(t.Out))
	}
	t.Out = t.Out[:0]
	if cap(t.Out) > maxPooled {
		t.Out = nil // one large reply is no reason to stay large
	}
	if x != nil && !s.over {
		k.write(x, false)
	}
	over := s.over
	s.mu.Unlock()
	return !over
}

// keep is what the peer has not taken of t.Out, of which sent bytes have gone: a
// copy, or t.Out itself where that is cheaper.
func (k *link) keep(t *Turn, sent int) (pool.Buffer, int) {
	if rest := t.Out[sent:]; len(rest) < maxPooled/4 {
		b := k.l.srv.buffers.Get(len(rest))
		copy(b.Bytes(), rest)
		return b, 0
	}
	b := k.l.srv.buffers.Get(1)
	b.SetBytes(t.Out)
	t.Out = nil
	return b, sent
}

// write sends what waits, as far as the peer takes it. mu held. Where the peer
// took nothing the last time, it is tried again only if that is said to be worth
// a system call.
func (k *link) write(x *flight, blocked bool) {
	if x.late > 0 {
		k.l.tally.late.Add(x.late)
		x.late = 0
		k.touch() // the peer's time to ask again begins with the answer
	}
	for !x.front.Lent() || blocked {
		if !x.front.Lent() {
			if x.queue.held() {
				x.stall.Store(0)
				return
			}
			x.front, x.sent = x.queue.take(), 0
		}
		n, err := k.l.poll.Write(k.s.socket, x.front.Bytes()[x.sent:])
		x.sent += n
		k.l.tally.bytesOut.Add(uint64(n))
		k.charge(x, -n)
		if err == sys.ErrAgain {
			if n > 0 || x.stall.Load() == 0 {
				k.stalled(x)
			}
			return
		}
		if err != nil {
			k.fail(PeerReset)
			k.s.over = true
			return
		}
		x.front.Release()
		x.front = pool.Buffer{}
		x.stuck.Store(false)
		if x.stall.Load() != 0 {
			x.stall.Store(0)
			k.touch() // whoever takes its time to read is not idle meanwhile
		}
	}
}

// stalled starts the stall clock anew.
func (k *link) stalled(x *flight) {
	x.unsent.Store(0)
	k.l.srv.clock.stamp(&x.stall)
}

// charge counts n bytes more, or less, that wait for the peer.
func (k *link) charge(x *flight, n int) {
	x.waiting += int64(n)
	if now := x.waiting &^ (chargeUnit - 1); now != x.charged {
		k.l.srv.charge(int(now - x.charged))
		x.charged = now
	}
}

// chargeUnit is how exactly the server knows, between sweeps, what waits for one
// peer: small replies are not worth an operation that all processors share.
const chargeUnit = 1 << 10

// flown reports whether nothing is owed and nothing waits for the peer. mu
// held.
func flown(x *flight) bool {
	return x == nil || x.promises.open == 0 && !x.front.Lent() && !x.queue.buffer.Lent()
}
