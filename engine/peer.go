package engine

import (
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// The peer's identity and addresses. None of it is stored: the socket is queried.

// LocalAddr returns the address to which the peer connected; behind a trusted proxy, that
// is the address to which the proxy connected. It returns the zero AddrPort for unix
// sockets and after the connection has ended. It costs a system call.
func (c Conn) LocalAddr() netip.AddrPort {
	var addr netip.AddrPort
	if nc := c.carrier(func(k connRef) { addr = k.sh.poll.LocalAddr(k.s.socket) }); nc != nil {
		addr = transport.AddrPort(nc.LocalAddr())
	}
	return addr
}

// TLS returns the state of the TLS handshake, with the peer's certificates: nil without
// TLS, and after the connection has ended. It is available from OnOpen on; every call
// allocates a new copy.
func (c Conn) TLS() *tls.ConnectionState {
	var nc net.Conn
	if other := c.carrier(func(k connRef) {
		if k.s.facets.has(isShaken) {
			nc = k.layer().NetConn()
		}
	}); other != nil {
		nc = other
	}
	secured, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := secured.ConnectionState()
	return &state
}

// Credentials returns the process, user and group that connected a unix socket, also
// under TLS. The process may have ended since, and its number may have been reused. They
// are available on Linux while the connection is open. Otherwise all are -1, which is
// nobody: 0 would be root. It costs two system calls.
func (c Conn) Credentials() (pid, uid, gid int, known bool) {
	pid, uid, gid = -1, -1, -1
	if nc := c.carrier(func(k connRef) { pid, uid, gid, known = sys.PeerCredentials(int(k.s.socket)) }); nc != nil {
		return transport.Credentials(nc)
	}
	return pid, uid, gid, known
}

// carrier returns the connection's net.Conn, to be used without the mutex because it may be
// user code; or nil, after it has called do with it, with the mutex held. It does
// neither after the connection has ended.
func (c Conn) carrier(do func(k connRef)) net.Conn {
	k, ok := c.lock()
	if !ok {
		return nil
	}
	defer k.s.mu.Unlock()
	if l := k.link(); l.Stream != nil {
		return l.Stream.Conn
	}
	if x := k.x.Load(); x != nil && x.rare != nil && x.rare.given != nil {
		return x.rare.given
	}
	do(k)
	return nil
}

// six returns where the connection's IPv6 address is stored.
func (k held) six() *[16]byte {
	side, i := k.side()
	return entry(&side.sixes, i)
}

// setAddr sets the peer's address.
func (k held) setAddr(a netip.AddrPort) {
	s := k.s
	s.marks.clear(hasFour | hasSix)
	s.port = a.Port()
	switch ip := a.Addr(); {
	case ip.Is4():
		s.marks.set(hasFour)
		s.address = ip.As4()
	case ip.Is6():
		s.marks.set(hasSix)
		*k.six() = ip.As16()
	}
	if zone := a.Addr().Zone(); zone != "" {
		k.attach().rarely().zone = zone
	} else if x := k.x.Load(); x != nil && x.rare != nil {
		x.rare.zone = ""
	}
}

// addr returns the peer's address.
func (k held) addr() netip.AddrPort {
	switch s := k.s; {
	case s.marks.has(hasFour):
		return netip.AddrPortFrom(netip.AddrFrom4(s.address), s.port)
	case s.marks.has(hasSix):
		ip := netip.AddrFrom16(*k.six())
		if x := k.x.Load(); x != nil && x.rare != nil {
			ip = ip.WithZone(x.rare.zone)
		}
		return netip.AddrPortFrom(ip, s.port)
	}
	return netip.AddrPort{}
}

// RemoteAddr returns the peer's address, from the PROXY header when a trusted proxy sent
// one; it returns the zero AddrPort for unix sockets.
func (c Conn) RemoteAddr() netip.AddrPort {
	k, ok := c.lock()
	if !ok {
		return netip.AddrPort{}
	}
	defer k.s.mu.Unlock()
	return k.held().addr()
}
