package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
)

// A connection is lent to net/http for the requests that the fast path leaves, and comes
// back when net/http has answered all that it was given and asks for more.
//
// Why no byte is lost or invented (conn.serve and connReader of net/http, Go 1.26): after
// an answer net/http has no read under way (finishRequest ends the background read that
// listens for the peer's leaving), calls setState(StateIdle), sets the read deadline for
// the idle time, peeks 4 bytes through its bufio.Reader, and sets the read deadline for
// the head. So what is read after the first deadline behind StateIdle and before the
// second is asked for by that Peek, which reads only while its buffer holds 0 to 3 bytes:
// as many as Read's argument is shorter than the buffer. They are the last bytes that
// net/http was given (the one that a background read may have caught among them), and
// begin the next request. They and what net/http was not given go back to the engine;
// net/http sees the end of the input and closes, without a word.
//
// The buffer's size is the length of the first Read: the limit of a head (MaxHeaderBytes
// and 4096 more) never makes that one shorter, since the buffer has 4096 bytes.
//
// A net/http that does something else is found out by comesBack, which plays the cases
// that matter through when a server starts: then connections stay lent until they end.

// lender is a net/http server and the connections that are lent to it.
type lender struct {
	std   http.Server
	whole bool // connections are lent for good: HTTP/2
	// returns says that this net/http asks for more as described above.
	returns bool
	limits  engine.Limits // with defaults
	timed   bool          // net/http bounds the time of bodies itself (ReadTimeout)
	prior   bool          // it speaks HTTP/2 to clients that begin with it, without TLS

	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	lent     map[*loan]struct{}
	hijacked int
	draining bool

	loans, requests, bytesIn, bytesOut atomic.Uint64
}

// init is called when std is set.
func (le *lender) init() {
	le.queue = make(chan net.Conn)
	le.closed = make(chan struct{})
	le.lent = map[*loan]struct{}{}
	le.prior = protocols(&le.std).UnencryptedHTTP2()
	le.std.ConnState = le.follow
	le.std.BaseContext = nil
	le.std.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		l := loanOf(nc)
		if l == nil {
			return ctx
		}
		if l.ctx != nil {
			ctx = l.ctx
		}
		return context.WithValue(ctx, loanKey{}, l)
	}
}

// loanKey is the key of a request's loan in its context.
type loanKey struct{}

// Accept gives net/http what is lent to it.
func (le *lender) Accept() (net.Conn, error) {
	select {
	case nc := <-le.queue:
		return nc, nil
	case <-le.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the lending; connections that are lent stay so.
func (le *lender) Close() error {
	le.once.Do(func() { close(le.closed) })
	return nil
}

// Addr is the address of nothing: connections have the one they came to.
func (le *lender) Addr() net.Addr { return &net.TCPAddr{} }

// lend has net/http serve l, and returns what it has not used when it is done.
func (le *lender) lend(l *loan) (left []byte, back bool) {
	l.lender = le
	if le.whole {
		l.phase = given
	}
	le.loans.Add(1)
	le.mu.Lock()
	le.lent[l] = struct{}{}
	if le.draining {
		l.drain()
	}
	le.mu.Unlock()
	defer func() {
		le.mu.Lock()
		delete(le.lent, l)
		if l.reached() == hijacked {
			le.hijacked--
		}
		le.mu.Unlock()
	}()
	var nc net.Conn = l
	if _, secure := l.nc.(tlsStater); secure && !le.whole {
		nc = tlsLoan{l}
	}
	select {
	case le.queue <- nc:
	case <-le.closed:
		return nil, false
	}
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unread, l.back
}

// drain has connections that wait for a request end soon, and the others after their
// answer.
func (le *lender) drain() {
	le.mu.Lock()
	le.draining = true
	for l := range le.lent {
		l.drain()
	}
	le.mu.Unlock()
	le.std.SetKeepAlivesEnabled(false) // closes those that are idle
}

// cut ends the loans that net/http does not know of any more: those that were hijacked.
func (le *lender) cut() {
	le.mu.Lock()
	lent := slices.Collect(maps.Keys(le.lent))
	le.mu.Unlock()
	for _, l := range lent {
		l.Close()
	}
}

// open is how many connections are lent, and how many of them were hijacked.
func (le *lender) open() (lent, hijacked int) {
	le.mu.Lock()
	defer le.mu.Unlock()
	return len(le.lent), le.hijacked
}

// follow is net/http's ConnState.
func (le *lender) follow(nc net.Conn, state http.ConnState) {
	l := loanOf(nc)
	if l == nil {
		return
	}
	if state == http.StateHijacked {
		le.mu.Lock()
		le.hijacked++
		l.mu.Lock()
		l.phase = hijacked
		l.mu.Unlock()
		le.mu.Unlock()
	} else {
		l.mu.Lock()
		switch {
		case l.phase == given || l.phase == hijacked:
		case state == http.StateActive:
			l.phase, l.posted, l.owed = inBody, false, 0
			if l.draining {
				l.nc.SetReadDeadline(l.readBy)
			}
		case state == http.StateIdle:
			l.phase = answered
		}
		l.mu.Unlock()
	}
	if l.told != nil && state != http.StateNew && !(state == http.StateClosed && l.isBack()) {
		l.told(state)
	}
}

// loanPhase is how far net/http is with a connection.
type loanPhase uint8

const (
	inHead   loanPhase = iota // it reads a head, or something that we do not know
	inBody                    // the handler runs, and reads the body
	inAnswer                  // the same, and the body has ended, or somebody has set a deadline for it
	answered                  // all that it has read is answered
	asking                    // the same, and it waits for more
	given                     // it has the connection for good
	hijacked                  // the handler has taken the connection
)

// loan is a connection as net/http sees it.
type loan struct {
	nc     net.Conn
	lender *lender
	ctx    context.Context      // the connection's; nil: the lender's
	told   func(http.ConnState) // what the user wants to hear of; nil: nothing
	remote net.Addr             // the peer, if a proxy has told of it
	tail   [3]byte              // the last bytes that net/http was given
	full   int                  // how much it reads when its buffer is empty
	tls    *tls.ConnectionState // for HTTP/2, whose server does not know of it
	ended  chan struct{}

	mu       sync.Mutex
	phase    loanPhase
	preface  int    // how many of HTTP/2's first bytes it has begun with; -1: with others
	unread   []byte // read by the engine, and not given to net/http yet
	posted   bool   // the last request was a POST
	mustPost bool   // what posted has to be when the connection comes back
	back     bool
	over     bool
	draining bool
	readBy   time.Time // the deadlines that net/http has set
	writeBy  time.Time
	owed     time.Duration // by which the body is late, at Limits.FrameRate
	why      engine.Reason // the limit that has struck
}

// reached is how far net/http is.
func (l *loan) reached() loanPhase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// isBack reports whether the engine has the connection again.
func (l *loan) isBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back
}

// struck is the limit that has ended the loan, 0 if none has.
func (l *loan) struck() engine.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// drainGrace is how long net/http waits for the rest of a head when the server drains.
const drainGrace = 250 * time.Millisecond

// drain ends the wait for a head.
func (l *loan) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	if l.phase == inHead && !l.over {
		l.nc.SetReadDeadline(time.Now().Add(drainGrace))
	}
}

