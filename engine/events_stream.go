package engine

import "github.com/hone-go/hone/internal/sys"

// Visits that wait, on an event loop.

// leaveLoop hands the loop to another goroutine and continues the visit on this one.
func (k owner) leaveLoop(d *workspace) {
	if _, away := k.standing(); !d.offLoop && !away {
		k.sh.loop.passOn(d.visit, false)
	}
}

// flushAndAwait writes a visit's output so far, and waits until the kernel has accepted it.
// It unlocks meanwhile.
func (k held) flushAndAwait(t *Turn) {
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

// readMore reads in the middle of a visit. It returns 0, nil when it has waited.
func (k owner) readMore(d *workspace) (n int, err error) {
	s, t := k.s, &d.turn
	if s.secured {
		n, err = k.pull(d, true)
	} else {
		n, err = k.sh.poll.Read(s.socket, d.box.Space(&k.sh.srv.input))
	}
	switch {
	case err == nil:
		return n, nil
	case err == sys.ErrClosed:
		k.fail(PeerClosed)
		return n, err
	case err != sys.ErrAgain:
		k.broke()
		return n, err
	}
	d.slim(streamRead)
	t.Leave()
	if sent, err := k.sendEarlier(t); sent {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := k.held().endsVisit(t); err != nil {
		return 0, err
	}
	x := k.held().attach()
	x.queue.LetEarlierGo() // the peer may wait for it
	if k.held().write(x, false); s.dead {
		return 0, k.held().failed(t)
	}
	x.noteInput(&d.box)
	began := k.held().startWait(x, t, d.box.Want())
	k.held().await(x, arrived)
	err = k.held().endsVisit(t)
	k.held().endWait(x, t, began)
	return 0, err
}
