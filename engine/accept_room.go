package engine

import (
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/engine/internal/transport"
)

// At Limits.Conns, a new connection displaces the one that has been open longest without
// ever sending a byte, or else, where the protocol allows that (see Yielder), the one that
// has been between two messages for longest, first among those from the newcomer's own
// address. So neither clients that only connect nor those that keep connections for later
// can lock others out.

// silentLine is a FIFO queue of the connections that may not have sent anything yet.
// Those that have, or have ended, are dropped when they are found.
type silentLine struct {
	mu    sync.Mutex
	line  []Conn
	drops int // length at which the queue is compacted
}

// fewSilent is a length below which compacting is not worthwhile.
const fewSilent = 1 << 10

// push adds a connection. Its amortised cost is little more than an append's: the queue
// is compacted only when it has doubled.
func (l *silentLine) push(limit int, c Conn) {
	if limit == math.MaxInt32 {
		return // no limit
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) >= max(l.drops, fewSilent) {
		var kept []Conn
		for _, c := range l.line {
			if k, ok := c.lock(); ok {
				if !k.s.spoken {
					kept = append(kept, c)
				}
				k.s.mu.Unlock()
			}
		}
		l.line, l.drops = kept, 2*len(kept)
	}
	l.line = append(l.line, c)
}

// pop removes the oldest.
func (l *silentLine) pop() (c Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) == 0 {
		return Conn{}, false
	}
	c, l.line = l.line[0], l.line[1:]
	return c, true
}

// queueSilent queues a new connection, and records it while connections count as displaced that
// are still open. A connection that is refused because such a place did not become free
// is never queued: otherwise it could be displaced for another newcomer, and its one
// place would count twice.
func (s *Server) queueSilent(c Conn) {
	s.mu.Lock()
	over := s.excess > 0
	if over {
		s.excess--
		over = s.open-s.displacing > s.limits.Conns // a refused newcomer may have left by itself
	}
	if !over && s.displacing > 0 {
		s.newcomers = append(s.newcomers, c)
	}
	s.mu.Unlock()
	if over {
		c.Close(TooManyConns)
		return
	}
	s.silent.push(s.limits.Conns, c)
}

// displace tells a connection to end in favour of one from an address, and reports whether
// there is one. Its place counts as free at once, although its owner may take a moment.
func (s *Server) displace(addr netip.Addr) bool {
	s.mu.Lock()
	many := s.displacing >= s.limits.Conns/8+64 // owners do not keep up
	if !many {
		s.displacing++
	}
	s.mu.Unlock()
	if many {
		return false
	}
	if !s.askForRoom(addr) {
		s.mu.Lock()
		s.displaced()
		s.mu.Unlock()
		return false
	}
	return true
}

// displaced decrements the number of connections to be displaced. Server.mu held.
func (s *Server) displaced() {
	if s.displacing--; s.displacing == 0 {
		s.newcomers = nil
	}
}

// askForRoom makes a connection check whether it must go, and reports whether there is one.
func (s *Server) askForRoom(addr netip.Addr) bool { return s.askOldest() || s.askIdlest(addr) }

// askOldest makes the oldest silent connection check whether it must go, and reports
// whether there is one.
func (s *Server) askOldest() bool {
	for {
		c, ok := s.silent.pop()
		if !ok {
			return false
		}
		k, ok := c.lock()
		if !ok {
			continue
		}
		found := !k.s.spoken && !k.s.dead && k.reason() == 0 && !k.link().HasUnread()
		if found {
			k.held().askToGo()
		}
		k.s.mu.Unlock()
		if found {
			return true
		}
	}
}

// askIdlest is askOldest for connections between two messages. It looks at all of them once at
// most: those that it finds may have unread bytes and wait for the loop that calls this.
func (s *Server) askIdlest(addr netip.Addr) bool {
	for looked := false; ; {
		one, ok := s.idlers.pop(s, hostOf(addr), &looked)
		if !ok {
			return false
		}
		k, ok := one.c.lock()
		if !ok {
			continue
		}
		found := k.s.seen.Load() == one.seen && k.held().givesWay() && !k.link().HasUnread()
		if found {
			k.held().askToGo()
		}
		k.s.mu.Unlock()
		if found {
			return true
		}
	}
}

// askToGo makes a connection check whether it must go.
func (k held) askToGo() {
	k.s.displaced, k.s.suspect = true, Displaced
	k.notify()
}

// givesWay reports whether the connection is between two messages, and its protocol lets it
// give way.
func (k held) givesWay() bool {
	s := k.s
	if !s.spoken || !s.opened || s.displaced || s.dead || k.reason() != 0 || !k.speaks().givesWay || !k.moments().IsIdle() {
		return false
	}
	x := k.x.Load()
	if x != nil && (x.waiting > 0 || x.in.Len() > 0) {
		return false
	}
	if x != nil && x.g != nil {
		return !x.g.inUser.Load()
	}
	_, away := k.standing()
	return !away && !k.inVisit()
}

