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
	k, nc, ok := c.carrier()
	if !ok {
		return netip.AddrPort{}
	}
	if nc != nil {
		return transport.AddrPort(nc.LocalAddr())
	}
	defer k.s.mu.Unlock()
	return k.s.socket.LocalAddr()
}

// TLS returns the state of the TLS handshake, with the peer's certificates: nil without
// TLS, and after the connection has ended. It is available from OnOpen on; every call
// allocates a new copy.
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

// Credentials returns the process, user and group that connected a unix socket, also
// under TLS. The process may have ended since, and its number may have been reused. They
// are available on Linux while the connection is open. Otherwise all are -1, which is
// nobody: 0 would be root. It costs two system calls.
func (c Conn) Credentials() (pid, uid, gid int, known bool) {
	k, nc, ok := c.carrier()
	if !ok {
		return -1, -1, -1, false
	}
	if nc == nil {
		defer k.s.mu.Unlock()
		return sys.PeerCredentials(int(k.s.socket))
	}
	return transport.Credentials(nc)
}

// carrier finds the transport of the connection: a net.Conn, to be used without the mutex
// because it may be user code; or, where that is nil, the slot's socket, with the mutex
// held.
func (c Conn) carrier() (k connRef, nc net.Conn, ok bool) {
	k, ok = c.lock()
	if !ok {
		return k, nil, false
	}
	if x := k.x.Load(); x != nil {
		switch {
		case x.g != nil:
			nc = x.g.Conn
		case x.rare != nil:
			nc = x.rare.given
		}
	}
	if nc != nil {
		k.s.mu.Unlock()
	}
	return k, nc, true
}
