package load

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// socket is a connection as the generator uses it: one goroutine blocks in read, and at most one
// at a time writes. Where the system allows it, both use the descriptor directly, which avoids the
// scheduler's cost of a system call.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn // nil: only the connection's own methods

	in      []byte // the buffer of readRaw
	got     int
	readErr error
	readRaw func(fd uintptr) bool // created once, so that no call allocates
	readNow func(fd uintptr)      // the same, for a shared reader

	out      []byte // the data of writeNow
	sent     int
	writeErr error
	writeNow func(fd uintptr)
}

func newSocket(nc net.Conn) *socket {
	s := &socket{nc: nc}
	if !sys.Readiness {
		return s
	}
	if s.raw = rawOf(nc); s.raw == nil {
		return s // the first read reports it if it is closed
	}
	s.readNow = func(fd uintptr) { s.got, s.readErr = sys.Read(fd, s.in) }
	s.readRaw = func(fd uintptr) bool {
		s.readNow(fd)
		return !errors.Is(s.readErr, sys.ErrAgain)
	}
	s.writeNow = func(fd uintptr) { s.sent, s.writeErr = sys.Write(fd, s.out) }
	return s
}

// rawOf returns the descriptor of a plain socket; nil for others (TLS, a pipe) and for a closed one.
func rawOf(nc net.Conn) syscall.RawConn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// cut ends the stream for its reader, whether a goroutine or a poller.
func (s *socket) cut() {
	// An error here means that the stream has ended already, which the reader notices.
	if half, ok := s.nc.(interface{ CloseRead() error }); ok {
		_ = half.CloseRead()
	}
	_ = s.nc.SetReadDeadline(time.Unix(1, 0))
}

// read blocks until there are bytes and returns as many as there are. The end of the stream is
// io.EOF.
func (s *socket) read(p []byte) (int, error) {
	if s.raw == nil {
		n, err := s.nc.Read(p)
		if n > 0 {
			err = nil // TLS returns the end together with the last bytes, and then again
		}
		return n, err
	}
	s.in = p
	return s.hasRead(s.raw.Read(s.readRaw))
}

// hasRead returns the outcome of readNow, unless err is why it was not called.
func (s *socket) hasRead(err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if errors.Is(s.readErr, sys.ErrClosed) {
		return 0, io.EOF
	}
	return s.got, s.readErr
}

// writesWithoutWaiting reports whether tryWrite never blocks.
func (s *socket) writesWithoutWaiting() bool { return s.raw != nil }

// tryWrite writes what the kernel accepts at once. A short count is not an error.
func (s *socket) tryWrite(p []byte) (int, error) {
	s.out = p
	// Control instead of Write: nothing blocks here, so Go's poller is not needed.
	if err := s.raw.Control(s.writeNow); err != nil {
		return 0, err
	}
	if errors.Is(s.writeErr, sys.ErrAgain) {
		return s.sent, nil
	}
	return s.sent, s.writeErr
}
