package http1

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// HTTP/2 on loan: net/http serves the connection to its end, and h2conn bounds what that costs. It reads
// the frames on the way, and inserts frames of its own into what net/http reads.

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
	turn    bool       // it has one of the lender's
	watch   h2watch
	started bool        // net/http has read
	over    bool        // net/http gets EOF
	woken   bool        // by a read deadline
	looks   *time.Timer // nil: nobody waits
	looked  time.Time
	holds   int // as counted
}

// Read passes on what the client sends, a head or a payload at most, and what the watch inserts.
func (c *h2conn) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.giveTurn(); ; {
		if err = c.wakes(); err != nil {
			return 0, err
		}
		if c.watch.inserts() {
			n = copy(p, c.watch.insert)
			c.watch.insert = c.watch.insert[n:]
			return n, nil
		}
		p = p[:min(len(p), c.watch.sides[fromClient].rest())]
		c.mu.Unlock()
		n, err = c.loan.Read(p)
		c.mu.Lock()
		if n > 0 || !c.woken || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	c.watch.pass(fromClient, p[:n])
	c.happened()
	if s := &c.watch.sides[fromClient]; n > 0 && s.have+s.left == 0 && c.watch.work.level > lightWork {
		c.takeTurn()
	}
	return n, err
}

// takeTurn waits until few others are worked for, but not for long: a hook of the user's may be slow. The
// turn ends with the next read or write.
func (c *h2conn) takeTurn() {
	select {
	case c.lender.turns <- struct{}{}:
		c.turn = true
	default:
		c.mu.Unlock()
		began, taken := time.Now(), true
		select {
		case c.lender.turns <- struct{}{}:
		case <-time.After(time.Second):
			taken = false
		}
		c.mu.Lock()
		c.looked = c.looked.Add(time.Since(began)) // for which the client is not to blame
		c.turn = taken
	}
	if c.over {
		c.giveTurn()
	}
}

func (c *h2conn) giveTurn() {
	if c.turn {
		c.turn = false
		<-c.lender.turns
	}
}

// happened counts what the connection holds now, and starts the looks.
func (c *h2conn) happened() {
	c.count()
	if len(c.watch.streams) > 0 && c.looks == nil && !c.over {
		c.looked, c.looks = time.Now(), time.AfterFunc(c.lender.every(), c.look)
	}
}

// count counts in Limits.TotalInput what the connection holds now.
func (c *h2conn) count() {
	more := (c.watch.holds+resetHolds*max(0, c.watch.gone-usualResets))/holdStep*holdStep - c.holds
	if more == 0 || c.over {
		return
	}
	if c.holds += more; c.conn != (engine.Conn{}) && !c.conn.HoldInput(more) {
		c.watch.found, c.over = engine.InputBudget, true
		c.wake()
	}
}

// handles counts a handler that begins. The function that it returns counts its end.
func (c *h2conn) handles(r *http.Request) (ends func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.handlers++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watch.handlers--; r.Context().Err() != nil {
			c.watch.gone = max(0, c.watch.gone-1)
			c.count()
		}
	}
}

// wakes prepares a read. Its error ends the connection.
func (c *h2conn) wakes() error {
	c.loan.mu.Lock()
	c.why = cmp.Or(c.why, c.watch.found)
	c.over = c.over || c.watch.found == http2Flood || c.draining && !c.started // from here on net/http's Shutdown knows the connection
	c.loan.mu.Unlock()
	c.started = true
	if c.over {
		return io.EOF
	}
	if !c.woken {
		return nil
	}
	c.woken = false
	return c.loan.SetReadDeadline(time.Time{})
}

// shared is which part of what a connection's other streams send counts for one: clients that send
// many bodies at once, slowly, send them one after the other.
const shared = 16

// every is how often the streams are looked at.
func (le *lender) every() time.Duration {
	return max(min(le.bodyTime, le.limits.StallTime)/4, time.Millisecond)
}

// look resets the streams that lag too far behind.
func (c *h2conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, le, now := &c.watch, c.lender, time.Now()
	if w.handlers < fewHandlers { // some had returned before their streams were reset
		w.gone = min(w.gone, w.handlers)
		c.count()
	}
	client := &w.sides[fromClient]
	d := min(now.Sub(c.looked), 2*le.every()) // it is longer if this process got no CPU time
	others := w.conn.lag[fromClient].bytes / shared
	bodyByte, stall := time.Second/time.Duration(le.limits.FrameRate), le.limits.StallTime
	waits := w.insert != ""
	for id, st := range w.streams {
		body, answer := &st.lag[fromClient], &st.lag[fromServer]
		body.bytes += others
		slow := body.look(!st.whole && !st.answered && min(st.window[fromClient], w.conn.window[fromClient]) > 0, d, bodyByte)
		waits = answer.look(st.begun && min(st.window[fromServer], w.conn.window[fromServer]) <= 0, d, stall/writePiece) || slow || waits
		switch {
		case body.owed > le.bodyTime:
			le.slowBodies.Add(1)
		case answer.owed > stall:
			le.closedWindows.Add(1)
		default:
			continue
		}
		w.insert += h2Resets + string(binary.BigEndian.AppendUint32(nil, id)) + "\x00\x00\x00\x00"
		delete(w.streams, id)
		st.head = 0
		w.count(st)
	}
	waits = w.conn.lag[fromClient].look(!client.between(), d, bodyByte) || waits
	if w.conn.lag[fromClient].owed > le.bodyTime {
		w.found, c.over = engine.FrameTimeout, true
	}
	if c.over || w.inserts() {
		c.wake()
	}
	if c.looked = now; waits && !c.over {
		c.looks.Reset(le.every())
	} else {
		c.looks = nil
	}
}

