package engine

import (
	"crypto/tls"
	"log/slog"
	"net/netip"

	"github.com/hone-go/hone/internal/sys"
)

// How many connections there are, and why some are refused.

// arrival is a new connection.
type arrival struct {
	from    netip.AddrPort
	config  *tls.Config // nil without TLS
	end     sys.End     // nil: it is a socket
	proxy   bool        // it comes from a trusted proxy
	counted bool        // for its address
	crowded bool        // others are making room for newcomers
	served  bool        // of ServeConn
	speaks  uint8       // the index of its protocol
	state   uint64
	unread  []byte
}

// take takes a place for a newcomer, if one is free, and reports whether others are making room.
func (p *Places) take(most int) (crowded, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= most {
		return false, false
	}
	p.taken++
	return p.displacing > 0, true
}

// give gives back the place of a connection that has ended.
func (p *Places) give(most int, displaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if displaced {
		p.displaced()
	}
	if p.taken <= most {
		p.excess = 0
	}
}

// displaced notes that a connection is not being displaced any more; mu is held.
func (p *Places) displaced() {
	p.taken++
	if p.displacing--; p.displacing == 0 {
		p.newcomers = nil
	}
}

// join adds a server to those that share the places.
func (p *Places) join(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, s)
}

// admitOne is admit where there is a place. It holds mu and that of places once, and nothing else does for a connection
// before its end, unless others are making room.
func (s *Server) admitOne(a *arrival) Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return ShuttingDown
	case !a.proxy && !s.addresses.HasPlace(a.from.Addr()):
		return TooManyPerAddress
	}
	crowded, ok := s.places.take(s.limits.Conns)
	if !ok {
		return TooManyConns
	}
	if !a.proxy {
		s.addresses.Count(a.from.Addr(), &a.counted)
	}
	s.open++
	s.accepted.Add(1)
	a.crowded = crowded
	return 0
}

// uncount removes an ended connection from the counts; facets are its own.
func (s *Server) uncount(why Reason, addr netip.Addr, counted bool, facets flags) {
	s.endedFor(why).Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	given := facets.has(isGiven)
	if given {
		s.given--
	}
	s.places.give(s.limits.Conns, facets.has(isDisplaced))
	if counted {
		s.addresses.Uncount(addr)
	}
	if s.draining.Load() {
		switch {
		case s.drainEnded, given:
		case why == Forced:
			s.drained.Forced++
		default:
			s.drained.Clean++
		}
	}
	s.checkEmpty()
}

// checkEmpty notices that a drain has no connection left to wait for. Server.mu held.
func (s *Server) checkEmpty() {
	if s.draining.Load() && s.open == s.given && !s.isEmpty {
		s.isEmpty = true
		close(s.empty)
	}
}

// refused counts and logs a refused connection.
func (s *Server) refused(why Reason) {
	s.ended[why].Add(1)
	s.logRefusal(why)
}

func (s *Server) logRefusal(why Reason) {
	s.faults.Write(s.Logger, slog.LevelWarn, why.String(), func() (string, []any) { return "connection refused", nil })
}
