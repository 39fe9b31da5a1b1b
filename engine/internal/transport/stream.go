package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Stream is the net.Conn of a goroutine engine's connection. Its owner reads and closes it. The
// connection's mutex guards the other methods, except for Settle.
type Stream struct {
	Conn   net.Conn
	Raw    syscall.RawConn // nil unless Conn is a plain socket
	now    *writer         // nil until first used
	late   *deadlines      // of an adapter; nil: deadlines are set at once
	owned  *sync.WaitGroup // of the goroutines that set them
	nudged bool            // the read deadline is set, to wake the owner
	resets bool            // it ends with a reset
}

// StreamOf returns the stream of an accepted connection. Its goroutines count in owned.
func StreamOf(nc net.Conn, owned *sync.WaitGroup) Stream {
	s := Stream{Conn: nc, Raw: rawConn(nc), owned: owned}
	if isAdapter(nc) {
		s.late = &deadlines{nc: nc}
	}
	return s
}

// readBy sets the deadline of reads, or with all that of reads and writes. The owner calls Settle
// before it reads; for anyone else it takes effect soon.
func (s *Stream) readBy(at time.Time, all bool) {
	switch {
	case s.late != nil:
		s.late.want(at, all)
	case all:
		s.Conn.SetDeadline(at)
	default:
		s.Conn.SetReadDeadline(at)
	}
}

// wake has the deadlines take effect for a caller who is not the owner.
func (s *Stream) wake() {
	if s.late != nil {
		s.owned.Go(s.late.set)
	}
}

// Settle has the deadlines take effect. The owner calls it without the connection's mutex.
func (s *Stream) Settle() {
	if s.late != nil {
		s.late.set()
	}
}

// rawConn returns access to the descriptor of a plain socket, where the system supports it.
func rawConn(nc net.Conn) syscall.RawConn {
	if !sys.Readiness || !IsSocket(nc) {
		return nil
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

func (s *Stream) control(do func(fd uintptr)) bool {
	raw := s.Raw
	if raw == nil {
		raw = rawConn(innermost(s.Conn))
	}
	return raw != nil && raw.Control(do) == nil
}

// Read reads once. When the end of the input comes together with the last bytes, as from TLS, it
// returns the bytes first and leaves the end to the next read, which reports it again.
func (s *Stream) Read(p []byte) (n int, err error) {
	n, err = s.Conn.Read(p)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// writer writes without blocking, through RawConn. Its closure is allocated once, so that a late
// reply allocates nothing.
type writer struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// WriteNow writes what a plain socket accepts at once.
func (s *Stream) WriteNow(p []byte) (int, error) {
	w := s.now
	if w == nil {
		w = &writer{}
		w.try = func(fd uintptr) bool {
			w.n, w.err = sys.Write(fd, w.p)
			return true
		}
		s.now = w
	}
	w.p, w.n = p, 0
	err := s.Raw.Write(w.try)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// Nudge ends the owner's read, so that it checks its connection.
func (s *Stream) Nudge() {
	if !s.nudged {
		s.nudged = true
		s.readBy(Past(), false)
		s.wake()
	}
}

// IsNudged reports whether a read of the owner ends at once, or soon.
func (s *Stream) IsNudged() bool { return s.nudged }

// drainTime is enough to read what has arrived.
const drainTime = 5 * time.Millisecond

// ReadArrived makes the owner's next read end soon, also if nothing has arrived. Settle follows.
func (s *Stream) ReadArrived() {
	s.nudged = true
	s.readBy(time.Now().Add(drainTime), false)
}

// ClearNudge lets the owner read again without a deadline. Settle follows.
func (s *Stream) ClearNudge() {
	if s.nudged {
		s.nudged = false
		s.readBy(time.Time{}, false)
	}
}

// Lend clears the deadline of a nudge before the connection is lent. Settle follows.
func (s *Stream) Lend() { s.readBy(time.Time{}, false) }

// Recover clears all deadlines after a loan. Settle follows.
func (s *Stream) Recover() {
	s.nudged = false
	s.readBy(time.Time{}, true)
}

// Expire ends all reads and writes of whoever was lent the connection.
func (s *Stream) Expire() {
	s.readBy(Past(), true)
	s.wake()
}

// cutOff ends all reads and writes of the socket; hard also drops what the kernel has not sent.
func (s *Stream) cutOff(hard bool) {
	s.nudged, s.resets = true, s.resets || hard
	if socket, ok := innermost(s.Conn).(interface{ SetLinger(int) error }); ok && hard {
		socket.SetLinger(0)
	}
	s.Expire()
}

// Resets reports whether there is a stream, and it must end with a reset.
func (s *Stream) Resets() bool { return s != nil && s.resets }

// Close closes it, if there is one. It may block, because TLS sends a close_notify: do not hold a
// mutex.
func (s *Stream) Close(reset bool) {
	if s == nil {
		return
	}
	if reset {
		innermost(s.Conn).Close() // first: a close_notify could look like the end of a reply
	}
	s.Conn.Close()
}

// GiveAway returns the net.Conn, which the stream cannot use any more. The caller sets its deadlines
// with done, without the connection's mutex.
func (s *Stream) GiveAway() (nc net.Conn, done func()) {
	s.ClearNudge()
	nc = s.Conn
	s.Conn = AddressesOnly(nc.LocalAddr(), nc.RemoteAddr())
	if done = func() {}; s.late != nil {
		done, s.late = s.late.set, nil // nothing is wanted from here on
	}
	return nc, done
}

// AddressesOnly stands in for a socket of which nothing but the addresses may be used.
func AddressesOnly(local, remote net.Addr) net.Conn { return givenAway{local, remote} }

type givenAway struct{ local, remote net.Addr }

func (a givenAway) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (a givenAway) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (a givenAway) Close() error                     { return nil }
func (a givenAway) LocalAddr() net.Addr              { return a.local }
func (a givenAway) RemoteAddr() net.Addr             { return a.remote }
func (a givenAway) SetDeadline(time.Time) error      { return net.ErrClosed }
func (a givenAway) SetReadDeadline(time.Time) error  { return net.ErrClosed }
func (a givenAway) SetWriteDeadline(time.Time) error { return net.ErrClosed }

// Past is a deadline that has passed.
func Past() time.Time { return time.Unix(1, 0) }

// TimedOut reports whether a deadline has ended a read.
func TimedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
