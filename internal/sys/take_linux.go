package sys

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Take makes a Socket from a connection of package net, which the caller closes
// afterwards: the socket has a descriptor of its own, outside Go's poller and without its
// memory.
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
