package engine

import (
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Here a connection's owner reads and visits. How it writes is in output.go, how
// it decides what to wait for in tend.go, how it leaves in depart.go, and what
// others do to it in reach.go.

// rounds is how many visits in a row one connection may have before others are
// looked at.
const rounds = 4

// report takes a report of the poll. The caller is the loop.
func (k *link) report(d *seat, r *sys.Ready) {
	s := k.s
	if s.generation.Load() != uint32(k.key>>32) {
		return // of a connection that has ended meanwhile
	}
	if s.away.Load() && k.reportAway() {
		return
	}
	readable := r.In() || r.HungUp() || r.Broken()
	if s.want&sys.Once != 0 {
		s.mu.Lock()
		s.want = 0 // the kernel waits for nothing until it is told to
		s.mu.Unlock()
	}
	if readable && k.reads() {
		if k.l.handsOff(s) {
			k.handOff()
			return
		}
		k.read(d)
		if !d.off && k.x.Load() == nil && s.want == sys.In && k.reason() == 0 {
			return // nothing is in flight: as it was
		}
		k.tend(d, r.Out())
		return
	}
	if readable && k.phase() == lingering {
		k.discard(d)
	}
	k.tend(d, true)
}

// reads reports whether what arrives is to be read at once.
func (k *link) reads() bool {
	if k.phase() != serving || k.reason() != 0 || !k.s.opened || k.l.srv.draining.Load() {
		return false
	}
	x := k.x.Load()
	return x == nil || !x.ready && !x.stuck.Load()
}

// reportAway writes what waits for the peer of a connection whose owner is
// elsewhere. It reports whether it still is: the report may be the only one that
// an owner who has just given the connection back has asked for.
func (k *link) reportAway() bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if k.s.generation.Load() != uint32(k.key>>32) {
		return true // nobody's any more, or another connection's
	}
	if !k.s.away.Load() {
		return false
	}
	if x := k.x.Load(); x != nil && !k.s.over {
		k.write(x, true)
	}
	k.arm(true)
	return true
}

// attend looks at a connection that somebody has made dirty. The caller is the
// loop.
func (l *loop) attend(d *seat, key uint64) {
	k, ok := l.lock(key)
	if !ok {
		return
	}
	k.s.marks.clear(isDirty)
	if k.s.away.Load() {
		if x := k.x.Load(); x != nil && !k.s.over {
			k.write(x, false)
		}
		k.arm(true)
		k.s.mu.Unlock()
		return
	}
	k.s.mu.Unlock()
	d.link = k
	d.link.tend(d, false)
}

// read reads once and serves what that completes.
func (k *link) read(d *seat) {
	x := k.x.Load()
	d.box.base = d.in
	if x != nil {
		k.unpack(d, x)
	}
	p := d.box.space(&k.l.srv.buffers)
	if x != nil && k.s.own.has(drains) {
		p = p[:min(len(p), x.left)]
	}
	n, err := k.l.poll.Read(k.s.socket, p)
	if n > 0 {
		k.l.srv.clock.stamp(&k.s.stamps.seen)
		k.l.tally.bytesIn.Add(uint64(n))
		if x != nil && k.s.own.has(drains) {
			x.left -= n
		}
		if d.box.arrived(n) {
			k.serve(d)
		} else {
			k.startFrame(&d.box, d.box.want)
		}
	}
	k.pack(d)
	switch {
	case err == nil:
	case k.s.own.has(drains):
		if x = k.x.Load(); err == sys.ErrAgain {
			x.left = min(x.left, k.s.socket.Unread())
		} else {
			x.left = 0
		}
	case err == sys.ErrAgain:
	case err == sys.ErrClosed:
		k.fail(PeerClosed)
	default:
		k.broke()
	}
}

// broke ends a connection whose socket has failed.
func (k *link) broke() {
	k.fail(PeerReset)
	k.s.mu.Lock()
	k.s.over = true
	k.s.mu.Unlock()
}

