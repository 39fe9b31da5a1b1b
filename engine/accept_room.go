package engine

import (
	"net/netip"
	"slices"

	"github.com/hone-go/hone/engine/internal/admission"
	"github.com/hone-go/hone/engine/internal/timing"
)

// At Limits.Conns, a new connection displaces the one that has been open longest without
// ever sending a byte, or else, where the protocol allows that (see Yielder), the one that
// has been between two messages for longest, first among those from the newcomer's own
// address. So neither clients that only connect nor those that keep connections for later
// can lock others out.

// queueSilent queues a new connection, and records it if connections count as displaced that are
// still open (crowded). A connection that is refused because such a place did not become free
// is never queued: otherwise it could be displaced for another newcomer, and its one
// place would count twice.
func (s *Server) queueSilent(c Conn, crowded bool) {
	over := false
	if crowded {
		p := s.places
		p.mu.Lock()
		if over = p.excess > 0; over {
			p.excess--
			over = p.taken > s.limits.Conns // a refused newcomer may have left by itself
		}
		if !over && p.displacing > 0 {
			p.newcomers = append(p.newcomers, c)
		}
		p.mu.Unlock()
	}
	if over {
		c.Close(TooManyConns)
		s.logRefusal(TooManyConns)
		return
	}
	s.silent.Push(s.limits.Conns, c, Conn.isSilent)
}

// isSilent reports whether the connection is open and has sent nothing of a message.
func (c Conn) isSilent() bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	return !k.s.spoken
}

// displace tells a connection to end in favour of one from an address, and reports whether
// there is one. Its place counts as free at once, although its owner may take a moment.
func (s *Server) displace(addr netip.Addr) bool {
	p := s.places
	p.mu.Lock()
	many := p.displacing >= s.limits.Conns/8+64 // owners do not keep up
	if !many {
		p.displacing++
		p.taken--
	}
	p.mu.Unlock()
	if many {
		return false
	}
	if !s.askForRoom(addr, Conn{}) {
		p.mu.Lock()
		p.displaced()
		p.mu.Unlock()
		return false
	}
	return true
}

// askForRoom makes a connection check whether it must go, and reports whether there is one
// besides the latest newcomer.
func (s *Server) askForRoom(addr netip.Addr, newest Conn) bool {
	s.places.mu.Lock()
	all := s.places.servers
	s.places.mu.Unlock()
	return slices.ContainsFunc(all, func(t *Server) bool { return t.askOldest(newest) }) ||
		slices.ContainsFunc(all, func(t *Server) bool { return t.askIdlest(addr) })
}

// askOldest makes the oldest silent connection check whether it must go, and reports
// whether there is one besides the latest newcomer.
func (s *Server) askOldest(newest Conn) bool {
	for c, ok := s.silent.Pop(); ok; c, ok = s.silent.Pop() {
		if c == newest {
			s.silent.Push(s.limits.Conns, c, Conn.isSilent)
			return false // those behind it are newer still
		}
		if c.askToGo(0) {
			return true
		}
	}
	return false
}

// askIdlest is askOldest for connections between two messages. It looks at all of them once at
// most: those that it finds may have unread bytes and wait for the loop that calls this.
func (s *Server) askIdlest(addr netip.Addr) bool {
	for looked := false; ; {
		one, ok := s.idlers.Pop(admission.Host(addr), &s.clock, s.limits.Conns/64, &looked, s.findIdle)
		if !ok {
			return false
		}
		if one.Conn.askToGo(one.Seen) {
			return true
		}
	}
}

// askToGo makes a connection check whether it must go, if it is silent, or has been idle since
// then, and has no unread bytes.
func (c Conn) askToGo(since timing.Tick) bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	isSilent := since == 0 && !k.s.spoken && !k.s.dead && k.reason() == 0
	isIdle := since != 0 && since == k.s.seen.Load() && k.held().givesWay()
	if !isSilent && !isIdle || k.link().HasUnread() {
		return false
	}
	k.s.facets.set(isDisplaced)
	k.s.suspect = Displaced
	k.held().notify()
	return true
}

