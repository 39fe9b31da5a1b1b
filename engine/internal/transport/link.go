// Package transport is what connections read from and write to: the sockets of event loops, and
// the streams of goroutine engines.
package transport

import (
	"net"

	"github.com/hone-go/hone/internal/sys"
)

// Link is the transport of a connection.
type Link struct {
	Poll   *sys.Poll // the socket's
	Socket sys.Socket
	Stream *Stream // nil: it is the socket
}

// IsPlain reports whether it is a plain socket.
func (l Link) IsPlain() bool { return l.Stream == nil || l.Stream.Raw != nil }

// Control calls do with the descriptor of the socket, also under layers such as TLS, and reports
// whether there is one that the system gives access to.
func (l Link) Control(do func(fd uintptr)) bool {
	if l.Stream != nil {
		return l.Stream.control(do)
	}
	if l.Socket < sys.NoSocket {
		return false
	}
	do(uintptr(l.Socket))
	return true
}

// LimitUnsent sets the limit of what the kernel may buffer beyond the peer's window.
func (l Link) LimitUnsent(n int) {
	if l.Stream == nil {
		l.Control(func(fd uintptr) { sys.LimitUnsent(fd, n) })
		return
	}
	if _, tcp := innermost(l.Stream.Conn).(*net.TCPConn); tcp {
		l.Stream.control(func(fd uintptr) { sys.LimitUnsent(fd, n) })
	}
}

// Unsent returns how many bytes the kernel still holds for the peer, as far as it reports them.
func (l Link) Unsent() uint32 {
	if l.Stream == nil {
		return uint32(l.Poll.Unsent(l.Socket))
	}
	n := 0
	if l.Stream.Raw != nil {
		l.Stream.Raw.Control(func(fd uintptr) { n = sys.Unsent(fd) })
	}
	return uint32(n)
}

// IsReceived reports whether the peer's kernel has acknowledged everything that was sent, or
// never will.
func (l Link) IsReceived() (done bool) {
	if l.Stream == nil {
		return l.Poll.IsReceived(l.Socket)
	}
	return !l.Control(func(fd uintptr) { done = sys.Unsent(fd) == 0 || sys.Broken(fd) }) || done
}

// HungUp reports whether the peer has closed its side or broken the connection.
func (l Link) HungUp() (left bool) {
	if l.Stream == nil {
		return l.Poll.PeerLeft(l.Socket)
	}
	l.Control(func(fd uintptr) { left = sys.HungUp(fd) })
	return left
}

// unreadGuess is what a drain reads of a stream whose unread bytes are unknown.
const unreadGuess = 64 << 10

// Unread returns the number of unread bytes: what the kernel reports, or a guess without a plain
// socket.
func (l Link) Unread() int {
	switch {
	case l.Stream == nil:
		return l.Poll.Unread(l.Socket)
	case l.Stream.Raw == nil:
		return unreadGuess
	}
	n := 0
	l.Stream.Raw.Control(func(fd uintptr) { n = sys.Unread(fd) })
	return n
}

// HasUnread reports whether there are unread bytes, as far as the kernel reports them.
func (l Link) HasUnread() bool { return l.IsPlain() && l.Unread() > 0 }

// What a peer may still send after CloseWrite, so that a reset does not destroy the last replies.
const (
	LingerBytes = 1 << 20 // bounds it
	LingerRead  = 256     // small, because there may be many of them
)

// CloseWrite shuts down the sending direction and reports whether that was possible. A stream may
// block: do not hold a mutex.
func (l Link) CloseWrite() bool {
	if l.Stream == nil {
		return l.Poll.CloseWrite(l.Socket) == nil
	}
	half, ok := l.Stream.Conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// CutOff ends all reads and writes of a stream. If hard is set, what the kernel has not sent is
// dropped.
func (l Link) CutOff(hard bool) {
	switch {
	case l.Stream != nil:
		l.Stream.cutOff(hard)
	case hard:
		l.Poll.ResetOnClose(l.Socket)
	}
}
