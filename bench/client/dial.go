package client

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// dialTime is how long a connection may take to open, and a call that waits to read.
const dialTime = 5 * time.Second

// parseAddr takes a loopback address: what is measured is this machine.
func parseAddr(text string) (syscall.Sockaddr, error) {
	a, err := netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: %w", err)
	case !a.Addr().IsLoopback():
		return nil, fmt.Errorf("client: %v is not an address of this machine alone, as 127.0.0.1 is", a)
	case a.Addr().Is4():
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	return &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, nil
}

// dial returns a connected socket. It is a blocking one, but once a load runs every call on it says
// that it must not block.
func dial(to syscall.Sockaddr) (fd int, err error) {
	family := syscall.AF_INET
	if _, ok := to.(*syscall.SockaddrInet6); ok {
		family = syscall.AF_INET6
	}
	if fd, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	limit := syscall.NsecToTimeval(int64(dialTime))
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit))
	if err == nil {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit))
	}
	if err == nil {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
	}
	if err == nil {
		err = os.NewSyscallError("connect", connect(fd, to))
	}
	if err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connect repeats a call that a signal has interrupted: a socket with a time-out is
// not resumed by the kernel, and a repeated connect waits for the first.
func connect(fd int, to syscall.Sockaddr) error {
	for range 1000 {
		if err := syscall.Connect(fd, to); err != syscall.EINTR {
			return err
		}
	}
	return syscall.EINTR
}
