package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
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
	if k.phase() != life.Serving || k.reason() != 0 || !k.s.opened || k.sh.srv.draining.Load() {
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

// writeAway writes queued output while the connection is off its loop.
func (k held) writeAway(again bool) {
	if x := k.x.Load(); x != nil && !k.s.dead {
		k.write(x, again)
	}
	k.watchFor(true)
}

// onListed handles a connection in the shard's list. The caller is the loop.
func (l *loop) onListed(d *workspace, key uint64) {
	k, ok := l.lock(key)
	if !ok {
		return
	}
	k.s.marks.clear(isDirty)
	if _, away := k.standing(); away && !k.held().leaveLine() {
		k.held().writeAway(false)
		k.s.mu.Unlock()
		return
	}
	k.s.mu.Unlock()
	d.ref = k
	d.ref.owner().drive(d, false)
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

// unpack moves kept input to where it can be served.
func (k owner) unpack(d *workspace) {
	d.box.Use(d.in)
	if x := k.x.Load(); x != nil && x.in.Len() > 0 {
		d.box, x.in = x.in, input.Buffer{}
		d.box.Lend(&k.sh.srv.input, d.in)
	}
}

// pack keeps unserved input, and clears the workspace for the next connection.
func (k owner) pack(d *workspace) {
	if x := k.x.Load(); x != nil || d.box.Len() > 0 || d.box.IsKept() {
		k.packInput(d, x)
	}
	d.box = input.Buffer{}
}

// packInput is pack where there may be input to keep.
func (k owner) packInput(d *workspace, x *inflight) {
	memory := &k.sh.srv.input
	if d.box.Len() > 0 && !k.holdsTooMuch(&d.box) {
		d.box.GiveBack(memory)
		x = k.attachUnlocked()
		x.in = d.box
	} else if d.box.IsKept() {
		d.box.Forget(memory)
	}
	if x != nil {
		x.noteInput(&d.box)
	}
}

// release arms the connection for what it waits for, returns it to its loop if it was
// away, and unlocks it. Whatever happened while it was away was seen under the same hold
// of mu.
func (k held) release() {
	k.watchFor(false)
	k.setAway(false) // last: from here on the loop accesses the owner's fields
	k.s.mu.Unlock()
}

// watchFor updates the poll's interest for a connection that is away or on its loop.
func (k held) watchFor(away bool) {
	s, x := k.s, k.x.Load()
	want := sys.Interest(0)
	switch phase := k.phase(); {
	case s.dead || !s.opened:
	case away && s.facets.has(isInLine):
		want = sys.Once
	case away && x != nil && x.goal == arrived:
		want = sys.In | sys.Once
	case away || phase == life.Finishing || phase == life.Closing:
	case phase == life.Serving && (s.own.has(drains) && !x.frame.IsAllowed() || x != nil && (x.in.Ready() || x.blocked.Load())):
	case phase == life.Serving && k.servedOffLoop():
		want = sys.In | sys.Once
	default:
		want = sys.In
	}
	if x != nil && x.front.Lent() && !s.dead {
		want |= sys.Out
	}
	if want == s.want && (s.marks.has(isListed) || want == 0) {
		return
	}
	var err error
	switch {
	case want == 0:
		if s.marks.has(isListed) { // even with no interest, epoll would keep reporting hang-ups
			err = k.sh.poll.Remove(s.socket)
		}
		s.marks.clear(isListed)
	case s.marks.has(isListed):
		err = k.sh.poll.Change(s.socket, want, k.key)
	default:
		err = k.sh.poll.Add(s.socket, want, k.key)
		if err == nil {
			s.marks.set(isListed)
		}
	}
	s.want = want
	if err != nil {
		k.fail(NoDescriptors)
		s.dead = true
		if k.list(); x != nil {
			x.wakeOwner()
		}
	}
}
