package engine

import (
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/proxy"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// The steps of package life, as far as both kinds of engine share them: everything except
// waiting, reading and writing. The caller of every function here is the connection's
// owner.

// begin initialises a slot for a connection. The caller then calls release.
func (k owner) begin(a *arrival, socket sys.Socket, g *goroutineConn) {
	s, srv := k.s, k.sh.srv
	s.mu.Lock()
	s.why.Store(0)
	s.phase.Store(uint32(life.Serving))
	s.since.Store(0)
	s.state, s.socket, s.tickets, s.speaks = a.state, socket, 0, a.speaks
	s.own, s.marks, s.opened, s.dead, s.slowVisits, s.epoch = 0, 0, false, false, 0, 0
	s.want, s.suspect, s.counted, s.weight = 0, 0, a.counted, 0
	s.spoken, s.facets, s.secured = a.speaks != 0, 0, false
	if g != nil {
		k.x.Store(&g.inflight)
	}
	k.link().LimitUnsent(maxUnsent)
	k.held().setAddr(a.from)
	k.touch()
	srv.clock.Stamp(&s.since)
	switch {
	case a.proxy:
		s.own.set(wantsProxy)
		k.held().attach().frame.Begin(&srv.clock) // the PROXY header has a message's time from here on
	case len(a.unread) > 0 && g != nil:
		g.own.box.Put(&srv.input, a.unread)
	case len(a.unread) > 0:
		k.held().attach().in.Put(&srv.input, a.unread)
	case srv.OnOpen == nil && g == nil && a.speaks == 0:
		s.own.set(isKnown)
		s.opened = true
	}
	k.held().setAway(true) // ours, for now
}

// facts returns the input of life.Next; d has the connection's input if it is not in
// its inflight.
func (k held) facts(d *workspace) life.Facts {
	s, x, why := k.s, k.x.Load(), k.reason().kind()
	f := life.Facts{
		Phase: k.phase(), Why: why, Dead: s.dead || why != life.Lives && s.own.has(mustShake), Opened: s.opened,
		Stopped: s.own.has(isStopped), Said: s.marks.has(isSaid), Settled: true,
		Suspect: s.suspect != 0, Draining: k.sh.srv.draining.Load(), Drains: s.own.has(drains),
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

// moments returns a snapshot of the connection.
func (k held) moments() timing.Moments {
	s := k.s
	m := timing.Moments{Asks: k.speaks().ping != nil, Phase: k.phase(), Since: s.since.Load(), Seen: s.seen.Load(), Trusted: s.facets.has(isTrusted), Draining: k.sh.srv.draining.Load()}
	if x := k.x.Load(); x != nil {
		m.SetFrame(&x.frame)
		m.Stall = x.stall.Load()
		m.Unfinished = x.unfinished
		m.Owed = x.promises.Open() > 0 || x.late > 0 || x.starves()
		m.Trusted = m.Trusted || x.starves()
		if x.g != nil {
			if x.promises.IsLarge() {
				m.RestAfter = restAfter
			}
		} else if x.rare == nil && m.Frame == 0 && !m.Owed && x.waiting == 0 {
			m.RestAfter = restAfter
		}
	}
	return m
}

// restAfter is after how many idle periods a connection rests: half a second by default. A rest must be
// rare compared with the requests before it: detaching an inflight costs 0.3 µs.
const restAfter = 2

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

// open does what comes before the first read.
func (k owner) open(d *workspace) {
	if k.s.own&(wantsProxy|mustShake) == wantsProxy {
		return // OnOpen must see the address in the header
	}
	if d.g != nil && (!d.g.handshake() || k.isDead()) {
		k.kill()
		return
	}
	k.welcome(d)
}

// welcome calls OnOpen.
func (k owner) welcome(d *workspace) {
	k.s.own.set(isKnown)
	if srv := k.sh.srv; srv.OnOpen != nil {
		k.call(d, func() { srv.OnOpen(k.conn()) })
	}
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

// flush writes the replies of a visit and what was posted meanwhile; said means that they
// end with the protocol's error message. It reports false when the connection is dead.
func (k owner) flush(d *workspace, said bool) bool {
	if d.g != nil {
		return d.g.flushWaiting(&d.turn, said)
	}
	return k.flushNow(&d.turn, said)
}

// visit calls the protocol, or the parser of the PROXY header, under the watchdog.
func (k owner) visit(d *workspace) (used, need int, why Reason) {
	srv, t := k.sh.srv, &d.turn
	if srv.ordered {
		k.startVisit()
	}
	if !k.s.spoken && d.box.Len() > 0 {
		k.markSpoken() // after a PROXY header
	}
	if t.begin(d); k.isLast() {
		t.left = 1
	}
	k.enterUser(d)
	defer k.exitUser(d)
	if k.s.own.has(wantsProxy) {
		defer t.end(0)
		return k.readProxyHeader(d.box.Bytes())
	}
	return srv.visit(t, d.box.Bytes())
}

// readProxyHeader parses the PROXY header at the front of in.
func (k owner) readProxyHeader(in []byte) (used, need int, why Reason) {
	used, need, addr, err := proxy.Parse(in)
	if err != nil {
		return 0, 0, BadProxyHeader
	}
	if need > 0 {
		return 0, need, 0
	}
	s, srv := k.s, k.sh.srv
	s.own.clear(wantsProxy)
	s.mu.Lock()
	if addr.IsValid() {
		k.held().setAddr(addr)
	}
	from := k.held().addr().Addr()
	s.mu.Unlock()
	srv.mu.Lock()
	ok := srv.addresses.Count(from, &s.counted)
	srv.mu.Unlock()
	if !ok {
		return used, 0, TooManyPerAddress
	}
	if s.own.has(mustShake) {
		return used, 0, 0
	}
	s.own.set(isKnown)
	if srv.OnOpen != nil {
		srv.guard(k.conn(), func() { srv.OnOpen(k.conn()) })
	}
	return used, 0, 0
}

// call calls user code under the watchdog.
func (k owner) call(d *workspace, user func()) {
	k.enterUser(d)
	defer k.exitUser(d)
	k.sh.srv.guard(k.conn(), user)
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

// end closes the socket, whatever happened, and calls the callbacks.
func (k owner) end(d *workspace) {
	s, srv := k.s, k.sh.srv
	if k.reason() == 0 {
		k.fail(Panicked) // only runtime.Goexit gets here without a reason
	}
	if s.secured && s.own.shakesNext() {
		k.shakeFailed(k.reason())
	}
	s.mu.Lock()
	s.dead = true
	k.held().setAway(true) // no owner from here on
	s.marks.clear(isListed)
	s.want = 0
	stream := k.link().Stream
	resets := stream.Resets()
	if x := k.x.Load(); x != nil {
		x.ended = true
		k.held().drop(x)
	}
	k.sh.poll.CloseSocket(s.socket)
	s.socket = sys.NoSocket
	addr, facets := k.held().addr().Addr(), s.facets
	s.mu.Unlock()
	stream.Close(resets) // not under mu
	k.endTurn()
	why := k.reason()
	defer func() { // even if OnClose panics or ends the goroutine
		srv.uncount(why, addr, s.counted, facets)
		k.free()
	}()
	defer func() { // even if Ended ends the goroutine
		if s.own.has(isKnown) && srv.OnClose != nil {
			s.own.clear(isKnown)
			k.call(d, func() { srv.OnClose(k.conn(), why) })
		}
	}()
	if told := k.speaks().ended; told != nil {
		k.call(d, func() { told(k.conn(), s.state, why) })
	}
}

// reason returns why the connection is ending, 0 while it is not.
func (k *connRef) reason() Reason { return Reason(k.s.why.Load()) }

// fail records why the connection ends. The first reason wins, except that any reason
// replaces PeerClosed, which only says that the peer will send no more.
func (k *connRef) fail(why Reason) {
	if !k.s.why.CompareAndSwap(0, uint32(why)) {
		k.s.why.CompareAndSwap(uint32(PeerClosed), uint32(why))
	}
}

// kill makes sure that nothing more is written.
func (k *connRef) kill() {
	k.s.mu.Lock()
	k.s.dead = true
	k.s.mu.Unlock()
}

func (k *connRef) isDead() bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.s.dead
}

// broke ends a connection whose socket has failed.
func (k *connRef) broke() {
	k.fail(PeerReset)
	k.kill()
}

func (k *connRef) phase() life.Phase { return life.Phase(k.s.phase.Load()) }

func (k *connRef) enter(p life.Phase) { k.sh.srv.clock.Enter(&k.s.since, &k.s.phase, p) }

// touch resets the idle timeout.
func (k *connRef) touch() { k.sh.srv.clock.Stamp(&k.s.seen) }
