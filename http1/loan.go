package http1

import (
	"bytes"
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

// The fast path lends a connection to net/http for the requests that it does not serve. The
// connection comes back when net/http has answered everything it was given and asks for more.
//
// Why no byte is lost or invented (conn.serve and connReader of net/http, Go 1.26): after a
// response, net/http has no read in flight, because finishRequest ends the background read
// that watches for a disconnect. It calls setState(StateIdle), sets the read deadline for the
// idle time, peeks 4 bytes through its bufio.Reader, and sets the read deadline for the head.
// So a Read between the first and the second deadline after StateIdle comes from that Peek,
// which reads only while its buffer holds 0 to 3 bytes: as many as the argument of Read is
// shorter than the buffer. Those are the last bytes that net/http was given (including the
// one that a background read may have caught), and they begin the next request. Together with
// the bytes that net/http was not given, they go back to the engine; net/http sees EOF and
// closes without writing anything.
//
// The buffer's size is the length of the first Read: the limit of a head (MaxHeaderBytes
// plus 4096) never shortens that Read, since the buffer has 4096 bytes.
//
// comesBack detects a net/http that behaves differently: it plays through the cases that
// matter when a server starts. In that case connections stay lent until they close.

// lender is a net/http server and the connections that are lent to it.
type lender struct {
	std   http.Server
	whole bool // connections are lent for good: HTTP/2
	// returns reports that this net/http asks for more as described above.
	returns  bool
	limits   engine.Limits                  // with defaults filled in
	bodyTime time.Duration                  // how far a body may lag behind Limits.FrameRate
	turns    chan struct{}                  // of connections of HTTP/2 that make work
	enter    func(context.Context, *h2conn) // net/http's own entrance for HTTP/2, on the caller's goroutine

	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	lent     map[*loan]struct{}
	draining bool

	loans, requests, bytesIn, bytesOut atomic.Uint64
	slowBodies, closedWindows          atomic.Uint64 // of HTTP/2
	waiting                            atomic.Int64  // handlers, in Later
}

// init prepares the lender; std must be set.
func (le *lender) init() {
	le.queue = make(chan net.Conn)
	le.closed = make(chan struct{})
	le.lent = map[*loan]struct{}{}
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

// loanKey is the context key of a request's loan.
type loanKey struct{}

// Accept returns the next connection that is lent to net/http.
func (le *lender) Accept() (net.Conn, error) {
	select {
	case nc := <-le.queue:
		return nc, nil
	case <-le.closed:
		return nil, net.ErrClosed
	}
}

// Close stops lending. Connections that are already lent stay lent.
func (le *lender) Close() error {
	le.once.Do(func() { close(le.closed) })
	return nil
}

// Addr is a placeholder: each connection has its own local address.
func (le *lender) Addr() net.Addr { return &net.TCPAddr{} }

// lend lets net/http serve l. When net/http is done, it returns the bytes that are unused.
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
		le.mu.Unlock()
	}()
	var nc net.Conn = l
	if le.whole {
		c := &h2conn{loan: l, watch: newWatch()}
		l.http2 = c
		l.unread = l.unread[len(http2Preface):]
		le.enter(le.std.ConnContext(context.Background(), c), c)
		return nil, false
	}
	if _, secure := l.nc.(tlsStater); secure {
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

// drain makes connections that wait for a request end soon, and the others after their
// response.
func (le *lender) drain() {
	le.mu.Lock()
	le.draining = true
	for l := range le.lent {
		l.drain()
	}
	le.mu.Unlock()
	le.std.SetKeepAlivesEnabled(false) // closes idle connections
}

// cut closes the loans that net/http does not track yet.
func (le *lender) cut() {
	le.mu.Lock()
	lent := slices.Collect(maps.Keys(le.lent))
	le.mu.Unlock()
	for _, l := range lent {
		if l.reached() != hijacked {
			l.Close()
		}
	}
}

// open returns how many connections are lent.
func (le *lender) open() int {
	le.mu.Lock()
	defer le.mu.Unlock()
	return len(le.lent)
}

// follow is net/http's ConnState.
func (le *lender) follow(nc net.Conn, state http.ConnState) {
	l := loanOf(nc)
	if l == nil {
		return
	}
	if state == http.StateHijacked {
		l.mu.Lock()
		l.phase = hijacked
		l.complete()
		l.mu.Unlock()
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
			l.complete()
		}
		l.mu.Unlock()
	}
	if l.onState != nil && state != http.StateNew && !(state == http.StateClosed && l.isBack()) {
		l.onState(state)
	}
	if state == http.StateHijacked { // last: the connection's end is told after it
		l.conn.GiveAway()
		close(l.ended)
	}
}

// loanPhase is how far net/http has got with a connection.
type loanPhase uint8

const (
	inHead   loanPhase = iota // net/http reads a head, or does something unknown to us
	inBody                    // the handler runs and reads the body
	inAnswer                  // the handler runs, and the body has ended or somebody has set a deadline for it
	answered                  // everything that net/http has read is answered
	asking                    // as answered, and net/http waits for more
	given                     // net/http keeps the connection for good
	hijacked                  // the handler has taken the connection: the loan has ended
)

// loan is a connection as net/http sees it.
type loan struct {
	nc      net.Conn
	conn    engine.Conn
	lender  *lender
	ctx     context.Context      // the connection's; nil: the lender's
	onState func(http.ConnState) // reports states to the user's hook; nil: no hook
	remote  net.Addr             // the peer's address, if a proxy has sent it
	tail    [3]byte              // the last bytes that net/http was given
	full    int                  // how much net/http reads when its buffer is empty
	tls     *tls.ConnectionState // for HTTP/2, whose server does not see the TLS connection
	http2   *h2conn
	ended   chan struct{}

	mu       sync.Mutex
	phase    loanPhase
	unread   []byte // read by the engine and not yet given to net/http
	whole    int    // the memory of unread
	head     headSize
	counted  int  // in Limits.TotalInput
	posted   bool // the last request was a POST
	mustPost bool // the value of posted without which the connection must not come back
	back     bool
	over     bool
	draining bool
	readBy   time.Time // the deadlines that net/http has set
	writeBy  time.Time
	owed     time.Duration // how far the body lags behind Limits.FrameRate
	why      engine.Reason // the limit that ended the loan
}

// reached returns the current phase.
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

// struck is the limit that ended the loan, 0 if none did.
func (l *loan) struck() engine.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// drainGrace is how long net/http waits for the rest of a head while the server drains.
const drainGrace = 250 * time.Millisecond

// drain shortens the wait for a head.
func (l *loan) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	if l.phase == inHead && !l.over {
		l.nc.SetReadDeadline(time.Now().Add(drainGrace))
	}
}

