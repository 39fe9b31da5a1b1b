package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// HTTP/2 on loan: net/http serves the connection to its end, and h2conn bounds what that costs.

// The reasons of http1's own for which connections end.
const (
	http2Flood engine.Reason = engine.Own + iota
	http2Resized
)

// ownReasons are their labels.
var ownReasons = [...]string{"frame_flood", "table_resized"}

// h2conn is a lent HTTP/2 connection as net/http sees it.
type h2conn struct {
	*loan
	watch   h2watch
	kept    []byte // what net/http gets next
	started bool   // net/http has read

	mu      sync.Mutex // of watch and what follows
	in      int        // bytes received
	writing time.Time  // when the Write in progress began; zero: none is
	wrote   time.Duration
}

func newH2Conn(l *loan) *h2conn {
	l.h2 = &h2conn{loan: l, watch: h2watch{at: time.Now()}}
	return l.h2
}

// Read passes on what the client sends. Where the watch ends the connection, a frame that makes
// net/http end it goes before the rest.
func (c *h2conn) Read(p []byte) (n int, err error) {
	if !c.started { // from here on net/http's Shutdown knows the connection
		if c.started = true; c.lender.leaving() {
			return 0, io.EOF
		}
	}
	known := len(c.kept) > 0
	if known {
		n = copy(p, c.kept)
		c.kept = c.kept[n:]
	} else if n, err = c.loan.Read(p); n == 0 {
		return n, err
	}
	c.mu.Lock()
	if !known {
		c.in += n
	}
	passed, verdict := c.watch.received(p[:n], time.Now())
	c.mu.Unlock()
	switch verdict {
	case h2Resized:
		c.inserts(h2Leaves, p[passed:n])
		c.endsFor(http2Resized)
	case h2Flooding:
		c.inserts(h2Breaks, nil)
		c.endsFor(http2Flood)
	}
	return passed, err
}

// inserts makes frame and the rest what net/http reads next.
func (c *h2conn) inserts(frame string, rest []byte) {
	c.kept = append(append([]byte(frame), rest...), c.kept...)
}

// endsFor records why the connection ends.
func (c *h2conn) endsFor(why engine.Reason) {
	c.loan.mu.Lock()
	c.why = cmp.Or(c.why, why)
	c.loan.mu.Unlock()
}

func (c *h2conn) Write(p []byte) (n int, err error) {
	began := time.Now()
	c.mu.Lock()
	c.watch.sent(p)
	c.writing = began
	c.mu.Unlock()
	n, err = c.loan.Write(p)
	c.mu.Lock()
	c.wrote, c.writing = c.wrote+time.Since(began), time.Time{}
	c.mu.Unlock()
	return n, err
}

// received is how many bytes the client has sent.
func (c *h2conn) received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in
}

// busy is how long writes to the socket have taken, and whether one is in progress.
func (c *h2conn) busy(now time.Time) (took time.Duration, writes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if writes = !c.writing.IsZero(); writes {
		return c.wrote + now.Sub(c.writing), true
	}
	return c.wrote, false
}

// leaving reports whether the server drains.
func (le *lender) leaving() bool {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.draining
}

// entrance is the key of net/http's TLSNextProto for HTTP/2 without TLS, up to Go 1.26. Where it is not set, as in
// Go 1.27, connections go through net/http's Accept, at a goroutine more.
const entrance = "unencrypted_http2"

// initHTTP2 creates the server for connections that speak HTTP/2, over TLS or without.
func (s *Server) initHTTP2() {
	spoken := protocols(&s.std)
	if s.protocol.prior = spoken.UnencryptedHTTP2(); !spoken.HTTP2() && !s.protocol.prior {
		return
	}
	le := &lender{whole: true, limits: s.lender.limits, bodyTime: s.lender.bodyTime}
	copyServer(&le.std, &s.std)
	if le.std.MaxHeaderBytes == 0 {
		le.std.MaxHeaderBytes = h2HeaderList
	}
	le.std.Handler = http.HandlerFunc(s.serveStream)
	le.std.TLSConfig, le.std.TLSNextProto = nil, nil
	le.std.Protocols = new(http.Protocols)
	le.std.Protocols.SetUnencryptedHTTP2(true) // the engine has decrypted it
	le.init()
	le.std.Serve(&nobody{}) // sets TLSNextProto and returns
	le.enter = le.std.TLSNextProto[entrance]
	s.http2 = le
}

// h2HeaderList is MaxHeaderBytes for a header list of 64 KiB, to which net/http adds ten fields of 32
// bytes. A field counts with 32 bytes more than it has, so there are at most 1,985.
const h2HeaderList = 64<<10 - 10*32

// nobody is a listener without connections.
type nobody struct{}

func (*nobody) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (*nobody) Close() error              { return nil }
func (*nobody) Addr() net.Addr            { return &net.TCPAddr{} }

// serveWhole lets net/http serve l as HTTP/2, on this goroutine: net/http's own would have buffers for
// HTTP/1, and the engine's would wait beside it.
func (le *lender) serveWhole(l *loan) {
	defer l.Close()
	l.nc.SetReadDeadline(after(time.Now(), le.limits.FrameTime))
	preface := make([]byte, len(http2Preface))
	_, err := io.ReadFull(l, preface)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.mu.Lock()
		l.why = engine.FrameTimeout
		l.mu.Unlock()
	}
	if err != nil || string(preface) != http2Preface || l.SetReadDeadline(time.Time{}) != nil {
		return
	}
	le.enter(&le.std, tls.Client(entering{newH2Conn(l)}, nil), lentHandler{l})
}

// http2Preface is what a client of HTTP/2 sends first.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// entering is how net/http passes connections without TLS to its HTTP/2.
type entering struct{ net.Conn }

func (e entering) UnencryptedNetConn() net.Conn { return e.Conn }

// lentHandler is the handler of one connection.
type lentHandler struct{ loan *loan }

// BaseContext is where net/http's HTTP/2 looks for the connection's context.
func (h lentHandler) BaseContext() context.Context {
	return context.WithValue(cmp.Or(h.loan.ctx, context.Background()), loanKey{}, h.loan)
}

func (h lentHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.loan.lender.std.Handler.ServeHTTP(w, r)
}
