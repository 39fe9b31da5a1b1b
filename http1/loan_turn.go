package http1

import (
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
)

// How a visit of the engine becomes a loan.

// Bits of Turn.State.
const (
	stateVisited uint64 = 1 << iota // the protocol that the handshake chose has been acted on
	stateServed                     // this is not the connection's first request
	statePosted                     // the last request was a POST
	stateHTTP2                      // the handshake chose HTTP/2
	stateOwed                       // the last answer comes later: it may not have been sent
)

// leave lends the connection to net/http for the requests at the front of in.
func (s *Server) leave(t *engine.Turn, in []byte) error {
	served, posted := t.State&stateServed != 0, t.State&statePosted != 0
	if posted {
		in = in[lineEnds(in):]
	}
	// The last request that net/http serves on loan is usually the first one, and whether
	// that is a POST must be known now. If the guess is wrong, the connection stays lent.
	note(t, in)
	posts := t.State&statePosted != 0
	c := t.Conn()
	return t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
		l := s.loanOf(c, nc, unread)
		l.mustPost = posts
		if served && !l.peek(&s.lender) {
			return nil, false
		}
		if posted {
			l.unread = l.unread[lineEnds(l.unread):]
		}
		return s.lendTo(&s.lender, c, l)
	})
}

// note records what net/http would record about the request at the front of in.
func note(t *engine.Turn, in []byte) {
	t.State |= stateServed
	t.State &^= statePosted
	if len(in) > 0 && in[0] == 'P' && bytes.HasPrefix(in, []byte("POST ")) {
		t.State |= statePosted
	}
}

// peek waits for 4 bytes, as net/http does before every request but the first. If they do
// not arrive, net/http closes without a response, whatever it has received. After a POST it
// drops line ends among those 4 bytes, for compatibility with old clients.
func (l *loan) peek(le *lender) bool {
	if len(l.unread) >= peeked {
		return true
	}
	l.nc.SetReadDeadline(after(time.Now(), le.limits.FrameTime))
	defer l.nc.SetReadDeadline(time.Time{})
	for len(l.unread) < peeked {
		var more [peeked]byte
		n, err := l.nc.Read(more[len(l.unread):])
		le.bytesIn.Add(uint64(n))
		l.unread = append(l.unread, more[len(l.unread):][:n]...)
		if err != nil {
			return false
		}
	}
	return true
}

const peeked = 4

// lineEnds is how many of the first 4 bytes of in are leading line ends.
func lineEnds(in []byte) (n int) {
	for n < min(peeked, len(in)) && isLineEnd(in[n]) {
		n++
	}
	return n
}

func isLineEnd(b byte) bool { return b == '\r' || b == '\n' }

// give lends the connection for good, to speak HTTP/2.
func (s *Server) give(t *engine.Turn) error {
	c, state := t.Conn(), t.Conn().TLS()
	return t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
		l := s.loanOf(c, nc, unread)
		l.tls = state
		return s.lendTo(s.http2, c, l)
	})
}

// loanOf makes a loan of c.
func (s *Server) loanOf(c engine.Conn, nc net.Conn, unread []byte) *loan {
	l := newLoan(nc, unread)
	l.conn = c
	l.ctx = s.contextOf(c)
	if s.hooks.state != nil {
		l.onState = func(state http.ConnState) { s.tellOf(c, state) }
	}
	if len(s.TrustedProxies) > 0 {
		if reported := c.RemoteAddr(); reported.IsValid() {
			l.remote = net.TCPAddrFromAddrPort(reported)
		}
	}
	return l
}

// lendTo lets the net/http server of to serve l, until it is done.
func (s *Server) lendTo(to *lender, c engine.Conn, l *loan) (left []byte, back bool) {
	if h, ok := c.Value().(*hooked); ok {
		h.shown.lend(l)
		defer h.shown.lend(nil)
	}
	left, back = to.lend(l)
	if why := l.struck(); !back && why != 0 {
		c.Close(why) // so that the loan counts under this reason
	}
	return left, back
}

// serveLoan is the handler that net/http calls for lent connections.
func (s *Server) serveLoan(w http.ResponseWriter, r *http.Request) {
	if l, ok := r.Context().Value(loanKey{}).(*loan); ok {
		if l.handled(r) || s.draining.Load() && l.conn.Leaving() {
			// It also makes net/http's HTTP/2 say GOAWAY.
			w.Header().Set("Connection", "close")
		}
		if l.tls != nil {
			r.TLS = l.tls
		}
	}
	defer s.reportPanics(r.RemoteAddr)
	s.protocol.handler(r).ServeHTTP(w, r)
}
