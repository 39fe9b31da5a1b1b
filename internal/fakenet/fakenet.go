// Package fakenet is a network in memory, for tests in fake time: its connections behave like those of
// TCP, and the Events engine serves them on its loops. Only tests import it.
package fakenet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Buffer is what a direction of a connection holds by default.
const Buffer = 64 << 10

// stream is one direction of a connection: a bounded buffer.
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
	watchers []func() // called without mu after each change
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

// change modifies the stream, and wakes its waiters.
func (s *stream) change(do func()) {
	s.mu.Lock()
	do()
	s.tell()
}

// tell wakes the waiters after a change. It unlocks.
func (s *stream) tell() {
	s.changed.Broadcast()
	watchers := s.watchers
	s.mu.Unlock()
	for _, changed := range watchers {
		changed()
	}
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

// read waits for bytes, unless now is set: then it returns sys.ErrAgain.
func (s *stream) read(p []byte, now bool) (n int, err error) {
	s.mu.Lock()
	for {
		switch {
		case s.left:
			err = net.ErrClosed
		case s.readBy.passed && !now:
			err = os.ErrDeadlineExceeded
		case len(p) == 0:
		case len(s.data) > 0:
			n = copy(p, s.data)
			s.data = s.data[:copy(s.data, s.data[n:])]
			s.tell()
			return n, nil
		case s.reset:
			err = syscall.ECONNRESET
		case s.finished:
			err = io.EOF
		case now:
			err = sys.ErrAgain
		default:
			s.changed.Wait()
			continue
		}
		s.mu.Unlock()
		return 0, err
	}
}

// write waits until all is written, unless now is set: then a short count comes with sys.ErrAgain.
func (s *stream) write(p []byte, now bool) (n int, err error) {
	s.mu.Lock()
	for {
		switch free := min(s.limit-len(s.data), len(p)-n); {
		case s.finished:
			err = net.ErrClosed
		case s.writeBy.passed && !now:
			err = os.ErrDeadlineExceeded
		case s.reset || s.left:
			err = syscall.EPIPE
		case n == len(p):
		case free > 0:
			s.data = append(s.data, p[n:n+free]...)
			n += free
			s.changed.Broadcast()
			continue
		case now:
			err = sys.ErrAgain
		default:
			s.mu.Unlock() // watchers learn of what there is before this one waits
			s.change(func() {})
			s.mu.Lock()
			if s.limit == len(s.data) && !s.finished && !s.left && !s.reset && !s.writeBy.passed {
				s.changed.Wait()
			}
			continue
		}
		s.tell()
		return n, err
	}
}

// Conn is one end of a connection. As with TCP, closing it with unread bytes, or after SetLinger(0),
// resets it, and so does writing to a closed end.
type Conn struct {
	in, out *stream
	local   net.Addr
	remote  net.Addr
	once    sync.Once
	hard    bool      // guarded by out.mu
	fault   sys.Fault // of reads and writes as an End; nil: none
}

// Pair returns both ends of a connection that holds limit bytes in each direction.
func Pair(limit int) (a, b *Conn) {
	return pair(limit, 2)
}

// pair is Pair for the dialler's port.
func pair(limit, port int) (a, b *Conn) {
	there, back := newStream(limit), newStream(limit)
	from, to := address(port), address(1)
	return &Conn{in: back, out: there, local: from, remote: to}, &Conn{in: there, out: back, local: to, remote: from}
}

// address is one of this machine that nothing listens on.
func address(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p, false) }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.written(c.out.write(p, false)) }

// written breaks the connection when it could not be written to.
func (c *Conn) written(n int, err error) (int, error) {
	if err == syscall.EPIPE {
		c.in.change(func() { c.in.reset = true })
	}
	return n, err
}

// CloseWrite ends the direction in which this end writes.
func (c *Conn) CloseWrite() error {
	c.out.change(func() { c.out.finished = true })
	return nil
}

// SetLinger makes Close reset the connection, if seconds is 0.
func (c *Conn) SetLinger(seconds int) error {
	c.out.change(func() { c.hard = seconds == 0 })
	return nil
}

// Close closes this end.
func (c *Conn) Close() error {
	c.once.Do(func() {
		unread := false
		c.in.change(func() { unread, c.in.left, c.in.data = len(c.in.data) > 0, true, nil })
		c.out.change(func() {
			c.out.finished = true
			if unread || c.hard {
				c.out.reset, c.out.data = true, c.out.data[:min(len(c.out.data), c.out.limit/2)] // what the peer's kernel has
			}
		})
		c.SetDeadline(time.Time{})
	})
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setAlarm(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setAlarm(&c.out.writeBy, t)
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Unread returns how many bytes have arrived at this end and are not read.
func (c *Conn) Unread() int {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return len(c.in.data)
}

// Await waits until a Read would not wait.
func (c *Conn) Await() {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) == 0 && !s.finished && !s.reset && !s.left {
		s.changed.Wait()
	}
}
