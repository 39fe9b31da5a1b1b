package engine

import (
	"net"
	"net/netip"
	"os"

	"github.com/hone-go/hone/internal/sys"
)

// The steps of lifecycle.go, as both engine families carry them out: all but the
// waits, and but reading and writing. The caller of every function here is the
// connection's owner.

// begin makes a connection of a slot. The caller goes on with release.
func (k *connRef) begin(from netip.AddrPort, socket sys.Socket, g *goroutineConn, proxy, counted bool) {
	s, srv := k.s, k.sh.srv
	s.mu.Lock()
	s.why.Store(0)
	s.phase.Store(uint32(serving))
	s.since.Store(0)
	s.state, s.socket, s.tickets, s.speaks = 0, socket, 0, 0
	s.own, s.marks, s.opened, s.dead, s.slowVisits, s.epoch = 0, 0, false, false, 0, 0
	s.want, s.suspect, s.counted, s.weight = 0, 0, counted, 0
	s.spoken, s.displaced, s.trusted = false, false, false
	if g != nil {
		k.x.Store(&g.inflight)
	}
	k.limitUnsent(k.x.Load(), maxUnsent)
	k.setAddr(from)
	k.touch()
	srv.clock.stamp(&s.since)
	switch {
	case proxy:
		s.own.set(wantsProxy)
		srv.clock.stamp(&k.attach().frame) // the header has a message's time from here on
	case srv.OnOpen == nil && g == nil:
		s.own.set(isKnown)
		s.opened = true
	}
	k.setAway(true) // ours, for now
}

// facts are what the next step depends on. mu held; d has the connection's input
// if it is not in its inflight.
func (k *connRef) facts(d *workspace) facts {
	s, x := k.s, k.x.Load()
	f := facts{
		phase: k.phase(), why: k.reason(), dead: s.dead, opened: s.opened,
		stopped: s.own.has(isStopped), said: s.marks.has(isSaid), settled: true,
		suspect: s.suspect != 0, draining: k.sh.srv.draining.Load(), drains: s.own.has(drains),
	}
	if x != nil {
		f.promised, f.words = x.promised(), x.rare != nil && x.rare.words != nil
		f.settled = x.settled()
		f.ready = x.in.ready() || d != nil && d.box.ready()
		f.unread = x.left > 0
		f.paused = x.blocked.Load() || x.starves() || f.ready && !k.resumes(x)
	}
	return f
}

// carryOut does what a step says, unless it is a wait or the family's own. mu is
// held, and released.
func (k *connRef) carryOut(st step, d *workspace) {
	s, srv := k.s, k.sh.srv
	switch st {
	case stepOpen:
		s.opened = true
		s.mu.Unlock()
		k.open(d)
		return
	case stepReconsider:
		// A handler may have been at work for long, which is not idleness, or the
		// message may have been completed just now.
		if k.reconsider(); s.displaced && !ends(k.reason()) {
			k.makeRoom(d)
			return
		}
	case stepDrain:
		s.own.set(drains)
		k.fail(ShuttingDown)
		k.attach().left = k.unread()
	case stepFinish:
		if x := k.x.Load(); x != nil && k.reason() == PeerClosed {
			x.endContext() // where the kernel cannot be asked, nobody else hears of it
		}
		k.enter(finishing)
	case stepClose:
		k.enter(closing)
	case stepRefuse:
		s.marks.set(isSaid)
		s.mu.Unlock()
		k.refuse(d)
		return
	case stepShut:
		s.marks.set(isShut)
		x := k.attach()
		x.left = lingerBytes
		x.in.forget(&srv.input)
		d.box.forget(&srv.input)
		s.mu.Unlock()
		if !k.closeWrite() {
			k.kill() // and not the other way round: an abort may have come first
		}
		k.enter(lingering)
		return
	}
	s.mu.Unlock()
}

// reconsider judges the sweeper's suspicion, or EndIdle's. mu held.
func (k *connRef) reconsider() {
	asked := k.s.suspect == ClosedHere
	k.s.suspect = 0
	if asked && k.moments().isIdle() {
		k.fail(ClosedHere)
		return
	}
	if v, why, _ := k.sh.srv.rules.judge(k.moments(), k.sh.srv.clock.read()); v > rest {
		k.fail(why)
	}
}

