package engine

import "github.com/hone-go/hone/internal/sys"

// tend takes the connection as far as it goes without waiting, then waits for
// what it needs next. writable says that the peer takes output again. The owner
// calls it last: afterwards the connection may be somebody else's.
func (k *link) tend(d *seat, writable bool) {
	s := k.s
	for served := false; ; {
		s.mu.Lock()
		x := k.x.Load()
		if !s.over && x != nil {
			k.write(x, writable)
		}
		writable = false
		s.marks.clear(isWaiting)
		if s.marks.has(isTired) {
			s.marks.clear(isTired)
			k.land()
			x = k.x.Load()
		}
		switch {
		case s.over:
			s.mu.Unlock()
			k.end(d)
			return
		case !s.opened:
			s.opened = true
			s.mu.Unlock()
			k.open(d)
			continue
		case k.phase() == lingering:
			k.settle()
			return
		case k.phase() != serving:
			if !flown(x) {
				s.marks.set(isWaiting)
				k.settle()
				return
			}
			s.mu.Unlock()
			if !k.depart(d) {
				return
			}
			continue
		case k.ending():
			s.mu.Unlock()
			k.enterLeaving()
			continue
		case s.suspect != 0:
			s.suspect = 0
			s.mu.Unlock()
			k.reconsider()
			continue
		}
		waits := x != nil && (x.stuck.Load() || x.ready && !k.room(x))
		if x != nil {
			k.paceFrame(x)
		}
		if k.l.srv.draining.Load() && !s.own.has(drains) && !waits {
			s.own.set(drains)
			k.fail(ShuttingDown)
			x = k.fly()
			x.left = s.socket.Unread()
		}
		if s.own.has(drains) && !x.ready && x.left == 0 {
			s.mu.Unlock()
			k.enterPhase(finishing) // what is owed has the drain's time, not a stalled peer's
			continue
		}
		if waits || x == nil || !x.ready && !s.own.has(drains) {
			if waits {
				s.marks.set(isWaiting)
			}
			k.settle()
			return
		}
		// There is more to serve.
		switch {
		case served: // others first
			k.notify()
			k.settle()
			return
		case !d.off && k.l.handsOff(s):
			s.mu.Unlock()
			k.handOff()
			return
		}
		s.mu.Unlock()
		k.serveOn(d)
		served = true
	}
}

// serveOn serves input that was kept, or reads on in a drain.
func (k *link) serveOn(d *seat) {
	x := k.x.Load()
	if !x.ready {
		k.read(d)
		return
	}
	d.box.base = d.in
	k.unpack(d, x)
	k.serve(d)
	k.pack(d)
}

// settle arms the connection for what it waits for, gives it back to its loop if
// it was away, and unlocks it. What happened while it was away has been seen
// under the same hold of mu.
func (k *link) settle() {
	k.arm(false)
	k.s.away.Store(false) // last: from here on the loop looks at what is its owner's
	k.s.mu.Unlock()
}

// arm tells the poll what to report to an owner that is away or is not. mu held.
func (k *link) arm(away bool) {
	s, x := k.s, k.x.Load()
	want := sys.Interest(0)
	switch {
	case s.over || !s.opened:
	case away || k.phase() == finishing || k.phase() == closing:
	case k.phase() == serving && (s.own.has(drains) || x != nil && (x.ready || x.stuck.Load())):
	case k.phase() == serving && k.l.handsOff(s):
		want = sys.In | sys.Once
	default:
		want = sys.In
	}
	if x != nil && x.front.Lent() && !s.over {
		want |= sys.Out
	}
	if want == s.want && (s.marks.has(isListed) || want == 0) {
		return
	}
	var err error
	switch {
	case want == 0:
		if s.marks.has(isListed) { // with an interest in nothing, hang-ups would still be reported, for ever
			err = k.l.poll.Remove(s.socket)
		}
		s.marks.clear(isListed)
	case s.marks.has(isListed):
		err = k.l.poll.Change(s.socket, want, k.key)
	default:
		err = k.l.poll.Add(s.socket, want, k.key)
		if err == nil {
			s.marks.set(isListed)
		}
	}
	s.want = want
	if err != nil {
		k.fail(NoDescriptors)
		s.over = true
		k.notify()
	}
}

// notify has the loop attend to the connection. mu held.
func (k *link) notify() {
	if !k.s.marks.has(isDirty) {
		k.s.marks.set(isDirty)
		k.l.notify(k.key)
	}
}

// reconsider gives the owner the last word on the sweeper's suspicion: a handler
// may have been at work for long, which is not idleness.
func (k *link) reconsider() {
	srv := k.l.srv
	k.s.mu.Lock()
	m := k.moments()
	k.s.mu.Unlock()
	if v, why, _ := srv.rules.judge(m, srv.clock.read()); v > rest {
		k.fail(why)
	}
}

// open tells OnOpen of a new connection.
func (k *link) open(d *seat) {
	if k.s.own.has(wantsProxy) {
		return
	}
	k.s.own.set(isKnown)
	if k.l.srv.OnOpen != nil {
		k.call(d, func() { k.l.srv.OnOpen(k.conn()) })
	}
}

// call calls user code under the watchdog's eyes.
func (k *link) call(d *seat, user func()) {
	k.enter(d)
	defer k.exit(d)
	k.l.srv.guard(k.conn(), user)
}
