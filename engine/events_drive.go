package engine

import (
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/secure"
	"github.com/hone-go/hone/internal/sys"
)

// A connection's life on an event loop: what the poll reports, which steps follow, and
// what the connection then waits for.

// onReady handles an event of the poll. The caller is the loop; whoever takes it over in a visit reuses
// the event.
func (k *connRef) onReady(d *workspace, r *sys.Ready) {
	s := k.s
	switch ended, away := k.standing(); {
	case ended:
		return
	case away && k.onReadyAway(r):
		return
	}
	readable := r.In() || r.HungUp() || r.Broken()
	if s.want&sys.Once != 0 {
		s.mu.Lock()
		s.want = 0 // one-shot: disarmed until the next Change
		s.mu.Unlock()
	}
	switch {
	case readable && k.owner().readsOn():
		writable := r.Out()
		if k.servedOffLoop() {
			k.owner().handOff()
			return
		}
		k.owner().readOnce(d)
		if !d.offLoop && k.x.Load() == nil && s.want == sys.In && k.reason() == 0 && !s.own.has(isOver) {
			return // nothing is in flight: no change
		}
		if !d.offLoop && s.own.has(isLate) {
			k.sh.loop.yield.Others()
		}
		k.owner().drive(d, writable)
		return
	case readable && k.phase() == life.Lingering:
		k.owner().discardOnce(d)
	case readable && s.own.has(drains):
		if x := k.x.Load(); x.frame.IsAllowed() {
			x.left = max(1, x.in.Want()) // and nothing beyond it
		}
	}
	k.owner().drive(d, true)
}

// readsOn reports whether to read at once.
func (k owner) readsOn() bool {
	if k.phase() != life.Serving || k.reason() != 0 || !k.s.opened || k.sh.srv.endsAll.Load() {
		return false
	}
	x := k.x.Load()
	return x == nil || !x.in.Ready() && !x.blocked.Load()
}

// onReadyAway writes the queued output of a connection that is off its loop. It reports
// whether the connection still is: the event may be a one-shot event that an owner who
// has just returned the connection has armed.
func (k *connRef) onReadyAway(r *sys.Ready) bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	switch ended, away := k.standing(); {
	case ended:
		return true // no longer in use, or another connection's
	case !away:
		return false
	}
	if k.s.want&sys.Once != 0 {
		k.s.want = 0 // one-shot: disarmed until the next Change
	}
	if k.s.facets.has(isInLine) && (r.Broken() || r.HungUp()) {
		k.fail(PeerReset)
		k.s.dead = true
	}
	if k.held().leaveLine() {
		return false
	}
	if x := k.x.Load(); x != nil && x.goal == arrived && (r.In() || r.HungUp() || r.Broken()) {
		x.wakeOwner()
	}
	k.held().writeAway(true)
	return true
}

// drive runs the connection's steps as far as possible without waiting, then arms it for
// what it needs next. writable means that the peer reads output again. It is the owner's
// last call: afterwards the connection may belong to somebody else.
func (k owner) drive(d *workspace, writable bool) {
	s := k.s
	for served := false; ; {
		s.mu.Lock()
		x := k.x.Load()
		if x != nil && !s.dead {
			k.held().write(x, writable)
		}
		writable = false
		s.marks.clear(isWaiting)
		if s.marks.has(isTired) {
			s.marks.clear(isTired)
			k.held().detach()
			x = k.x.Load()
		}
		switch st := life.Next(k.held().facts(nil)); st {
		case life.WaitForUser, life.WaitForPeer, life.WaitForSettled, life.WaitForReceipt, life.WaitForRoom, life.WaitForBytes:
			if paused := st == life.WaitForRoom; x != nil && (paused || st == life.WaitForBytes && x.in.Len() > 0) {
				x.frame.Pace(&k.sh.srv.clock, paused) // the timer of a message stops while we do not read
			}
			switch st {
			case life.WaitForRoom, life.WaitForSettled:
				s.marks.set(isWaiting)
			case life.WaitForReceipt:
				k.held().startStall(x)
			}
			k.held().release()
			return
		case life.StepServe, life.StepRead:
			switch {
			case served: // other connections first
				k.held().list()
				k.held().release()
				return
			case !d.offLoop && k.servedOffLoop():
				s.mu.Unlock()
				k.handOff()
				return
			}
			s.mu.Unlock()
			k.serveKept(d)
			served = true
		case life.StepHandOver:
			if !d.offLoop {
				k.sh.loop.yield.Others()
			}
			k.held().lendOffLoop()
			return
		case life.StepEnd, life.StepShut:
			if s.secured && k.held().saysGoodbye() {
				s.mu.Unlock()
				continue
			}
			if st == life.StepShut {
				k.held().carryOut(st, d)
				continue
			}
			s.dead = true // under this hold of mu: anything posted from now on would be lost
			s.mu.Unlock()
			k.end(d)
			return
		default:
			k.held().carryOut(st, d)
		}
	}
}

// serveKept serves input that was kept, or reads.
func (k owner) serveKept(d *workspace) {
	if x := k.x.Load(); x == nil || !x.in.Ready() {
		k.readOnce(d)
		return
	}
	k.unpack(d)
	k.serve(d)
	k.pack(d)
}

// readOnce reads once and serves the messages that this completes.
func (k owner) readOnce(d *workspace) {
	k.unpack(d)
	x := k.x.Load()
	n, err := 0, error(nil)
	if k.s.own.shakesNext() { // so that no helper waits for the rest of a ClientHello
		if n, err = k.sh.poll.Read(k.s.socket, d.box.Space(&k.sh.srv.input)); d.box.Arrived(n) {
			d.box.Served(0, secure.HelloLacks(d.box.Bytes()))
		}
	} else if k.s.secured && !k.s.own.has(wantsProxy) {
		if n, err = k.pull(d, false); n > 0 {
			k.received(d, 0) // pull has counted them
		}
	} else {
		p := d.box.Space(&k.sh.srv.input)
		if k.s.own.has(drains) {
			p = p[:min(len(p), x.left)]
		}
		if k.s.secured { // the PROXY header, and nothing of the handshake after it
			p = p[:min(len(p), max(1, d.box.Want()))]
		}
		if n, err = k.sh.poll.Read(k.s.socket, p); n > 0 {
			k.received(d, n)
		}
		if k.s.own.shakesNext() {
			k.attachUnlocked().frame.Begin(&k.sh.srv.clock)
		}
	}
	k.pack(d)
	switch {
	case err == nil:
	case k.s.own.has(drains):
		if err == sys.ErrAgain {
			x.left = min(x.left, k.link().Unread())
		} else {
			x.left = 0
			k.stopFrame()
		}
	case err == sys.ErrAgain:
	case err == sys.ErrClosed:
		k.fail(PeerClosed)
	default:
		k.broke()
	}
}

// discardOnce reads and drops what a refused peer still sends.
func (k owner) discardOnce(d *workspace) {
	x := k.attachUnlocked()
	n, err := k.sh.poll.Read(k.s.socket, d.in[:min(len(d.in), helperRead)])
	x.left -= n
	if err != nil && err != sys.ErrAgain || x.left <= 0 {
		k.kill()
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