// Read gives net/http the bytes it asks for, and ends the loan between two requests.
func (l *loan) Read(p []byte) (n int, err error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return 0, net.ErrClosed
	}
	if l.back { // net/http ends a line at the first EOF, and asks for the next one
		l.mu.Unlock()
		return 0, io.EOF
	}
	if l.full == 0 {
		l.full = len(p)
	}
	if keeps := l.full - len(p); l.phase == asking && keeps >= 0 && keeps <= len(l.tail) && l.posted == l.mustPost && l.lender.returns {
		l.unread = append(append([]byte(nil), l.tail[len(l.tail)-keeps:]...), l.unread...)
		l.giveBack()
		l.mu.Unlock()
		return 0, io.EOF
	}
	if len(l.unread) > 0 {
		n = copy(p, l.unread)
		if l.unread = l.unread[n:]; len(l.unread) == 0 {
			l.unread = nil
		}
		err = l.given(p[:n])
		l.mu.Unlock()
		return n, err
	}
	phase := l.phase
	bounded := phase == inBody && l.readBy.IsZero() // with ReadTimeout, net/http has set a deadline
	var began time.Time
	if bounded {
		began = time.Now()
		l.nc.SetReadDeadline(after(began, l.lender.bodyTime-l.owed))
		if l.isCutOff() {
			l.mu.Unlock()
			return 0, net.ErrClosed
		}
	}
	l.mu.Unlock()
	n, err = l.nc.Read(p)
	l.lender.bytesIn.Add(uint64(n))
	l.mu.Lock()
	defer l.mu.Unlock()
	if full := l.given(p[:n]); full != nil {
		return 0, full
	}
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

