package http1

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// A stream of HTTP/2 has the limits of a connection of HTTP/1, while its handler waits for the client:
//
//   - its body keeps to Limits.FrameRate until the handler answers. A conversation, such as a call of
//     gRPC in both directions, may be silent after that.
//   - 64 KiB of its answer leave within Limits.StallTime. The time in which the socket is full does
//     not count: many streams share it, and it has a limit of its own.
//
// Both are off where the handler, or ReadTimeout or WriteTimeout, sets a deadline.

// h2writer is net/http's ResponseWriter of HTTP/2.
type h2writer interface {
	http.ResponseWriter
	http.Flusher
	http.Pusher
	io.StringWriter
	CloseNotify() <-chan bool
	FlushError() error
	EnableFullDuplex() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// h2stream is a request and its answer.
type h2stream struct {
	h2writer
	body io.ReadCloser
	conn *h2conn

	mu       sync.Mutex
	over     bool // the handler has returned: net/http's writer must not be used
	answered bool
	reads    wait
	writes   wait
	sent     bool          // a part of the answer's body
	owed     time.Duration // how far the body lags behind
}

// wait is one side of a stream.
type wait struct {
	off   bool // somebody else bounds it
	on    bool
	began time.Time
	seen  int           // h2conn.received then
	busy  time.Duration // h2conn.busy then
	timer *time.Timer
}

// start sets the timer.
func (w *wait) start(d time.Duration, fire func()) {
	w.on, w.began = true, time.Now()
	if w.timer == nil {
		w.timer = time.AfterFunc(d, fire)
	} else {
		w.timer.Reset(d)
	}
}

func (w *wait) stop() {
	if w.on = false; w.timer != nil {
		w.timer.Stop()
	}
}

// shared is which part of what the connection's other streams send counts for one: clients that send
// many bodies at once, slowly, send them one after the other.
const shared = 16

// lag is how far the body lags behind after n bytes.
func (s *h2stream) lag(n int) time.Duration {
	paid := n + (s.conn.received()-s.reads.seen)/shared
	return s.owed + time.Since(s.reads.began) - time.Duration(paid)*time.Second/time.Duration(s.conn.lender.limits.FrameRate)
}

// h2body is the stream as its request's body.
type h2body h2stream

func (b *h2body) Read(p []byte) (int, error) {
	s := (*h2stream)(b)
	s.mu.Lock()
	bounded := !s.answered && !s.reads.off
	if bounded {
		s.reads.seen = s.conn.received()
		s.reads.start(s.conn.lender.bodyTime-s.owed, s.slow)
	}
	s.mu.Unlock()
	n, err := s.body.Read(p)
	if bounded {
		s.mu.Lock()
		s.owed = max(0, s.lag(n))
		s.reads.stop()
		s.mu.Unlock()
	}
	return n, err
}

func (b *h2body) Close() error { return b.body.Close() }

// slow ends the body if it lags too far behind.
func (s *h2stream) slow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !s.reads.on {
		return
	}
	if more := s.conn.lender.bodyTime - s.lag(0); more > 0 {
		s.reads.timer.Reset(more)
		return
	}
	s.reads.on = false
	s.conn.lender.slowBodies.Add(1)
	s.h2writer.SetReadDeadline(time.Unix(1, 0))
}

// stalled resets the stream if its client takes nothing.
func (s *h2stream) stalled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !s.writes.on {
		return
	}
	now := time.Now()
	took, _ := s.conn.busy(now)
	if more := s.conn.lender.limits.StallTime - now.Sub(s.writes.began) + took - s.writes.busy; more > 0 {
		s.writes.timer.Reset(more)
		return
	}
	s.writes.on = false
	s.conn.lender.closedWindows.Add(1)
	s.h2writer.SetWriteDeadline(time.Unix(1, 0))
}

// answers records that the handler answers.
func (s *h2stream) answers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		s.answered = true
		s.reads.stop()
	}
}

// writing calls write, which may have to wait for the client.
func (s *h2stream) writing(write func() (int, error)) (int, error) {
	s.answers()
	s.mu.Lock()
	if !s.writes.off {
		s.writes.busy, _ = s.conn.busy(time.Now())
		s.writes.start(s.conn.lender.limits.StallTime, s.stalled)
	}
	s.mu.Unlock()
	n, err := write()
	s.mu.Lock()
	s.sent = s.sent || n > 0
	s.writes.stop()
	s.mu.Unlock()
	return n, err
}

func (s *h2stream) WriteHeader(status int) {
	if status >= 200 {
		s.answers()
	}
	s.h2writer.WriteHeader(status)
}

func (s *h2stream) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+writePiece)]
		m, err := s.writing(func() (int, error) { return s.h2writer.Write(piece) })
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

func (s *h2stream) WriteString(p string) (n int, err error) {
	for {
		piece := p[n:min(len(p), n+writePiece)]
		m, err := s.writing(func() (int, error) { return s.h2writer.WriteString(piece) })
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

func (s *h2stream) Flush() { s.FlushError() }

func (s *h2stream) FlushError() error {
	_, err := s.writing(func() (int, error) { return 0, s.h2writer.FlushError() })
	return err
}

// SetReadDeadline sets the handler's own deadline, in place of ours.
func (s *h2stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	s.reads.off = true
	s.reads.stop()
	s.mu.Unlock()
	return s.h2writer.SetReadDeadline(t)
}

// SetWriteDeadline sets the handler's own deadline, in place of ours.
func (s *h2stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	s.writes.off = true
	s.writes.stop()
	s.mu.Unlock()
	return s.h2writer.SetWriteDeadline(t)
}

// ends ends our part when the handler returns. net/http still sends the last 4 KiB: if the socket is
// full, other streams may go first.
func (s *h2stream) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.reads.stop()
	s.writes.stop()
	if d := s.conn.lender.limits.StallTime; s.sent && !s.writes.off {
		now := time.Now()
		if _, writes := s.conn.busy(now); writes {
			d *= 6
		}
		s.h2writer.SetWriteDeadline(now.Add(d))
	}
}

// serveStream is the handler that net/http calls for HTTP/2.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	l, _ := r.Context().Value(loanKey{}).(*loan)
	writer, known := w.(h2writer)
	if l == nil || l.h2 == nil || !known {
		s.serveLoan(w, r)
		return
	}
	le := l.lender
	st := &h2stream{h2writer: writer, body: r.Body, conn: l.h2}
	st.reads.off = le.std.ReadTimeout > 0 || le.bodyTime > endless
	st.writes.off = le.std.WriteTimeout > 0 || le.limits.StallTime > endless
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = (*h2body)(st)
	}
	defer st.ends()
	s.serveLoan(st, r)
}