// Read gives net/http what it asks for, but nothing between two requests.
func (l *loan) Read(p []byte) (n int, err error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return 0, net.ErrClosed
	}
	if l.full == 0 {
		l.full = len(p)
	}
	if keeps := l.full - len(p); l.phase == asking && keeps >= 0 && keeps <= len(l.tail) && l.posted == l.mustPost && l.lender.returns {
		l.unread = append(append([]byte(nil), l.tail[len(l.tail)-keeps:]...), l.unread...)
		l.back = true
		l.mu.Unlock()
		return 0, io.EOF
	}
	if len(l.unread) > 0 {
		n = copy(p, l.unread)
		l.unread = l.unread[n:]
		l.remember(p[:n])
		l.mu.Unlock()
		return n, nil
	}
	phase := l.phase
	bounded := phase == inBody && l.readBy.IsZero() && !l.lender.timed
	var began time.Time
	if bounded {
		began = time.Now()
		l.nc.SetReadDeadline(after(began, l.lender.limits.FrameTime-l.owed))
	}
	l.mu.Unlock()
	n, err = l.nc.Read(p)
	l.lender.bytesIn.Add(uint64(n))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(p[:n])
	if bounded {
		paid := time.Duration(n) * time.Second / time.Duration(l.lender.limits.FrameRate)
		l.owed = max(0, l.owed+time.Since(began)-paid)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !l.draining {
		switch {
		case phase == asking:
			l.why = engine.IdleTimeout
		case phase == inHead || phase == inBody:
			l.why = engine.FrameTimeout
		}
	}
	return n, err
}

// http2Preface is how a client begins that knows that the server speaks HTTP/2.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// begins sees whether the connection turns out to be one for HTTP/2. mu held.
func (l *loan) begins(p []byte) {
	n := min(len(p), len(http2Preface)-l.preface)
	switch {
	case string(p[:n]) != http2Preface[l.preface:l.preface+n]:
		l.preface = -1
	case l.preface+n == len(http2Preface):
		l.preface, l.phase = -1, given
	default:
		l.preface += n
	}
}

// remember keeps the last bytes that net/http was given. mu held.
func (l *loan) remember(p []byte) {
	if l.lender.prior && l.preface >= 0 {
		l.begins(p)
	}
	for _, b := range p[max(0, len(p)-len(l.tail)):] {
		l.tail = [3]byte{l.tail[1], l.tail[2], b}
	}
}