// given accounts for bytes that net/http is about to get. Its error ends the connection. Callers
// hold mu.
func (l *loan) given(p []byte) error {
	l.remember(p)
	if l.phase != inHead && l.phase != asking {
		l.count()
		return nil
	}
	if l.head.add(p); !l.count() {
		l.unread = nil
		l.giveBack() // for the engine to refuse it; net/http closes
		l.conn.Close(engine.InputBudget)
		return io.EOF
	}
	return nil
}

// giveBack ends the loan with net/http's next call. Callers hold mu.
func (l *loan) giveBack() {
	l.back = true
	if l.counted > 0 {
		l.conn.HoldInput(-l.counted)
		l.counted = 0
	}
}

// count counts what is held of an unfinished request in Limits.TotalInput, and returns false if
// there is no room. Ordinary requests hold less than is counted. Callers hold mu.
func (l *loan) count() bool {
	holds := l.head.held()
	if l.unread != nil {
		holds += l.whole
	}
	more := max(0, holds-uncounted) - l.counted
	if more != 0 && !l.conn.HoldInput(more) {
		return false
	}
	l.counted += more
	return true
}

// complete declares that net/http has read the request, or that its handler takes care of the
// rest: from here on the handler bounds what the request holds. Callers hold mu.
func (l *loan) complete() {
	l.head = headSize{}
	l.count()
}

// uncounted is what a connection may hold beyond Limits.TotalInput, as on the engine.
const uncounted = 4 << 10

// headSize is how much of a head net/http has been given.
type headSize struct {
	bytes, lines int
	line         int  // bytes of the last line
	last         byte // the last of these
	begun        bool // there was a line that is not empty: after a POST, empty ones may precede it
	over         bool // the rest of what it is given is body
	named        int  // letters of Content-Length that the last line begins with
	sized        bool // a line begins with all of them
}

const lengthLine = "content-length:"

// What net/http holds of a head, beyond what any connection costs: the most that was measured
// (TestHeldHeads). A line of 6 bytes, with another name each, costs it 16 times as much.
const (
	heldPerByte = 1.25
	heldPerLine = 112
)

func (h *headSize) held() int { return int(heldPerByte*float64(h.bytes)) + heldPerLine*h.lines }

// add counts p up to the empty line that ends the head.
func (h *headSize) add(p []byte) {
	for len(p) > 0 && !h.over {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			h.extend(p)
			return
		}
		h.extend(p[:at])
		empty := h.line == 0 || h.line == 1 && h.last == '\r'
		h.begun, h.over = h.begun || !empty, h.begun && empty
		h.bytes, h.lines, h.line, h.named = h.bytes+1, h.lines+1, 0, 0
		p = p[at+1:]
	}
}

// extend counts a part of a line.
func (h *headSize) extend(p []byte) {
	for i := 0; i < len(p) && h.named == h.line+i && h.named < len(lengthLine) && p[i]|0x20 == lengthLine[h.named]; i++ {
		h.named++
	}
	h.sized = h.sized || h.named == len(lengthLine)
	if len(p) > 0 {
		h.bytes, h.line, h.last = h.bytes+len(p), h.line+len(p), p[len(p)-1]
	}
}

// remember keeps the last bytes that net/http was given. Callers hold mu.
func (l *loan) remember(p []byte) {
	for _, b := range p[max(0, len(p)-len(l.tail)):] {
		l.tail = [3]byte{l.tail[1], l.tail[2], b}
	}
}

// after is t plus d, or the zero time if d is unlimited.
func after(t time.Time, d time.Duration) time.Time {
	if d > endless {
		return time.Time{}
	}
	return t.Add(d)
}

// endless is longer than any real limit. Limits that are off are longer still.
const endless = 100 * 365 * 24 * time.Hour

// writePiece is how many bytes the peer must accept within Limits.StallTime.
const writePiece = 64 << 10