const (
	lingerBytes = 1 << 20 // bounds what a refused peer may still pour in
	lingerRead  = 256     // a crowd of them is to cost little
)

// open does what comes before the first read.
func (k *connRef) open(d *workspace) {
	if k.s.own.has(wantsProxy) {
		return // OnOpen is to see the address that the header tells
	}
	if d.g != nil && (!d.g.handshake() || k.isDead()) {
		k.kill()
		return
	}
	k.s.own.set(isKnown)
	if srv := k.sh.srv; srv.OnOpen != nil {
		k.call(d, func() { srv.OnOpen(k.conn()) })
	}
}

// received takes n bytes into account that have been read into the box, and
// serves what they complete. It reports whether the protocol wants more.
func (k *connRef) received(d *workspace, n int) (hungry bool) {
	k.touch()
	k.sh.counts.bytesIn.Add(uint64(n))
	if k.s.own.has(drains) {
		k.x.Load().left -= n
	}
	k.hear()
	if d.box.arrived(n) {
		return k.serve(d)
	}
	k.startFrame(&d.box, d.box.want)
	return true
}

// rounds is how many visits in a row a connection of a loop may have before others
// are looked at.
const rounds = 4

// serve gives the protocol what has arrived until it wants more bytes, and writes
// its replies. It reports whether it wants more and may have it: otherwise next decides.
func (k *connRef) serve(d *workspace) (hungry bool) {
	for n := 1; ; n++ {
		used, need, why := k.visit(d)
		d.box.served(used, need)
		if used > 0 {
			k.stopFrame()
		}
		if d.size = max(len(d.turn.Out), d.turn.largest); why == Panicked {
			d.dropBuffers()
		}
		if d.size > smallVisit || k.s.weight != smallWeight && d.size+d.turn.requests > 0 {
			k.learn(d.size)
		}
		if !k.flush(d, needsNoWords(why)) {
			return false
		}
		wants := need > 0 || used == 0 && d.box.len() == 0
		switch after(result{why, d.turn.takeOver != nil, ends(k.reason()), wants}) {
		case stopVisits:
			k.s.own.set(isStopped)
			k.fail(why)
			return false
		case promise:
			k.promiseSocket(d)
			return false
		case leave:
			return false
		case visitLater:
			k.startFrame(&d.box, need)
			k.touch()
			x := k.x.Load()
			return x == nil || !x.blocked.Load()
		}
		if !k.hasRoom() {
			k.stopFrame() // a message that we do not read is not the peer's to hurry
			return false
		}
		if d.g != nil {
			d.g.yield(d.turn.requests)
		} else if n == rounds {
			return false
		}
	}
}

// flush writes the replies of a visit and what was posted meanwhile; said tells
// that they end with the protocol's words for an error. It reports false when the
// connection is dead.
func (k *connRef) flush(d *workspace, said bool) bool {
	if d.g != nil {
		return d.g.flushWaiting(&d.turn, said)
	}
	return k.flushNow(&d.turn, said)
}

// visit is one call of the protocol, or of the reader of a PROXY header, under the
// watchdog's eyes.
func (k *connRef) visit(d *workspace) (used, need int, why Reason) {
	srv, t := k.sh.srv, &d.turn
	if srv.ordered {
		k.startVisit()
	}
	if d.box.len() > 0 {
		k.hear() // behind a PROXY header
	}
	t.begin(d)
	k.enterUser(d)
	defer k.exitUser(d)
	if k.s.own.has(wantsProxy) {
		defer t.end(0)
		return k.readProxyHeader(d.box.bytes())
	}
	return srv.visit(t, d.box.bytes())
}

