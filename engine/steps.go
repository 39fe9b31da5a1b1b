package engine

import (
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/engine/internal/transport"
)

// The steps of package life, as far as both kinds of engine share them: everything except
// waiting, reading and writing. The caller of every function here is the connection's
// owner.

// facts returns the input of life.Next; d has the connection's input if it is not in
// its inflight.
func (k held) facts(d *workspace) life.Facts {
	s, x, why := k.s, k.x.Load(), k.reason().kind()
	f := life.Facts{
		Phase: k.phase(), Why: why, Dead: s.dead || why != life.Lives && s.own.has(mustShake), Opened: s.opened,
		Stopped: s.own.has(isStopped), Said: s.marks.has(isSaid), Settled: true,
		Suspect: s.suspect != 0, Draining: k.sh.srv.endsAll.Load(), Drains: s.own.has(drains),
		Unread: s.own&(isOver|drains) == isOver,
	}
	if x != nil {
		f.Promised, f.Words = x.promised(), x.rare != nil && x.rare.words != nil
		f.Settled = x.settled()
		f.Ready = x.in.Ready() || d != nil && d.box.Ready()
		f.Unread = f.Unread || f.Drains && x.left > 0
		f.Expects = x.frame.IsAllowed() && !s.own.has(isOver)
		f.Partial = x.in.Len() > 0 || d != nil && d.box.Len() > 0
		if f.Unfinished = x.unfinished; f.Unfinished {
			f.Received = f.Settled && k.link().IsReceived()
		}
		f.Paused = x.blocked.Load() || x.starves() || f.Ready && !k.resumes(x)
	}
	return f
}

// carryOut carries out a step, unless it is a wait or specific to a kind of engine. It
// unlocks.
func (k held) carryOut(st life.Step, d *workspace) {
	s, srv := k.s, k.sh.srv
	switch st {
	case life.StepOpen:
		s.opened = true
		s.mu.Unlock()
		k.owner().open(d)
		k.owner().serveFirst(d)
		return
	case life.StepReconsider:
		// A handler may have been running for long, which does not count as idle, or the
		// message may have been completed just now.
		if k.reconsider(); s.facets.has(isDisplaced) && !ends(k.reason()) {
			k.makeRoom(d)
			return
		}
	case life.StepDrain:
		s.own.set(drains)
		k.fail(ShuttingDown)
		k.attach().left = k.link().Unread()
	case life.StepFinish:
		if x := k.x.Load(); x != nil && k.reason() == PeerClosed {
			k.endContext(x) // where the kernel does not report disconnects, this is the only signal
		}
		if k.reason() == ShuttingDown && srv.limits.SpreadTime > 0 && k.speaks().saysLast {
			srv.idle.Add(1)
		}
		k.enter(life.Finishing)
	case life.StepClose:
		k.enter(life.Closing)
	case life.StepRefuse:
		s.marks.set(isSaid)
		s.mu.Unlock()
		k.owner().refuse(d)
		return
	case life.StepShut:
		s.marks.set(isShut)
		x := k.attach()
		x.left = transport.LingerBytes
		x.in.Forget(&srv.input)
		d.box.Forget(&srv.input)
		s.mu.Unlock()
		if !k.link().CloseWrite() {
			k.kill() // in this order, because an abort may have come first
		}
		k.enter(life.Lingering)
		return
	case life.StepReset:
		k.abort(k.reason())
	}
	s.mu.Unlock()
}

// reconsider checks the sweeper's suspicion, or EndIdle's, and reports whether it was right.
func (k held) reconsider() (ends bool) {
	asked := k.s.suspect == ClosedHere
	k.s.suspect = 0
	if asked && k.moments().IsIdle() {
		k.fail(ClosedHere)
		return true
	}
	// By the clock of the timestamps: a sweeper that was starved left it behind the time.
	if v, limit, _ := k.sh.srv.rules.Judge(k.moments(), k.sh.srv.clock.Now()); v > timing.Rest {
		k.fail(exceeded(limit))
		k.owner().stopFrame() // a drain no longer waits for the message
		return true
	}
	return false
}