// after is the moment d after t, and no moment when d is without end.
func after(t time.Time, d time.Duration) time.Time {
	if d > endless {
		return time.Time{}
	}
	return t.Add(d)
}

// endless is a time that nobody waits for; limits that are off are longer.
const endless = 100 * 365 * 24 * time.Hour

// writePiece is how much a peer has Limits.StallTime to take.
const writePiece = 64 << 10

// step prepares writing a piece, and says whether the limits hold for it.
func (l *loan) step() (limited bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase {
	case hijacked:
		return false, nil
	case answered, asking: // not as we know it
		l.phase = inHead
	}
	if l.over {
		return false, net.ErrClosed
	}
	until := after(time.Now(), l.lender.limits.StallTime)
	if until.IsZero() || !l.writeBy.IsZero() && l.writeBy.Before(until) {
		until = l.writeBy
	}
	return true, l.nc.SetWriteDeadline(until)
}

// wrote counts n bytes, and finds out whether a limit has struck.
func (l *loan) wrote(n int, err error) {
	l.lender.bytesOut.Add(uint64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.mu.Lock()
		if l.why == 0 {
			l.why = engine.WriteStall
		}
		l.mu.Unlock()
	}
}

// Write has the peer take every piece within Limits.StallTime.
func (l *loan) Write(p []byte) (n int, err error) {
	for {
		limited, err := l.step()
		if err != nil {
			return n, err
		}
		piece := p[n:]
		if limited {
			piece = piece[:min(len(piece), writePiece)]
		}
		m, err := l.nc.Write(piece)
		n += m
		l.wrote(m, err)
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// ReadFrom lets the kernel send files, in pieces as Write.
func (l *loan) ReadFrom(r io.Reader) (n int64, err error) {
	to, ok := l.nc.(io.ReaderFrom)
	if !ok {
		return io.Copy(writeOnly{l}, r)
	}
	rest := &io.LimitedReader{R: r, N: 1<<63 - 1}
	if lr, ok := r.(*io.LimitedReader); ok {
		rest = lr // the kernel is asked only for what is behind one of these
	}
	for {
		if _, err := l.step(); err != nil {
			return n, err
		}
		piece := &io.LimitedReader{R: rest.R, N: min(rest.N, writePiece)}
		asked := piece.N
		m, err := to.ReadFrom(piece)
		n += m
		rest.N -= m
		l.wrote(int(m), err)
		if err != nil || m < asked || rest.N <= 0 {
			return n, err
		}
	}
}

// writeOnly hides ReadFrom.
type writeOnly struct{ io.Writer }

// CloseWrite is what net/http calls after a refusal.
func (l *loan) CloseWrite() error {
	if half, ok := l.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends the loan.
func (l *loan) Close() (err error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil
	}
	l.over = true
	back := l.back
	l.mu.Unlock()
	if !back {
		err = l.nc.Close()
	}
	close(l.ended)
	return err
}

// SetReadDeadline tells us too what net/http is about to do.
func (l *loan) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return net.ErrClosed
	}
	switch l.phase {
	case inBody:
		l.phase = inAnswer
	case answered:
		l.phase = asking
	case asking:
		l.phase = inHead
	}
	l.readBy = t
	if l.draining && l.phase == inHead {
		return nil // the end of the drain is sooner
	}
	return l.nc.SetReadDeadline(t)
}

// SetWriteDeadline counts where it is sooner than Limits.StallTime.
func (l *loan) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return net.ErrClosed
	}
	l.writeBy = t
	return l.nc.SetWriteDeadline(t)
}

// SetDeadline is both.
func (l *loan) SetDeadline(t time.Time) error {
	return errors.Join(l.SetReadDeadline(t), l.SetWriteDeadline(t))
}

// LocalAddr is the address that the peer has connected to.
func (l *loan) LocalAddr() net.Addr { return l.nc.LocalAddr() }

// RemoteAddr is the peer's address, as a trusted proxy has told it where there is one.
func (l *loan) RemoteAddr() net.Addr {
	if l.remote != nil {
		return l.remote
	}
	return l.nc.RemoteAddr()
}

// NetConn is for those who have hijacked the connection and want what is below.
func (l *loan) NetConn() net.Conn { return l.nc }

// handled notes that a handler is called.
func (l *loan) handled(r *http.Request) {
	l.lender.requests.Add(1)
	l.mu.Lock()
	l.posted = r.Method == http.MethodPost
	l.mu.Unlock()
}

// loanOf is the loan that net/http knows as nc, nil if it is none.
func loanOf(nc net.Conn) *loan {
	switch nc := nc.(type) {
	case tlsLoan:
		return nc.loan
	case *loan:
		return nc
	}
	return nil
}

// newLoan is nc with what was read from it already.
func newLoan(nc net.Conn, unread []byte) *loan {
	return &loan{nc: nc, unread: unread, ended: make(chan struct{})}
}
