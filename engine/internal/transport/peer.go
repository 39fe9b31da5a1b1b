package transport

import (
	"net"
	"net/netip"

	"github.com/hone-go/hone/internal/sys"
)

// IsSocket reports whether nc is a socket. It checks the exact type: a type that embeds a socket
// may read and write differently.
func IsSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// innermost returns the connection under layers such as TLS.
func innermost(nc net.Conn) net.Conn {
	for range 8 { // bounded, because a layer may wrap itself
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = outer.NetConn()
	}
	return nc
}

// AddrPort converts a, or returns zero if a has no port.
func AddrPort(a net.Addr) netip.AddrPort {
	if a, ok := a.(interface{ AddrPort() netip.AddrPort }); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// Credentials returns the process, user and group that connected a unix socket, also under TLS;
// otherwise all are -1.
func Credentials(nc net.Conn) (pid, uid, gid int, known bool) {
	pid, uid, gid = -1, -1, -1
	if socket, plain := innermost(nc).(*net.UnixConn); plain {
		if raw, err := socket.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { pid, uid, gid, known = sys.PeerCredentials(int(fd)) })
		}
	}
	return pid, uid, gid, known
}
