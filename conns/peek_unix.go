//go:build unix && !aix

package conns

import (
	"errors"
	"io"
	"syscall"
)

var errUnread = errors.New("conns: unread bytes")

// peek checks a socket's receive buffer without a round trip and without blocking. It
// returns nil for connections other than sockets.
func peek(conn any) error {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var received error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, received = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	switch {
	case err != nil:
		return err // closed, or its deadline has passed
	case received == syscall.EAGAIN || received == syscall.EINTR || received == syscall.ENOTSOCK:
		return nil
	case received != nil:
		return received
	case n == 0:
		return io.EOF
	}
	return errUnread
}