// serveFirst makes the first visit of ServeConn, for which nothing need have arrived, and the one that
// follows at once when that has switched protocols.
func (k owner) serveFirst(d *workspace) {
	first := k.s.speaks
	if first == 0 || k.reason() != 0 {
		return
	}
	if d.g == nil {
		k.unpack(d)
	}
	if k.serve(d) && k.s.speaks != first {
		k.serve(d)
	}
	if d.g == nil {
		k.pack(d)
	}
}

// received accounts for n bytes read into the box, and serves the messages that they
// complete. It reports whether the protocol needs more.
func (k owner) received(d *workspace, n int) (hungry bool) {
	k.touch()
	k.sh.counts.bytesIn.Add(uint64(n))
	if k.s.own.has(drains) {
		x := k.x.Load()
		x.left = max(0, x.left-n)
	}
	if !k.s.spoken {
		k.markSpoken()
	}
	if d.box.Arrived(n) {
		return k.serve(d)
	}
	k.startFrame(&d.box, d.box.Want())
	return true
}

// rounds is how many consecutive visits a connection of a loop may have before the others
// are served.
const rounds = 4

// serve passes what has arrived to the protocol until it needs more bytes, and writes its
// replies. It reports whether the protocol needs more and may have it: otherwise next
// decides.
func (k owner) serve(d *workspace) (hungry bool) {
	for n := 1; ; n++ {
		used, need, why := k.visit(d)
		d.box.Served(used, need)
		if used > 0 {
			if k.isLast() {
				d.box.Forget(&k.sh.srv.input)
				k.x.Load().left = 0
			}
			k.stopFrame()
		}
		if d.size = max(len(d.turn.Out), d.turn.largest); why == Panicked {
			d.dropBuffers()
		}
		if d.size > ration.SmallVisit || k.s.weight != ration.SmallWeight && d.size+d.turn.requests > 0 {
			k.sh.srv.output.Learn(&k.s.weight, d.size)
		}
		if !k.flush(d, why.kind() == life.Told) {
			if d.size > ration.SmallVisit && k.sh.srv.sweeper.surplus.Waste(d.size) {
				k.sh.srv.clock.SweepNow()
			}
			return false
		}
		switch {
		case why != 0: // before TakeOver: a protocol that has lost its position in the input has nothing to hand over
			k.s.own.set(isStopped)
			k.fail(why)
			return false
		case d.turn.takeOver != nil:
			k.promiseSocket(d)
			return false
		case ends(k.reason()): // somebody else has ended the service meanwhile
			return false
		case need > 0 || used == 0 && d.box.Len() == 0: // nothing more can be done before bytes arrive
			k.startFrame(&d.box, need)
			k.touch()
			x := k.x.Load()
			if d.turn.within > 0 && d.box.Len() > 0 {
				x.frame.Allow(timing.Ticks(d.turn.within))
			}
			return x == nil || !x.blocked.Load()
		}
		if !k.hasRoom() {
			k.stopFrame() // while we do not read a message, its timer must not run
			k.touch()     // the visit may have taken longer than IdleTime
			return false
		}
		if d.g != nil {
			d.g.yield(d.turn.requests)
		} else if n == rounds {
			k.touch() // the last visit may have taken longer than IdleTime
			return false
		}
	}
}

// refuse sends the peer the reason for which the connection ends.
func (k owner) refuse(d *workspace) {
	unserved := d.box.Bytes()
	if x := k.x.Load(); x != nil && x.in.Len() > 0 {
		unserved = x.in.Bytes()
	}
	out := d.turn.Out[:0]
	d.turn.Out = out
	if x := k.x.Load(); x != nil && x.rare != nil && x.rare.words != nil {
		d.turn.Out = append(out, x.rare.words...)
	} else {
		k.call(d, func() { d.turn.Out = k.speaks().Refuse(out, unserved, k.reason()) })
	}
	k.flush(d, false)
}
