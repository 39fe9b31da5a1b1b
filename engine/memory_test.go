package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/transport"
)

// stream is one direction of an in-memory connection: a bounded buffer.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	limit    int
	finished bool // the writer has closed its side
	left     bool // the reader has closed
	reset    bool // broken: no more bytes in either direction
	readBy   alarm
	writeBy  alarm
}

// alarm is one deadline.
type alarm struct {
	passed bool
	timer  *time.Timer
	set    int
}

func newStream(limit int) *stream {
	s := &stream{limit: limit}
	s.changed.L = &s.mu
	return s
}

// change modifies the stream and wakes its waiters.
func (s *stream) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.changed.Broadcast()
}

func (s *stream) setAlarm(a *alarm, at time.Time) {
	s.change(func() {
		if a.timer != nil {
			a.timer.Stop()
		}
		a.set++
		a.passed = !at.IsZero() && !time.Now().Before(at)
		if set := a.set; !at.IsZero() && !a.passed {
			a.timer = time.AfterFunc(time.Until(at), func() {
				s.change(func() { a.passed = a.passed || a.set == set })
			})
		}
	})
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case s.reset:
			return 0, syscall.ECONNRESET
		case len(p) == 0:
			return 0, nil
		case len(s.data) > 0:
			n := copy(p, s.data)
			s.data = s.data[:copy(s.data, s.data[n:])]
			s.changed.Broadcast()
			return n, nil
		case s.finished:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.finished:
			return n, net.ErrClosed
		case s.writeBy.passed:
			return n, os.ErrDeadlineExceeded
		case s.reset || s.left:
			return n, syscall.EPIPE
		case n == len(p):
			return n, nil
		}
		if free := min(s.limit-len(s.data), len(p)-n); free > 0 {
			s.data = append(s.data, p[n:n+free]...)
			n += free
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// memoryConn is one end of a connection. As with TCP, closing it with unread bytes, or
// after SetLinger(0), resets it, and so does writing to a closed end.
type memoryConn struct {
	in, out *stream
	once    sync.Once
	hard    bool // guarded by out.mu
}

func memoryPair(limit int) (a, b *memoryConn) {
	there, back := newStream(limit), newStream(limit)
	return &memoryConn{in: back, out: there}, &memoryConn{in: there, out: back}
}

func (c *memoryConn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *memoryConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err == syscall.EPIPE {
		c.in.change(func() { c.in.reset = true })
	}
	return n, err
}

func (c *memoryConn) CloseWrite() error {
	c.out.change(func() { c.out.finished = true })
	return nil
}

func (c *memoryConn) SetLinger(seconds int) error {
	c.out.change(func() { c.hard = seconds == 0 })
	return nil
}

func (c *memoryConn) Close() error {
	c.once.Do(func() {
		unread := false
		c.in.change(func() { unread, c.in.left, c.in.data = len(c.in.data) > 0, true, nil })
		c.out.change(func() {
			c.out.finished = true
			if unread || c.hard {
				c.out.reset, c.out.data = true, nil
			}
		})
		c.SetDeadline(time.Time{})
	})
	return nil
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.setAlarm(&c.in.readBy, t)
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.setAlarm(&c.out.writeBy, t)
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) LocalAddr() net.Addr  { return &net.UnixAddr{Name: "memory", Net: "memory"} }
func (c *memoryConn) RemoteAddr() net.Addr { return c.LocalAddr() }

// memoryListener accepts what is dialled.
type memoryListener struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func listenMemory() *memoryListener {
	return &memoryListener{dialled: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// socketBuffer is how much an in-memory connection holds in each direction.
const socketBuffer = 64 << 10

// memoryConn behaves like TCP.
func TestMemoryConnBehavesLikeTCP(t *testing.T) {
	pairs := map[string]func(t *testing.T) (a, b net.Conn){
		"memory": func(*testing.T) (net.Conn, net.Conn) { return memoryPair(socketBuffer) },
	}
	if runtime.GOOS == "linux" { // other systems have different errors
		pairs["tcp"] = tcpPair
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			checkConns(t, pair)
		})
	}
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func checkConns(t *testing.T, pair func(t *testing.T) (a, b net.Conn)) {
	open := func() (a, b net.Conn) {
		a, b = pair(t)
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}
	buf := make([]byte, 100)
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	read := func(c net.Conn) error { _, err := c.Read(buf); return err }

	a, b := open()
	a.Write([]byte("hello"))
	n, err := io.ReadFull(b, buf[:5])
	if err != nil || string(buf[:n]) != "hello" {
		t.Errorf("read %q and %v", buf[:n], err)
	}
	b.SetReadDeadline(transport.Past())
	expect("read after the deadline", read(b), os.ErrDeadlineExceeded)
	b.SetReadDeadline(time.Time{})
	unblocked := make(chan error, 1)
	go func() { unblocked <- read(b) }()
	b.SetReadDeadline(transport.Past())
	expect("read cut off", <-unblocked, os.ErrDeadlineExceeded)
	b.SetReadDeadline(time.Now().Add(time.Millisecond))
	expect("read until the deadline", read(b), os.ErrDeadlineExceeded)

	go func() { unblocked <- writeAll(a) }()
	for range 3 {
		b.SetReadDeadline(time.Time{})
		io.ReadFull(b, buf)
	}
	a.SetWriteDeadline(transport.Past())
	expect("write to a peer that does not read", <-unblocked, os.ErrDeadlineExceeded)

	a, b = open()
	a.Write([]byte("last"))
	a.(interface{ CloseWrite() error }).CloseWrite()
	if rest, err := io.ReadAll(b); string(rest) != "last" || err != nil {
		t.Errorf("after a half-close read %q and %v", rest, err)
	}
	b.Write([]byte("answer"))
	b.Close()
	if rest, err := io.ReadAll(a); string(rest) != "answer" || err != nil {
		t.Errorf("after the answer read %q and %v", rest, err)
	}
	expect("read on a closed end", read(b), net.ErrClosed)

	a, b = open()
	a.(interface{ SetLinger(int) error }).SetLinger(0)
	a.Close()
	expect("read from a peer that reset", read(b), syscall.ECONNRESET)

	a, b = open()
	a.Write([]byte("unread"))
	io.ReadFull(b, buf[:1])
	b.Close()
	expect("read from a peer that closed with bytes unread", read(a), syscall.ECONNRESET)
}

// writeAll writes until it fails.
func writeAll(c net.Conn) error {
	p := make([]byte, 64<<10)
	for {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
}

// onGoroutines returns the engines that serve in-memory connections.
func onGoroutines() []Engine {
	return slices.DeleteFunc(All(), func(e Engine) bool { return e.style == events })
}
