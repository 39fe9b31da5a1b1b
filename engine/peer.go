package engine

import (
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/hone-go/hone/internal/sys"
)

// Who is at the other end, and how it came here. Nothing of this is kept with a
// connection: the socket is asked.

// LocalAddr is the address that the peer has connected to: a trusted proxy's peer, if
// there is one, has connected elsewhere. It is the zero AddrPort for unix sockets and
// when the connection has ended. It takes a system call.
func (c Conn) LocalAddr() netip.AddrPort {
	k, nc, ok := c.carrier()
	if !ok {
		return netip.AddrPort{}
	}
	if nc != nil {
		return addrPort(nc.LocalAddr())
	}
	defer k.s.mu.Unlock()
	return k.s.socket.LocalAddr()
}

// TLS is what the handshake has agreed on, with the peer's certificates: nil without
// TLS, and when the connection has ended. It is there from OnOpen on, made anew by every
// call.
func (c Conn) TLS() *tls.ConnectionState {
	k, nc, ok := c.carrier()
	if !ok {
		return nil
	}
	if nc == nil {
		k.s.mu.Unlock()
	}
	secured, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := secured.ConnectionState()
	return &state
}

// Credentials says which process, of which user and group, has connected a unix
// socket, behind TLS too. The process may have ended since, and its number may be
// another's. They are known on Linux, while the connection lasts. Where they are not,
// all are -1, which is nobody: 0 would be root. It takes two system calls.
func (c Conn) Credentials() (pid, uid, gid int, known bool) {
	k, nc, ok := c.carrier()
	if !ok {
		return -1, -1, -1, false
	}
	if nc == nil {
		defer k.s.mu.Unlock()
		return sys.PeerCredentials(int(k.s.socket))
	}
	pid, uid, gid = -1, -1, -1
	if socket, plain := innermost(nc).(*net.UnixConn); plain {
		if raw, err := socket.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { pid, uid, gid, known = sys.PeerCredentials(int(fd)) })
		}
	}
	return pid, uid, gid, known
}

// innermost is the connection under layers such as TLS.
func innermost(nc net.Conn) net.Conn {
	for range 8 { // a layer may be its own
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = outer.NetConn()
	}
	return nc
}

// carrier finds what carries the connection's bytes: a net.Conn, to be asked without
// the mutex because it may be anybody's; or, where that is nil, the slot's socket, with
// the mutex held.
func (c Conn) carrier() (k connRef, nc net.Conn, ok bool) {
	k, ok = c.lock()
	if !ok {
		return k, nil, false
	}
	if x := k.x.Load(); x != nil {
		switch {
		case x.g != nil:
			nc = x.g.nc
		case x.rare != nil:
			nc = x.rare.given
		}
	}
	if nc != nil {
		k.s.mu.Unlock()
	}
	return k, nc, true
}