// step prepares the write of one piece, and reports whether the limits apply to it.
func (l *loan) step() (limited bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase {
	case hijacked:
		return false, nil
	case answered, asking: // not what the comment at the top describes
		l.phase = inHead
	}
	if l.over || l.back { // net/http may call half a head malformed after giveBack
		return false, net.ErrClosed
	}
	until := after(time.Now(), l.lender.limits.StallTime)
	if until.IsZero() || !l.writeBy.IsZero() && l.writeBy.Before(until) {
		until = l.writeBy
	}
	err = l.nc.SetWriteDeadline(until)
	if l.isCutOff() {
		return false, net.ErrClosed
	}
	return true, err
}

// isCutOff reports whether the engine has cut the connection off: it does so by a deadline, which
// the caller has just overwritten. Callers hold mu.
func (l *loan) isCutOff() bool {
	return l.phase != hijacked && l.conn != (engine.Conn{}) && !l.conn.HoldInput(0)
}

// wrote counts n bytes and records a write stall.
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

// Write gives the peer Limits.StallTime for every piece.
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

// ReadFrom lets the kernel send files, in pieces as Write does.
func (l *loan) ReadFrom(r io.Reader) (n int64, err error) {
	to, ok := l.nc.(io.ReaderFrom)
	if !ok {
		return io.Copy(writeOnly{l}, r)
	}
	rest := &io.LimitedReader{R: r, N: 1<<63 - 1}
	if lr, ok := r.(*io.LimitedReader); ok {
		rest = lr // package net uses sendfile only through one LimitedReader
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

// CloseWrite half-closes the connection. net/http calls it after refusing a request.
func (l *loan) CloseWrite() error {
	if half, ok := l.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends the loan, unless the hijack has.
func (l *loan) Close() (err error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil
	}
	l.over = true
	back, taken := l.back, l.phase == hijacked
	l.mu.Unlock()
	if !back {
		err = l.nc.Close()
	}
	if !taken {
		close(l.ended)
	}
	return err
}

// SetReadDeadline also reveals what net/http is about to do.
func (l *loan) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return net.ErrClosed
	}
	switch l.phase {
	case inBody:
		l.phase = inAnswer
		l.complete()
	case answered:
		l.phase = asking
	case asking:
		l.phase = inHead
	}
	l.readBy = t
	if l.draining && l.phase == inHead {
		return nil // the drain's deadline is sooner
	}
	err := l.nc.SetReadDeadline(t)
	if l.isCutOff() {
		return net.ErrClosed
	}
	return err
}

// SetWriteDeadline sets a deadline for writes. Limits.StallTime still applies if it is sooner.
func (l *loan) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return net.ErrClosed
	}
	l.writeBy = t
	return l.nc.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (l *loan) SetDeadline(t time.Time) error {
	return errors.Join(l.SetReadDeadline(t), l.SetWriteDeadline(t))
}

// LocalAddr is the address that the peer connected to.
func (l *loan) LocalAddr() net.Addr { return l.nc.LocalAddr() }

// RemoteAddr is the peer's address, as a trusted proxy reported it if there is one.
func (l *loan) RemoteAddr() net.Addr {
	if l.remote != nil {
		return l.remote
	}
	return l.nc.RemoteAddr()
}

// NetConn returns the underlying connection, for handlers that have hijacked this one.
func (l *loan) NetConn() net.Conn { return l.nc }

// handled records that net/http calls the handler, and reports whether the connection must end with the
// answer: behind chunks with a length beside them (RFC 9112 §6.1), of which net/http tells nobody. Heads
// that net/http has read together with what was before them are not known here.
func (l *loan) handled(r *http.Request) (ends bool) {
	l.lender.requests.Add(1)
	l.conn.Trust()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posted = r.Method == http.MethodPost
	return len(r.TransferEncoding) > 0 && l.head.sized
}

// loanOf returns the loan that net/http knows as nc, or nil.
func loanOf(nc net.Conn) *loan {
	switch nc := nc.(type) {
	case tlsLoan:
		return nc.loan
	case *loan:
		return nc
	case *h2conn:
		return nc.loan
	}
	return nil
}

// newLoan makes a loan of nc, from which unread has already been read.
func newLoan(nc net.Conn, unread []byte) *loan {
	return &loan{nc: nc, unread: unread, whole: cap(unread), ended: make(chan struct{})}
}
