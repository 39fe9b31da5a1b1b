package handover

import (
	"cmp"
	"errors"
	"net"
	"os"
	"syscall"
)

// pass sends the descriptor of a listener: one in each message, which may have 253.
func pass(to *net.UnixConn, ln net.Listener) error {
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	closed := raw.Control(func(fd uintptr) {
		_, _, err = to.WriteMsgUnix([]byte(" "), syscall.UnixRights(int(fd)), nil)
	})
	return cmp.Or(closed, err)
}

// Read reads a part of a message, and keeps the listeners that come with it.
func (s *source) Read(b []byte) (int, error) {
	control := make([]byte, syscall.CmsgSpace(4))
	n, controlled, flags, _, err := s.ReadMsgUnix(b, control) // which sets CLOEXEC
	if flags&syscall.MSG_CTRUNC != 0 {
		err = errors.New("descriptors are missing; raise their limit (ulimit -n)")
	}
	parts, _ := syscall.ParseSocketControlMessage(control[:controlled])
	for _, part := range parts {
		fds, _ := syscall.ParseUnixRights(&part)
		for _, fd := range fds {
			file := os.NewFile(uintptr(fd), "socket")
			if listens, _ := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); listens != 1 {
				err = errors.New("a descriptor is not a listening socket")
			} else if ln, unfit := net.FileListener(file); unfit != nil {
				err = unfit
			} else {
				s.passed = append(s.passed, ln)
			}
			file.Close()
		}
	}
	return max(n, 0), err
}
