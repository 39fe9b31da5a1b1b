package http1

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
)

// From a visit of the engine to a loan.

// Bits of Turn.State.
const (
	stateVisited uint64 = 1 << iota // the handshake's choice of a protocol is dealt with
	statePosted                     // the last request was a POST
)

// leave lends the connection to net/http, for the requests at the front of in.
func (s *Server) leave(t *engine.Turn, in []byte) error {
	after := t.State&statePosted != 0 && len(in) > 0 && isLineEnd(in[0])
	if after {
		in = in[lineEnds(in):]
	}
	// The last request that is served on loan is mostly the first: whether that is a POST
	// has to be known now. If it turns out otherwise, the connection stays lent.
	notePost(t, in)
	posts := t.State&statePosted != 0
	c := t.Conn()
	return t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
		l := s.loanOf(c, nc, unread)
		l.mustPost = posts
		if after && !l.skipLineEnds(s.std.IdleTimeout) {
			return nil, false
		}
		return s.lendTo(&s.lender, c, l)
	})
}

// notePost remembers whether the request at the front of in is a POST.
func notePost(t *engine.Turn, in []byte) {
	t.State &^= statePosted
	if len(in) > 0 && in[0] == 'P' && bytes.HasPrefix(in, []byte("POST ")) {
		t.State |= statePosted
	}
}

// skipLineEnds skips empty lines after a POST as net/http does for the sake of old
// clients: it waits for 4 bytes and drops line ends at their front.
func (l *loan) skipLineEnds(patience time.Duration) bool {
	if patience > 0 {
		l.nc.SetReadDeadline(time.Now().Add(patience))
		defer l.nc.SetReadDeadline(time.Time{})
	}
	for len(l.unread) < 4 {
		var more [4]byte
		n, err := l.nc.Read(more[len(l.unread):])
		l.unread = append(l.unread, more[len(l.unread):][:n]...)
		if err != nil {
			return false
		}
	}
	l.unread = l.unread[lineEnds(l.unread):]
	return true
}

// lineEnds is how many of the first 4 bytes of in are line ends at its front.
func lineEnds(in []byte) (n int) {
	for n < min(4, len(in)) && isLineEnd(in[n]) {
		n++
	}
	return n
}

func isLineEnd(b byte) bool { return b == '\r' || b == '\n' }

// give lends the connection for good.
func (s *Server) give(t *engine.Turn, to *lender, state *tls.ConnectionState) error {
	c := t.Conn()
	return t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
		l := s.loanOf(c, nc, unread)
		l.tls = state
		return s.lendTo(to, c, l)
	})
}

// loanOf is c on loan.
func (s *Server) loanOf(c engine.Conn, nc net.Conn, unread []byte) *loan {
	l := newLoan(nc, unread)
	l.ctx = s.contextOf(c)
	if s.hooks.state != nil {
		l.told = func(state http.ConnState) { s.tellOf(c, state) }
	}
	if len(s.TrustedProxies) > 0 {
		if told := c.RemoteAddr(); told.IsValid() {
			l.remote = net.TCPAddrFromAddrPort(told)
		}
	}
	return l
}

// lendTo has to's net/http serve l until it has done.
func (s *Server) lendTo(to *lender, c engine.Conn, l *loan) (left []byte, back bool) {
	left, back = to.lend(l)
	if !back && l.why != 0 {
		c.Close(l.why) // that is what it is counted as
	}
	return left, back
}

// serveLoan is the handler of net/http.
func (s *Server) serveLoan(w http.ResponseWriter, r *http.Request) {
	if l, ok := r.Context().Value(loanKey{}).(*loan); ok {
		l.handled(r)
		if l.tls != nil {
			r.TLS = l.tls
		}
	}
	s.protocol.handler(r).ServeHTTP(w, r)
}
