package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// The output of a visit on an event loop: writes never block, so holding the connection's
// mutex is the right to write.

// flushNow writes the output of a visit, and what was posted during it. It reports false
// when the connection is dead.
func (k owner) flushNow(t *Turn, said bool) bool {
	s := k.s
	s.mu.Lock()
	x := k.x.Load()
	fits := len(t.Out) > 0 && len(t.Out) <= maxSend
	if x == nil && fits && !said && !s.dead && !s.secured && s.own&(hasAsked|isLate) == hasAsked {
		// Most visits: nothing is in flight, and the request budget knows the connection.
		n, err := k.sh.poll.Write(s.socket, t.Out)
		k.sh.counts.bytesOut.Add(uint64(n))
		if err == nil {
			t.emptyOut()
			s.mu.Unlock()
			return true
		}
		k.held().putRest(t, n, err)
	} else {
		if x != nil {
			t.giveBack(x)
		}
		if said {
			s.marks.set(isSaid)
		}
		k.held().visitOwes(k.x.Load(), t)
		if !s.dead {
			k.held().put(t)
		}
	}
	t.emptyOut()
	if x := k.x.Load(); x != nil {
		x.waiting -= int64(x.queue.EndVisit(&k.sh.srv.buffers, said))
		first := x.share.IsTrial()
		x.share.EndVisit(&k.sh.srv.output)
		if !s.dead {
			k.held().write(x, false)
		}
		if first && !s.dead {
			k.held().detach() // it was attached for the trial, and a busy connection would not be detached soon
		}
	}
	dead := s.dead
	s.mu.Unlock()
	return !dead
}

// emptyOut empties Out, and keeps its memory unless one large reply has made it large.
func (t *Turn) emptyOut() {
	if t.Out = t.Out[:0]; cap(t.Out) > maxPooled {
		t.Out = nil
	}
}

// put writes the output of a visit, and queues what the socket does not accept.
func (k held) put(t *Turn) {
	x := k.x.Load()
	switch {
	case len(t.Out) == 0:
	case x == nil || x.unwritten():
		if n, err := k.send(t.Out, maxSend); err != nil {
			k.putRest(t, n, err)
		}
	default:
		k.queue(x, t.Out)
	}
}

// queue appends output of a visit.
func (k held) queue(x *inflight, out []byte) {
	x.waiting += int64(len(out))
	if x.queue.Add(&k.sh.srv.buffers, [][]byte{out}, len(out)) {
		k.recount(x)
	}
}

// putRest queues the output of a visit after n bytes have been written, and then err.
func (k held) putRest(t *Turn, n int, err error) {
	if err != sys.ErrAgain {
		k.fail(PeerReset)
		k.s.dead = true
		return
	}
	x := k.attach()
	x.front, x.sent = k.keep(t, n)
	x.blocked.Store(true)
	x.waiting += int64(len(x.front.Bytes()) - x.sent)
	if k.s.secured {
		x.waiting += int64(k.layer().Sealed())
	}
	k.recount(x)
	k.notSent(x, n == maxSend)
}

// keep returns a buffer with the unsent rest of t.Out, of which sent bytes have gone: a
// copy, or t.Out itself where that is cheaper and not much larger.
func (k *connRef) keep(t *Turn, sent int) (pool.Buffer, int) {
	if rest := t.Out[sent:]; len(rest) < max(maxPooled/4, cap(t.Out)/2) {
		b := k.sh.srv.buffers.Get(max(1, len(rest)))
		b.SetLen(copy(b.Bytes(), rest))
		return b, 0
	}
	b := k.sh.srv.buffers.Get(1)
	b.SetBytes(t.Out)
	t.Out = nil
	return b, sent
}

// flushMid writes a visit's output so far, and waits until the kernel has accepted it.
// It unlocks meanwhile.
func (k held) flushMid(t *Turn) {
	s := k.s
	if s.dead {
		return
	}
	k.put(t)
	x := k.x.Load()
	if x == nil {
		return
	}
	k.streams(t)
	x.queue.LetEarlierGo()
	k.write(x, false)
	ahead := x.queue.Ready()
	if s.secured {
		ahead += k.layer().Sealed()
	}
	if x.front.Lent() {
		ahead += len(x.front.Bytes()) - x.sent
	}
	for x.target = x.written.Load() + uint32(ahead); !s.dead && !x.reached(); {
		if _, away := k.standing(); !away {
			s.mu.Unlock()
			t.Leave()
			s.mu.Lock()
			continue
		}
		k.await(x, written)
	}
}
