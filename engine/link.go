package engine

import (
	"net"

	"github.com/hone-go/hone/internal/sys"
)

// link is the transport of a connection: the socket of an event loop's connection, or what a
// goroutine engine's reads and writes.
type link struct {
	socket sys.Socket
	g      *goroutineConn // nil: it is the socket
}

// link returns the connection's transport, to its owner or to whoever holds its mutex.
func (k *connRef) link() link {
	if x := k.x.Load(); x != nil && x.g != nil {
		return link{g: x.g}
	}
	return link{socket: k.s.socket}
}

// isPlain reports whether it is a plain socket.
func (l link) isPlain() bool { return l.g == nil || l.g.raw != nil }

// control calls do with the descriptor of the socket, also under layers such as TLS, and
// reports whether there is one that the system gives access to.
func (l link) control(do func(fd uintptr)) bool {
	if l.g != nil {
		return l.g.control(do)
	}
	do(uintptr(l.socket))
	return true
}

// limitUnsent sets the limit of what the kernel may buffer beyond the peer's window.
func (l link) limitUnsent(n int) {
	if l.g == nil {
		sys.LimitUnsent(uintptr(l.socket), n)
		return
	}
	if _, tcp := innermost(l.g.nc).(*net.TCPConn); tcp {
		l.g.control(func(fd uintptr) { sys.LimitUnsent(fd, n) })
	}
}

// unsent returns how many bytes the kernel still holds for the peer, as far as it reports
// them.
func (l link) unsent() uint32 {
	if l.g == nil {
		return uint32(l.socket.Unsent())
	}
	n := 0
	if l.g.raw != nil {
		l.g.raw.Control(func(fd uintptr) { n = sys.Unsent(fd) })
	}
	return uint32(n)
}

// isReceived reports whether the peer's kernel has acknowledged everything that was sent, or
// never will.
func (l link) isReceived() (done bool) {
	if !l.control(func(fd uintptr) { done = sys.Unsent(fd) == 0 || sys.Broken(fd) }) {
		return true
	}
	return done
}

// hungUp reports whether the peer has closed its side or broken the connection.
func (l link) hungUp() (left bool) {
	if l.g == nil {
		return l.socket != sys.NoSocket && sys.HungUp(uintptr(l.socket))
	}
	l.g.control(func(fd uintptr) { left = sys.HungUp(fd) })
	return left
}

// unread returns the number of unread bytes: what the kernel reports, or a guess without a
// plain socket.
func (l link) unread() int {
	if l.g != nil {
		return l.g.unreadBytes()
	}
	return l.socket.Unread()
}

// closeWrite shuts down the sending direction and reports whether that was possible.
func (l link) closeWrite() bool {
	if l.g == nil {
		return l.socket.CloseWrite() == nil
	}
	half, ok := l.g.nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// cutOff ends all reads and writes of a goroutine engine's connection. If hard is set, what the
// kernel has not sent is dropped.
func (l link) cutOff(hard bool) {
	switch {
	case l.g != nil:
		l.g.interrupt(hard)
	case hard:
		l.socket.ResetOnClose()
	}
}