// wake ends a read that waits.
func (c *h2conn) wake() {
	c.woken = true
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// Write notes what the server sends.
func (c *h2conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.giveTurn()
	for n := 0; n < len(p); {
		n += c.watch.pass(fromServer, p[n:])
	}
	c.happened()
	c.mu.Unlock()
	return c.loan.Write(p)
}

// Close ends the connection.
func (c *h2conn) Close() error {
	c.mu.Lock()
	c.over = true
	c.giveTurn()
	if c.looks != nil {
		c.looks.Stop()
	}
	c.mu.Unlock()
	return c.loan.Close()
}

// UnencryptedNetConn is how net/http passes connections without TLS to its HTTP/2.
func (c *h2conn) UnencryptedNetConn() net.Conn { return c }

// lentHandler is the handler of one connection. Its BaseContext is where net/http's HTTP/2 looks for the
// connection's context.
type lentHandler struct {
	http.Handler
	ctx context.Context
}

func (h lentHandler) BaseContext() context.Context { return h.ctx }

// http2Preface is what a client of HTTP/2 sends first.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// preface waits for HTTP/2's, and then lends the connection.
func (s *Server) preface(t *engine.Turn, in []byte) (need int, is bool, err error) {
	n, chosen := min(len(in), len(http2Preface)), t.State&stateHTTP2 != 0
	switch same := string(in[:n]) == http2Preface[:n]; {
	case same && n == len(http2Preface):
		return 0, true, s.give(t)
	case same && (chosen || n >= peeked || s.protocol.http1Off):
		return len(http2Preface) - n, true, nil
	case chosen:
		return 0, true, engine.ClosedHere
	}
	return 0, false, nil
}

// h2HeaderList is MaxHeaderBytes for a header list of 64 KiB, to which net/http adds ten fields of 32
// bytes. A field counts with 32 bytes more than it has, so there are at most 1,985.
const h2HeaderList = 64<<10 - 10*32

// initHTTP2 creates the server for connections that speak HTTP/2, over TLS or without, unless that is off
// or this net/http has no entrance.
func (s *Server) initHTTP2() {
	spoken := protocols(&s.std)
	if !s.NoHTTP2 && (spoken.HTTP2() || spoken.UnencryptedHTTP2()) {
		s.http2 = s.lendsHTTP2()
	}
	if s.http2 != nil {
		s.protocol.prior = spoken.UnencryptedHTTP2()
		return
	}
	spoken.SetHTTP2(false)
	spoken.SetUnencryptedHTTP2(false)
	s.std.Protocols = &spoken
}

// lendsHTTP2 creates the lender for HTTP/2. nil: there is no entrance.
func (s *Server) lendsHTTP2() *lender {
	le := &lender{whole: true, limits: s.lender.limits, bodyTime: s.lender.bodyTime}
	if s.std.ReadTimeout > 0 { // net/http bounds bodies
		le.bodyTime = math.MaxInt64
	}
	copyServer(&le.std, &s.std)
	le.std.MaxHeaderBytes = cmp.Or(le.std.MaxHeaderBytes, h2HeaderList)
	le.std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, ok := r.Context().Value(loanKey{}).(*loan); ok {
			defer l.http2.handles(r)()
		}
		s.serveLoan(w, r)
	})
	le.std.TLSConfig, le.std.TLSNextProto = nil, nil
	le.std.Protocols = new(http.Protocols)
	le.std.Protocols.SetUnencryptedHTTP2(true) // the engine has decrypted it
	le.turns = make(chan struct{}, runtime.GOMAXPROCS(0))
	le.init()
	le.Close()
	le.std.Serve(&entrance{le}) // sets le.enter or TLSNextProto, and returns
	if serve := le.std.TLSNextProto["unencrypted_http2"]; serve != nil {
		le.enter = func(ctx context.Context, c *h2conn) {
			serve(&le.std, tls.Client(c, nil), lentHandler{le.std.Handler, ctx})
		}
	}
	if le.enter == nil {
		return nil
	}
	return le
}

// entrance is a listener to which net/http shows how it serves connections of HTTP/2, from Go 1.27 on, as
// it does to x/net/http2.
type entrance struct{ *lender }

// HTTP2Config adds nothing to the server's settings.
func (*entrance) HTTP2Config() (none http.HTTP2Config) { return none }

// IdleTimeout is the server's.
func (e *entrance) IdleTimeout() time.Duration {
	return cmp.Or(e.std.IdleTimeout, e.std.ReadTimeout)
}

// ServeConnFunc gets the entrance.
func (e *entrance) ServeConnFunc(serve func(context.Context, net.Conn, http.Handler, bool, *http.Request, []byte)) {
	e.enter = func(ctx context.Context, c *h2conn) { serve(ctx, c, e.std.Handler, true, nil, nil) }
}
