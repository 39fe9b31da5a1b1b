package http1

import (
	"bytes"
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

// HTTP/2 on loan: net/http serves the connection to its end, and h2conn bounds what that costs. It reads
// the heads of the frames on the way, and inserts frames of its own into what net/http reads.

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

	mu      sync.Mutex // of what follows
	watch   h2watch
	kept    []byte // received, and not seen by watch
	own     string // what net/http gets before that
	started bool   // net/http has read
	over    bool   // net/http gets EOF
	woken   bool   // by a read deadline
	looks   *time.Timer
	looked  time.Time // zero: looks rests
}

func newH2Conn(l *loan) *h2conn {
	c := &h2conn{loan: l, watch: newWatch(time.Now())}
	if every := l.lender.rules.every(); every > 0 {
		c.looks = time.AfterFunc(every, c.look)
		c.looks.Stop()
	}
	return c
}

// Read passes on what the client sends, and what the watch inserts.
func (c *h2conn) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started { // from here on net/http's Shutdown knows the connection
		c.started, c.over = true, c.lender.leaving()
	}
	for {
		if c.woken {
			if c.woken, err = false, c.loan.SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
		}
		if c.over {
			return 0, io.EOF
		}
		if c.own == "" && c.watch.inserts() {
			c.own, c.watch.insert = c.watch.insert, ""
		}
		if n = copy(p, c.own); n > 0 {
			c.own = c.own[n:]
			return n, nil
		}
		if n = copy(p, c.kept); n > 0 {
			c.kept = c.kept[n:]
		} else {
			c.mu.Unlock()
			n, err = c.loan.Read(p)
			c.mu.Lock()
		}
		if n == 0 && c.woken && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		return c.passes(p[:n], err)
	}
}

// passes gives net/http what the client has sent, up to where something is inserted.
func (c *h2conn) passes(p []byte, err error) (int, error) {
	now := time.Now()
	n := c.watch.received(p, now)
	if n < len(p) {
		c.kept, err = append(bytes.Clone(p[n:]), c.kept...), nil
	}
	if len(c.watch.streams) > 0 && c.looks != nil && c.looked.IsZero() {
		c.looked = now
		c.looks.Reset(c.lender.rules.every())
	}
	if c.watch.found != 0 {
		c.endsFor(c.watch.found)
	}
	return n, err
}

// look ends the streams that have lagged too far behind.
func (c *h2conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	bodies, answers, stuck := c.watch.late(now.Sub(c.looked), &c.lender.rules)
	c.lender.slowBodies.Add(bodies)
	c.lender.closedWindows.Add(answers)
	if stuck {
		c.over = true
		c.endsFor(engine.FrameTimeout)
	}
	if c.over || c.watch.inserts() {
		c.woken = true
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	if c.looked = now; len(c.watch.streams) == 0 || c.over {
		c.looked = time.Time{}
	} else {
		c.looks.Reset(c.lender.rules.every())
	}
}

// endsFor records why the connection ends.
func (c *h2conn) endsFor(why engine.Reason) {
	c.loan.mu.Lock()
	c.why = cmp.Or(c.why, why)
	c.loan.mu.Unlock()
}

func (c *h2conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.watch.sent(p, time.Now())
	c.mu.Unlock()
	return c.loan.Write(p)
}

func (c *h2conn) Close() error {
	c.mu.Lock()
	c.over = true
	clear(c.watch.streams)
	c.mu.Unlock()
	return c.loan.Close()
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
	if d := le.bodyTime; d <= endless && s.std.ReadTimeout <= 0 {
		le.rules.body, le.rules.bodyByte = d, time.Second/time.Duration(le.limits.FrameRate)
	}
	if d := le.limits.StallTime; d <= endless && s.std.WriteTimeout <= 0 {
		le.rules.answer, le.rules.answerByte = d, d/writePiece
	}
	copyServer(&le.std, &s.std)
	if le.std.MaxHeaderBytes == 0 {
		le.std.MaxHeaderBytes = h2HeaderList
	}
	le.std.Handler = http.HandlerFunc(s.serveLoan)
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