// readProxyHeader takes the PROXY header from the front of in.
func (k *connRef) readProxyHeader(in []byte) (used, need int, why Reason) {
	used, need, addr, err := proxyHeader(in)
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
		k.setAddr(addr)
	}
	from := k.addr().Addr()
	s.mu.Unlock()
	srv.mu.Lock()
	ok := srv.count(from, &s.counted)
	srv.mu.Unlock()
	if !ok {
		return used, 0, TooManyPerAddress
	}
	s.own.set(isKnown)
	if srv.OnOpen != nil {
		srv.guard(k.conn(), func() { srv.OnOpen(k.conn()) })
	}
	return used, 0, 0
}

// visited takes what a visit leaves behind: the state, and Panicked or 0.
func (k *connRef) visited(state uint64, why Reason) {
	k.s.state = state
	if why != 0 {
		k.fail(why)
	}
}

// call calls user code under the watchdog's eyes.
func (k *connRef) call(d *workspace, user func()) {
	k.enterUser(d)
	defer k.exitUser(d)
	k.sh.srv.guard(k.conn(), user)
}

// refuse tells the peer why the connection ends.
func (k *connRef) refuse(d *workspace) {
	unserved := d.box.bytes()
	if x := k.x.Load(); x != nil && x.in.len() > 0 {
		unserved = x.in.bytes()
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

// end closes the socket, whatever happened, and tells who needs to know.
func (k *connRef) end(d *workspace) {
	s, srv := k.s, k.sh.srv
	if k.reason() == 0 {
		k.fail(Panicked) // only runtime.Goexit comes here without a reason
	}
	s.mu.Lock()
	s.dead = true
	k.setAway(true) // nobody's any more
	s.marks.clear(isListed)
	s.want = 0
	x := k.x.Load()
	if x != nil {
		k.drop(x)
		if x.g != nil {
			x.g.ended = true
		}
	}
	s.socket.Close()
	s.socket = sys.NoSocket
	addr := k.addr().Addr()
	s.mu.Unlock()
	if x != nil && x.g != nil {
		x.g.nc.Close() // not under mu: TLS says goodbye to its peer
	}
	why := k.reason()
	defer func() { // whatever OnClose does
		srv.uncount(why, addr, s.counted, s.displaced)
		k.free()
	}()
	if told := k.speaks().ended; told != nil {
		k.call(d, func() { told(k.conn(), s.state, why) })
	}
	if s.own.has(isKnown) && srv.OnClose != nil {
		s.own.clear(isKnown)
		k.call(d, func() { srv.OnClose(k.conn(), why) })
	}
}

// unread is how many bytes have arrived and are not read yet: what the kernel
// says, or a guess for what hides its socket. mu held.
func (k *connRef) unread() int {
	if x := k.x.Load(); x != nil && x.g != nil {
		return x.g.unreadBytes()
	}
	return k.s.socket.Unread()
}

// closeWrite closes the writing side and reports whether that was possible.
func (k *connRef) closeWrite() bool {
	if x := k.x.Load(); x.g != nil {
		half, ok := x.g.nc.(interface{ CloseWrite() error })
		return ok && half.CloseWrite() == nil
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.s.socket.CloseWrite() == nil
}

// reason is why the connection is ending, 0 while it is not.
func (k *connRef) reason() Reason { return Reason(k.s.why.Load()) }

// fail records why the connection ends. The first reason wins, except that a peer
// which has only said that it will send no more can still fail otherwise.
func (k *connRef) fail(why Reason) {
	if !k.s.why.CompareAndSwap(0, uint32(why)) {
		k.s.why.CompareAndSwap(uint32(PeerClosed), uint32(why))
	}
}

// kill has nothing written any more.
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

func (k *connRef) phase() phase { return phase(k.s.phase.Load()) }

func (k *connRef) enter(p phase) { k.sh.srv.clock.enter(&k.s.since, &k.s.phase, p) }

// touch says that the connection is not idle.
func (k *connRef) touch() { k.sh.srv.clock.stamp(&k.s.seen) }

// netConn makes a net.Conn of a socket, which is closed.
func netConn(s sys.Socket) (net.Conn, error) {
	f := os.NewFile(uintptr(s), "connection")
	defer f.Close()
	return net.FileConn(f)
}
