package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// The output of a visit on an event loop: writes never block, so holding the connection's
// mutex is the right to write.

// flushNow writes the output of a visit, and what was posted during it. It reports false
// when the connection is dead.
func (k *connRef) flushNow(t *Turn, said bool) bool {
	s := k.s
	s.mu.Lock()
	if x := k.x.Load(); x != nil {
		t.giveBack(x)
	}
	if said {
		s.marks.set(isSaid)
	}
	if x := k.x.Load(); x != nil || !k.s.own.has(hasAsked) || k.s.own.has(isLate) {
		k.visitOwes(x, t)
	}
	if !s.dead {
		k.put(t)
	}
	t.Out = t.Out[:0]
	if cap(t.Out) > maxPooled {
		t.Out = nil // do not keep a large buffer after one large reply
	}
	if x := k.x.Load(); x != nil {
		x.waiting -= int64(x.queue.endVisit(&k.sh.srv.buffers, said))
		first := x.trial
		k.visitCharged(x)
		if !s.dead {
			k.write(x, false)
		}
		if first && !s.dead {
			k.detach() // it was attached for the trial, and a busy connection would not be detached soon
		}
	}
	dead := s.dead
	s.mu.Unlock()
	return !dead
}

// put writes the output of a visit, and queues what the socket does not accept. mu held.
func (k *connRef) put(t *Turn) {
	x := k.x.Load()
	switch {
	case len(t.Out) == 0:
	case x == nil || x.unwritten():
		n, err := k.send(t.Out, maxSend)
		switch {
		case err == sys.ErrAgain:
			x = k.attach()
			x.front, x.sent = k.keep(t, n)
			x.blocked.Store(true)
			x.waiting += int64(len(x.front.Bytes()) - x.sent)
			k.recount(x)
			k.notSent(x, n == maxSend)
		case err != nil:
			k.fail(PeerReset)
			k.s.dead = true
		}
	default:
		x.waiting += int64(len(t.Out))
		if x.queue.add(&k.sh.srv.buffers, [][]byte{t.Out}, len(t.Out)) {
			k.recount(x)
		}
	}
}

// keep returns a buffer with the unsent rest of t.Out, of which sent bytes have gone: a
// copy, or t.Out itself where that is cheaper and not much larger.
func (k *connRef) keep(t *Turn, sent int) (pool.Buffer, int) {
	if rest := t.Out[sent:]; len(rest) < max(maxPooled/4, cap(t.Out)/2) {
		b := k.sh.srv.buffers.Get(len(rest))
		copy(b.Bytes(), rest)
		return b, 0
	}
	b := k.sh.srv.buffers.Get(1)
	b.SetBytes(t.Out)
	t.Out = nil
	return b, sent
}