// findIdle appends the connections that give way.
func (s *Server) findIdle(found []admission.Idler[Conn]) []admission.Idler[Conn] {
	s.each(func(k connRef) {
		if k.held().givesWay() {
			found = append(found, admission.Idler[Conn]{Conn: k.conn(), Host: admission.Host(k.held().addr().Addr()), Seen: k.s.seen.Load()})
		}
	})
	return found
}

// givesWay reports whether the connection is between two messages, and its protocol lets it
// give way.
func (k held) givesWay() bool {
	s := k.s
	if !s.spoken || !s.opened || s.facets.has(isDisplaced) || s.dead || k.reason() != 0 || !k.speaks().givesWay || !k.moments().IsIdle() {
		return false
	}
	x := k.x.Load()
	if x != nil && (x.waiting > 0 || x.input.Load() > 0) { // x.in is the owner's
		return false
	}
	if x != nil && x.g != nil {
		return !x.g.inUser.Load()
	}
	_, away := k.standing()
	return !away && !k.inVisit()
}

// markSpoken records that the first byte of a message has arrived.
func (k owner) markSpoken() {
	if s := k.s; !s.own.has(wantsProxy) {
		s.mu.Lock()
		s.spoken = true
		s.mu.Unlock()
		k.keepPlace()
	}
}

// makeRoom ends a connection that is to be displaced, unless it has sent something, or has
// been given something to send, in the meantime, unread bytes included. It unlocks. The
// caller is the owner.
func (k held) makeRoom(d *workspace) {
	s, silent := k.s, false
	x := k.x.Load()
	unserved := d.box.Len() > 0 || x != nil && x.in.Len() > 0
	switch {
	case s.spoken && (unserved || !k.moments().IsIdle()):
		s.mu.Unlock()
	case !k.link().IsPlain(): // without a plain socket, only a read can tell
		x.g.ReadArrived()
		s.mu.Unlock()
		x.g.Settle()
		silent = !x.g.readsInput(d)
	default:
		silent = k.link().Unread() == 0
		s.mu.Unlock()
	}
	if silent {
		k.fail(Displaced)
	} else {
		k.owner().keepPlace()
	}
}

// keepPlace records that the connection stays, so that another one must be displaced instead.
func (k owner) keepPlace() {
	s := k.s
	s.mu.Lock()
	displaced, addr := s.facets.has(isDisplaced), k.held().addr().Addr()
	s.facets.clear(isDisplaced)
	s.mu.Unlock()
	if srv := k.sh.srv; displaced && !srv.askForRoom(addr, srv.places.newest()) && srv.places.refuseNewcomer(srv.limits.Conns) {
		srv.logRefusal(TooManyConns)
	}
}

// newest returns the latest newcomer, which is to be refused rather than displaced: a refused
// client is told why.
func (p *Places) newest() (c Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.newcomers); n > 0 {
		c = p.newcomers[n-1]
	}
	return c
}

// refuseNewcomer refuses the latest connection that was admitted to a place that did not
// become free, unless it is itself being displaced. It reports whether there is one to end now.
func (p *Places) refuseNewcomer(most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.displaced()
	for i := len(p.newcomers) - 1; i >= 0; i-- {
		k, ok := p.newcomers[i].lock()
		if !ok {
			continue
		}
		stays := !k.s.facets.has(isDisplaced) && !k.s.dead && k.reason() == 0
		if stays {
			k.fail(TooManyConns)
			k.held().notify()
		}
		k.s.mu.Unlock()
		if stays {
			p.newcomers = slices.Delete(p.newcomers, i, i+1)
			return true
		}
	}
	if p.taken+1 > most { // otherwise others have left meanwhile
		p.excess++ // it has been admitted but not queued yet
	}
	return false
}
