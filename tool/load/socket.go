package load

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// socket is a connection as the generator uses it: one goroutine waits for bytes
// in read, and at most one at a time writes. Where the system offers it, both go
// to the descriptor directly, which spares the scheduler's part of a system call.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn // nil: the connection's own calls only

	in      []byte // what readRaw fills
	got     int
	readErr error
	readRaw func(fd uintptr) bool // made once, so that no call allocates
	readNow func(fd uintptr)      // the same, for a reader

	out      []byte // what writeNow takes from
	sent     int
	writeErr error
	writeNow func(fd uintptr)
}

func newSocket(nc net.Conn) *socket {
	s := &socket{nc: nc}
	if !sys.Readiness {
		return s
	}
	var direct syscall.Conn
	switch nc := nc.(type) {
	case *net.TCPConn:
		direct = nc
	case *net.UnixConn:
		direct = nc
	default:
		return s // bytes of another layer: TLS, a pipe
	}
	raw, err := direct.SyscallConn()
	if err != nil {
		return s // closed already; the first read says so
	}
	s.raw = raw
	s.readNow = func(fd uintptr) { s.got, s.readErr = sys.Read(fd, s.in) }
	s.readRaw = func(fd uintptr) bool {
		s.readNow(fd)
		return !errors.Is(s.readErr, sys.ErrAgain)
	}
	s.writeNow = func(fd uintptr) { s.sent, s.writeErr = sys.Write(fd, s.out) }
	return s
}

// cut ends the stream for its reader, a goroutine that waits or a poll.
func (s *socket) cut() {
	// What fails here has ended already, which the reader finds.
	if half, ok := s.nc.(interface{ CloseRead() error }); ok {
		_ = half.CloseRead()
	}
	_ = s.nc.SetReadDeadline(time.Unix(1, 0))
}

// read waits for bytes and returns as many as there are. The end of the stream
// is io.EOF.
func (s *socket) read(p []byte) (int, error) {
	if s.raw == nil {
		n, err := s.nc.Read(p)
		if n > 0 {
			err = nil // TLS returns the last bytes with the end behind them, and the end again
		}
		return n, err
	}
	s.in = p
	if err := s.raw.Read(s.readRaw); err != nil {
		return 0, err
	}
	if errors.Is(s.readErr, sys.ErrClosed) {
		return 0, io.EOF
	}
	return s.got, s.readErr
}

// writesWithoutWaiting says whether tryWrite does.
func (s *socket) writesWithoutWaiting() bool { return s.raw != nil }

// tryWrite writes what the kernel takes at once. A short count is no error.
func (s *socket) tryWrite(p []byte) (int, error) {
	s.out = p
	// Control, not Write: nothing waits here, so Go's poller need not be readied.
	if err := s.raw.Control(s.writeNow); err != nil {
		return 0, err
	}
	if errors.Is(s.writeErr, sys.ErrAgain) {
		return s.sent, nil
	}
	return s.sent, s.writeErr
}