// unpack lays the input that was kept where it can be served.
func (k *link) unpack(d *seat, x *flight) {
	if !x.rest.Lent() {
		return
	}
	d.box.kept, d.box.start, d.box.end, d.box.want = x.rest, x.from, len(x.rest.Bytes()), x.lacks
	x.rest.SetLen(cap(x.rest.Bytes()))
	x.rest, x.ready = pool.Buffer{}, false
	d.box.lend(d.in)
}

// pack keeps the input that is not served, and clears the seat for the next
// connection.
func (k *link) pack(d *seat) {
	if d.box.len() > 0 {
		ready := d.box.want <= 0
		lacks := d.box.want
		d.box.giveBack(&k.l.srv.buffers)
		k.s.mu.Lock()
		x := k.fly()
		k.s.mu.Unlock()
		x.rest, x.from = d.box.kept, d.box.start
		x.rest.SetLen(d.box.end)
		x.ready, x.lacks = ready, lacks
	} else if d.box.kept.Lent() {
		d.box.forget()
	}
	d.box = inbox{}
}

// serve gives the protocol what has arrived until it wants more bytes, and
// writes its replies.
func (k *link) serve(d *seat) {
	for range rounds {
		used, need, why := k.visit(d)
		d.box.served(used, need)
		if used > 0 {
			k.stopFrame()
		}
		switch {
		case !k.flush(&d.turn):
			return
		case d.turn.takeOver != nil:
			k.giveAway(d)
			return
		case why != 0:
			if k.fail(why); why == Panicked {
				d.spoil()
			}
			if k.s.own.has(drains) { // which has a reason already: this was the last to be served
				k.fly().left = 0
				d.box.forget()
			}
			return
		case k.ending():
			return
		case need > 0 || used == 0 && d.box.len() == 0:
			k.startFrame(&d.box, need)
			k.touch()
			return
		case !k.hasRoom():
			k.stopFrame() // a message that we do not read is not the peer's to hurry
			return
		}
	}
}

// visit is one call of the protocol, under the watchdog's eyes.
func (k *link) visit(d *seat) (used, need int, why Reason) {
	l, s, t := k.l, k.s, &d.turn
	if l.srv.ordered {
		k.startVisit()
	}
	t.begin(l.srv, k, &s.why, k.conn(), l.tally, s.state)
	k.enter(d)
	defer k.exit(d)
	if s.own.has(wantsProxy) {
		defer t.end(0)
		return k.readProxyHeader(d.box.bytes())
	}
	return l.srv.visit(t, d.box.bytes())
}

func (k *link) visited(state uint64, why Reason) {
	k.s.state = state
	if why != 0 {
		k.fail(why)
	}
}

func (k *link) admit(first bool) int {
	if !k.hasRoom() {
		return 0
	}
	if first && k.l.srv.ordered {
		k.startVisit()
	}
	if k.x.Load() != nil {
		return 1
	}
	return mostGranted
}

func (k *link) startVisit() {
	k.s.mu.Lock()
	k.fly().queue.startVisit()
	k.s.mu.Unlock()
}

// hasRoom reports whether flow control lets one more message be served.
func (k *link) hasRoom() bool {
	if k.ending() {
		return false
	}
	x := k.x.Load()
	if x == nil {
		return true
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.below(x)
}

// below reports whether x is below the limits that pause a connection. mu held.
func (k *link) below(x *flight) bool {
	limits := &k.l.srv.limits
	return !x.stuck.Load() && x.promises.open < limits.InFlight && x.waiting < int64(limits.HighWater)
}

// room reports whether a pause may end: at half of what began it, so that
// reading does not flutter. mu held.
func (k *link) room(x *flight) bool {
	limits := &k.l.srv.limits
	return k.ending() || !x.stuck.Load() && x.promises.open <= limits.InFlight/2 && x.waiting <= int64(limits.HighWater/2)
}
