package sys

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Acceptor accepts from a socket of package net what quickly follows a connection that the listener's
// own Accept has returned. That takes ten system calls less for each: Accept gives a connection to Go's
// poller first, and sets its options. But only Accept learns that the listener was closed, or has a
// deadline, so it is to be called again when Follow returns. The zero value is ready for use.
type Acceptor struct {
	listener syscall.RawConn // nil until Learn
	options  []option
	lacks    uint      // options that sockets do not get from the listener, as far as the last Follow has seen
	sure     bool      // the one before has seen the same
	last     time.Time // when Accept or Follow has returned
	quick    bool      // Accept has returned soon after that
}

// option is one that package net sets on TCP connections.
type option struct{ level, name, value int }

// followTime is how long Follow goes on, and so how late it may be noticed that the listener was closed.
const followTime = 20 * time.Millisecond

// Learn is told of a connection that ln.Accept has returned. The first one shows its options. The listener
// gets the same, because the kernel copies most of them to the sockets that it makes from then on.
func (a *Acceptor) Learn(ln net.Listener, nc net.Conn) {
	now := time.Now()
	a.quick, a.last = now.Sub(a.last) < followTime/2, now
	_, tcp := ln.(*net.TCPListener)
	_, local := ln.(*net.UnixListener)
	if a.listener != nil || !tcp && !local {
		return
	}
	err := error(nil)
	if tcp {
		a.options = []option{{level: unix.SOL_SOCKET, name: unix.SO_KEEPALIVE}}
		for _, name := range []int{unix.TCP_NODELAY, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT} {
			a.options = append(a.options, option{level: unix.IPPROTO_TCP, name: name})
		}
		err = control(nc.(syscall.Conn), func(fd int) (err error) {
			for i := 0; i < len(a.options) && err == nil; i++ {
				a.options[i].value, err = unix.GetsockoptInt(fd, a.options[i].level, a.options[i].name)
			}
			return err
		})
	}
	if listener, closed := ln.(syscall.Conn).SyscallConn(); err == nil && closed == nil {
		a.listener = listener
		listener.Control(func(fd uintptr) { a.complete(int(fd)) })
	}
}

// complete gives a socket the options that it lacks, and returns which.
func (a *Acceptor) complete(fd int) (lacks uint) {
	for i, o := range a.options {
		has := a.lacks>>i&1 == 0
		if !a.sure {
			value, err := unix.GetsockoptInt(fd, o.level, o.name)
			has = err == nil && value == o.value
		}
		if !has {
			lacks |= 1 << i
			unix.SetsockoptInt(fd, o.level, o.name, o.value)
		}
	}
	return lacks
}

// Follow passes on the connections that follow the one that Learn was told of.
func (a *Acceptor) Follow(next func(Socket, netip.AddrPort)) {
	if a.listener == nil || !a.quick {
		return
	}
	p, err := NewPoll(nil) // unlike a duplicate of the listener's descriptor it does not keep the port open
	if err != nil {
		return
	}
	defer p.Close()
	a.listener.Control(func(fd uintptr) { err = p.Add(Socket(fd), In, 0) })
	if err != nil || p.park() != nil {
		return
	}
	var fd int
	var from syscall.Sockaddr
	accept := func(ln uintptr) { fd, from, err = syscall.Accept4(int(ln), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC) }
	attempt := func(uintptr) bool {
		if closed := a.listener.Control(accept); closed != nil {
			err = closed
		}
		return err != syscall.EAGAIN
	}
	p.parked.SetReadDeadline(time.Now().Add(followTime))
	all, lacks := 0, uint(0)
	for ; p.raw.Read(attempt) == nil && err == nil; all++ {
		lacks |= a.complete(fd)
		next(Socket(fd), addrPort(from))
	}
	if a.last = time.Now(); all > 0 {
		a.sure, a.lacks = a.sure || lacks == a.lacks, lacks
	}
}
