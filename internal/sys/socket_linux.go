package sys

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

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
	name, err := unix.Getsockname(int(s))
	if err != nil {
		return netip.AddrPort{}
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(a.Addr).Unmap()
		if link, err := net.InterfaceByIndex(int(a.ZoneId)); a.ZoneId != 0 && err == nil {
			ip = ip.WithZone(link.Name)
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
