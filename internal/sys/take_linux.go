package sys

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Take makes a Socket of a connection of package net, which is to be closed then:
// the socket has a descriptor of its own, without a place in Go's poller and
// without the memory behind it.
func Take(c syscall.Conn) (Socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return NoSocket, err
	}
	s := NoSocket
	closed := raw.Control(func(fd uintptr) {
		var n int
		n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		s = Socket(n)
	})
	if closed != nil {
		return NoSocket, closed
	}
	if err != nil {
		return NoSocket, os.NewSyscallError("fcntl", err)
	}
	return s, nil
}