// idlers are the connections that a look at all of them found to give way. There is a
// look only when a newcomer needs a place and no earlier finding is left, so that its cost
// is shared by as many newcomers as it finds places.
type idlers struct {
	mu    sync.Mutex
	found []idler
	order []uint64             // idle times, above the inverted indices in found; ascending
	first map[netip.Addr]int32 // index of the longest idle one from an address
	next  time.Time            // the next look: unless many were found, looks take a tenth of the time
	used  timing.Tick          // the last time that somebody needed one
}

type idler struct {
	c    Conn
	host netip.Addr
	seen timing.Tick
	same int32 // index of the next one from the address; -1: there is none
}

// pop removes the one that has been idle for longest, first among those from a host. One of
// those is found again in the order of all. If none is left, it looks for others, unless the
// caller has looked before.
func (l *idlers) pop(s *Server, host netip.Addr, looked *bool) (one idler, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = s.clock.Now()
	if len(l.order) == 0 {
		if *looked || !l.look(s) {
			return idler{}, false
		}
		*looked = true
	}
	if i, known := l.first[host]; known && i >= 0 {
		l.first[host] = l.found[i].same
		return l.found[i], true
	}
	last := len(l.order) - 1
	one, l.order = l.found[^uint32(l.order[last])], l.order[:last]
	return one, true
}

// look looks for connections that give way, and reports whether there are any. mu held.
func (l *idlers) look(s *Server) bool {
	began := time.Now()
	if began.Before(l.next) {
		return false
	}
	l.found, l.order, l.first = l.found[:0], l.order[:0], make(map[netip.Addr]int32, len(l.first))
	now := s.clock.Read()
	s.each(func(k connRef) {
		if k.held().givesWay() {
			seen := k.s.seen.Load()
			l.order = append(l.order, uint64(now-seen)<<32|uint64(^uint32(len(l.found))))
			l.found = append(l.found, idler{c: k.conn(), host: hostOf(k.held().addr().Addr()), seen: seen})
		}
	})
	slices.Sort(l.order)
	for _, key := range l.order {
		i := int32(^uint32(key))
		one := &l.found[i]
		one.same = -1
		if after, known := l.first[one.host]; known {
			one.same = after
		}
		l.first[one.host] = i
	}
	if len(l.found) < s.limits.Conns/64 {
		l.next = time.Now().Add(10 * time.Since(began))
	}
	return len(l.found) > 0
}

// forget frees the findings when nobody has needed one for some time.
func (l *idlers) forget(now, period timing.Tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first != nil && now-l.used > 4*period && now-l.used < timing.Ahead {
		l.found, l.order, l.first = nil, nil, nil
	}
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
	switch {
	case s.spoken && !k.moments().IsIdle():
		s.mu.Unlock()
	case !k.link().IsPlain(): // without a plain socket, only a read can tell
		x.g.ReadArrived()
		s.mu.Unlock()
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
	displaced, addr := s.displaced, k.held().addr().Addr()
	s.displaced = false
	s.mu.Unlock()
	if displaced && !k.sh.srv.askForRoom(addr) {
		k.sh.srv.refuseNewcomer()
	}
}

// refuseNewcomer refuses the latest connection that was admitted to a place that did not
// become free, unless it is itself being displaced.
func (s *Server) refuseNewcomer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.displaced()
	for i := len(s.newcomers) - 1; i >= 0; i-- {
		k, ok := s.newcomers[i].lock()
		if !ok {
			continue
		}
		stays := !k.s.displaced && !k.s.dead && k.reason() == 0
		if stays {
			k.fail(TooManyConns)
			k.held().notify()
		}
		k.s.mu.Unlock()
		if stays {
			s.newcomers = slices.Delete(s.newcomers, i, i+1)
			return
		}
	}
	if s.open-(s.displacing-1) > s.limits.Conns { // otherwise others have left meanwhile
		s.excess++ // it has been admitted but not queued yet
	}
}

// readsInput reads and serves what has arrived, and reports whether there was anything.
func (g *goroutineConn) readsInput(d *workspace) bool {
	d.lendOut()
	p := d.box.Space(&g.ref.sh.srv.input)
	n, err := g.Conn.Read(p[:min(len(p), max(1, d.box.Want()))])
	if n > 0 {
		g.ref.owner().received(d, n)
	}
	if err != nil && !transport.TimedOut(err) {
		g.readFailed(err)
	}
	return n > 0
}
