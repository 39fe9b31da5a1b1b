package http1

import (
	"io"
	"net"
	"net/http"
	"sync"
)

// A connection is lent to net/http for the requests that the fast path leaves, and comes
// back when net/http has answered all that it was given and asks for more: then its buffer
// is empty, and whatever was not given to it yet is the next request.

// lend has net/http serve nc, and returns what it has not used when it is done.
func (s *Server) lend(nc net.Conn, unread []byte) (left []byte, back bool) {
	l := &loan{Conn: nc, unread: unread, ended: make(chan struct{})}
	select {
	case s.loans.queue <- l:
	case <-s.loans.closed:
		return nil, false
	}
	<-l.ended
	return l.unread, l.back
}

// loanListener is where net/http accepts what is lent to it.
type loanListener struct {
	queue  chan *loan
	closed chan struct{}
	once   sync.Once
}

func (ln *loanListener) Accept() (net.Conn, error) {
	select {
	case l := <-ln.queue:
		return l, nil
	case <-ln.closed:
		return nil, net.ErrClosed
	}
}

func (ln *loanListener) Close() error {
	ln.once.Do(func() { close(ln.closed) })
	return nil
}

// Addr is the address of nothing: connections have the one they came to.
func (ln *loanListener) Addr() net.Addr { return &net.TCPAddr{} }

// loan is a connection as net/http sees it.
type loan struct {
	net.Conn
	mu     sync.Mutex
	unread []byte  // read by the engine, and not given to net/http yet
	tail   [3]byte // the last bytes that it was given
	full   int     // how much it reads when its buffer is empty
	idle   bool    // it has answered all that it has read
	back   bool
	once   sync.Once
	ended  chan struct{}
}

// Read gives net/http what it asks for, but nothing between two requests.
func (l *loan) Read(p []byte) (n int, err error) {
	l.mu.Lock()
	if l.full == 0 {
		l.full = len(p)
	}
	if keeps := l.full - len(p); l.idle && keeps >= 0 && keeps <= len(l.tail) {
		// bufio.Reader.Peek asks for what its buffer has room for
		l.unread = append(append([]byte(nil), l.tail[len(l.tail)-keeps:]...), l.unread...)
		l.back = true
		l.mu.Unlock()
		return 0, io.EOF
	}
	if len(l.unread) > 0 {
		n = copy(p, l.unread)
		l.unread = l.unread[n:]
	}
	l.mu.Unlock()
	if n == 0 {
		n, err = l.Conn.Read(p)
	}
	l.mu.Lock()
	for _, b := range p[max(0, n-len(l.tail)):n] {
		l.tail = [3]byte{l.tail[1], l.tail[2], b}
	}
	l.mu.Unlock()
	return n, err
}

// ReadFrom lets the kernel send files.
func (l *loan) ReadFrom(r io.Reader) (int64, error) { return io.Copy(l.Conn, r) }

// CloseWrite is what net/http calls after a refusal.
func (l *loan) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends the loan.
func (l *loan) Close() (err error) {
	l.once.Do(func() {
		if !l.back {
			err = l.Conn.Close()
		}
		close(l.ended)
	})
	return err
}

// stateOfLoans tells loans about their state, and then user.
func stateOfLoans(user func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(nc net.Conn, state http.ConnState) {
		if l, ok := nc.(*loan); ok {
			l.mu.Lock()
			l.idle = state == http.StateIdle
			l.mu.Unlock()
		}
		if user != nil {
			user(nc, state)
		}
	}
}
