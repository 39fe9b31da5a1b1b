package sys

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Take makes a Socket from a connection of package net, which the caller closes
// afterwards: the socket has a descriptor of its own, outside Go's poller and without its
// memory.
func Take(c syscall.Conn) (s Socket, err error) {
	err = control(c, func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		s = Socket(n)
		return os.NewSyscallError("fcntl", err)
	})
	if err != nil {
		s = NoSocket
	}
	return s, err
}

// control calls do with the descriptor of c.
func control(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if closed := raw.Control(func(fd uintptr) { err = do(int(fd)) }); closed != nil {
		return closed
	}
	return err
}

// CloseWrite shuts down the sending direction.
func (s Socket) CloseWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(int(s), unix.SHUT_WR))
}

// ResetOnClose makes Close discard unsent data and reset a TCP connection (SO_LINGER 0).
func (s Socket) ResetOnClose() {
	unix.SetsockoptLinger(int(s), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// LimitUnsent makes the kernel accept about n bytes beyond what the peer's window allows,
// instead of megabytes (TCP_NOTSENT_LOWAT). Sockets other than TCP have no such limit.
func LimitUnsent(fd uintptr, n int) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}

// LocalAddr returns the local address; zero for unix sockets and for NoSocket.
func (s Socket) LocalAddr() netip.AddrPort {
	name, err := syscall.Getsockname(int(s))
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(name)
}

// addrPort converts the name of a socket; zero if it has no port.
func addrPort(name syscall.Sockaddr) netip.AddrPort {
	switch a := name.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *syscall.SockaddrInet6:
		ip := netip.AddrFrom16(a.Addr).Unmap()
		if a.ZoneId != 0 {
			zone := strconv.Itoa(int(a.ZoneId)) // as package net where the interface has gone
			if link, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
				zone = link.Name
			}
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, uint16(a.Port))
	}
	return netip.AddrPort{}
}

// PeerCredentials returns who connected a unix socket; -1 three times where unknown. For
// other sockets the kernel returns plausible but meaningless numbers, so they are not
// asked.
func PeerCredentials(fd int) (pid, uid, gid int, known bool) {
	if family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || family != unix.AF_UNIX {
		return -1, -1, -1, false
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, -1, -1, false
	}
	return int(peer.Pid), int(peer.Uid), int(peer.Gid), true
}

// Close closes the descriptor, whatever it returns, and removes the socket from every
// Poll.
func (s Socket) Close() error {
	return os.NewSyscallError("close", unix.Close(int(s)))
}

// NetConn makes a net.Conn from a socket, and closes the socket.
func NetConn(s Socket) (net.Conn, error) {
	f := os.NewFile(uintptr(s), "connection")
	defer f.Close()
	return net.FileConn(f)
}
