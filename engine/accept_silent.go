package engine

import (
	"math"
	"slices"
	"sync"
	"time"
)

// What happens at Limits.Conns: the connection that has been silent since it came, for
// longer than all others, makes room for a newcomer. So a crowd that only connects keeps
// nobody out.

// silentLine has the connections that may be silent still, in the order in which they
// came. Those that have asked, or have ended, are dropped when they are met.
type silentLine struct {
	mu    sync.Mutex
	line  []Conn
	drops int // how long the line may grow before it is gone through
}

// fewSilent is how many are not worth to be gone through.
const fewSilent = 1 << 10

// push adds a connection. That costs little more than an append: the line is gone
// through only when it has doubled.
func (l *silentLine) push(limit int, c Conn) {
	if limit == math.MaxInt32 {
		return // nobody needs a place
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

// pop takes the oldest.
func (l *silentLine) pop() (c Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) == 0 {
		return Conn{}, false
	}
	c, l.line = l.line[0], l.line[1:]
	return c, true
}

// came puts a new connection in line, and notes it while places are counted as free that
// are not yet. One that is refused for such a place never stands in line: it would be
// asked to make room for another newcomer, and its one place would count for both.
func (s *Server) came(c Conn) {
	s.mu.Lock()
	over := s.excess > 0
	if over {
		s.excess--
		over = s.open-s.displacing > s.limits.Conns // who was refused may have left by itself
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

// displace has the oldest silent connection make room, and reports whether there is one.
// Its place counts as free at once, although its owner may need a moment.
func (s *Server) displace() bool {
	s.mu.Lock()
	many := s.displacing >= s.limits.Conns/8+64 // owners do not get to it
	if !many {
		s.displacing++
	}
	s.mu.Unlock()
	if many {
		return false
	}
	if !s.askOldest() {
		s.mu.Lock()
		s.displaced()
		s.mu.Unlock()
		return false
	}
	return true
}

// displaced says that one connection less is to make room. Server.mu held.
func (s *Server) displaced() {
	if s.displacing--; s.displacing == 0 {
		s.newcomers = nil
	}
}

// askOldest has the oldest silent connection look whether it is to make room, and reports
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
		found := !k.s.spoken && !k.s.dead && k.reason() == 0 && !k.asksUnread()
		if found {
			k.s.displaced, k.s.suspect = true, Displaced
			k.notify()
		}
		k.s.mu.Unlock()
		if found {
			return true
		}
	}
}

// hear notes that a byte of a message has come. The caller is the owner.
func (k *connRef) hear() {
	if s := k.s; !s.spoken && !s.own.has(wantsProxy) {
		s.mu.Lock()
		s.spoken = true
		s.mu.Unlock()
		k.stay()
	}
}

// makeRoom ends a connection that is to make room, unless it has asked meanwhile: what
// has arrived and is not read counts. mu is held, and released. The caller is the owner.
func (k *connRef) makeRoom(d *workspace) {
	s, silent := k.s, false
	x := k.x.Load()
	switch {
	case x != nil && x.g != nil && x.g.raw == nil: // what hides its socket must be read to know
		x.g.nudged = true // the deadline is ours; clearNudge takes it back
		x.g.nc.SetReadDeadline(time.Now().Add(drainRead))
		s.mu.Unlock()
		silent = !x.g.hears(d)
	default:
		silent = k.unread() == 0
		s.mu.Unlock()
	}
	if silent {
		k.fail(Displaced)
	} else {
		k.stay()
	}
}

// stay says that the connection does not make room, so that another one must. The caller
// is the owner.
func (k *connRef) stay() {
	s := k.s
	s.mu.Lock()
	displaced := s.displaced
	s.displaced = false
	s.mu.Unlock()
	if displaced && !k.sh.srv.askOldest() {
		k.sh.srv.refuseNewcomer()
	}
}

// refuseNewcomer refuses the latest connection that was let in for a place which has not
// become free, unless it makes room itself for another one.
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
			k.notify()
		}
		k.s.mu.Unlock()
		if stays {
			s.newcomers = slices.Delete(s.newcomers, i, i+1)
			return
		}
	}
	s.excess++ // it is about to come
}

// asksUnread reports whether bytes have arrived that nobody has read, as far as the kernel
// says. mu held.
func (k *connRef) asksUnread() bool {
	x := k.x.Load()
	return (x == nil || x.g == nil || x.g.raw != nil) && k.unread() > 0
}

// hears reads and serves what has arrived, and reports whether there was anything.
func (g *goroutineConn) hears(d *workspace) bool {
	d.lendOut()
	p := d.box.space(&g.ref.sh.srv.input)
	n, err := g.nc.Read(p[:min(len(p), max(1, d.box.want))])
	if n > 0 {
		g.ref.received(d, n)
	}
	if err != nil && !timedOut(err) {
		g.readFailed(err)
	}
	return n > 0
}
