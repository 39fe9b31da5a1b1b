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

// admitOne is admit where there is a place. It holds mu once, and nothing else does for a connection
// before its end, unless others are making room.
func (s *Server) admitOne(a *arrival) Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return ShuttingDown
	case !a.proxy && !s.addresses.HasPlace(a.from.Addr()):
		return TooManyPerAddress
	case s.open-s.displacing >= s.limits.Conns:
		return TooManyConns
	}
	if !a.proxy {
		s.addresses.Count(a.from.Addr(), &a.counted)
	}
	s.open++
	s.accepted.Add(1)
	a.crowded = s.displacing > 0
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
	if facets.has(isDisplaced) {
		s.displaced()
	}
	if s.open-s.displacing <= s.limits.Conns {
		s.excess = 0
	}
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

// displaced decrements the number of connections to be displaced. Server.mu held.
func (s *Server) displaced() {
	if s.displacing--; s.displacing == 0 {
		s.newcomers = nil
	}
}
