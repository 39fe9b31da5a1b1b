//go:build linux

package streams

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// visitors are clients that send one request each and wait for its answer to begin. The
// calling goroutine serves all of them, with sockets of its own and few system calls, so
// that a server is measured and not its clients.
type visitors struct {
	t       *testing.T
	to      syscall.SockaddrInet4
	request []byte
	want    []byte // is looked for in the answer; nil: they never read
	leave   bool   // as soon as the answer has come
	epoll   int
	all     []visitor
	waiting int // for an answer
	events  [256]syscall.EpollEvent
	in      [4096]byte
}

// visitor is one of them.
type visitor struct {
	fd     int // -1 when it has left
	unsent bool
	read   []byte // without what is looked for
	came   time.Time
	took   time.Duration // until the answer; 0: there is none yet
}

// waited is how long it waited for its answer, or has until now.
func (one *visitor) waited() time.Duration {
	if one.took == 0 {
		return time.Since(one.came)
	}
	return one.took
}

const unread = 2048 // bytes of those that never read: what the kernel takes at least

func newVisitors(t *testing.T, addr, request, want string) *visitors {
	t.Helper()
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitors{t: t, to: syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}, request: []byte(request), want: []byte(want)}
	if v.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		t.Fatal(os.NewSyscallError("epoll_create1", err))
	}
	t.Cleanup(func() {
		v.clear()
		syscall.Close(v.epoll)
	})
	return v
}

// arrive has one more connect and ask.
func (v *visitors) arrive() {
	one := visitor{came: time.Now()}
	var err error
	if one.fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0); err != nil {
		v.t.Fatal(os.NewSyscallError("socket", err))
	}
	v.all = append(v.all, one)
	if len(v.want) == 0 {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(one.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, unread))
	}
	if err == nil {
		if err = syscall.Connect(one.fd, &v.to); err == syscall.EINPROGRESS {
			err = nil
		}
	}
	if err == nil {
		err = v.ask(&v.all[len(v.all)-1])
	}
	if err == nil {
		v.waiting++
		const edgeTriggered = syscall.EPOLLET & (1<<32 - 1) // without the sign that it has in package syscall
		ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | edgeTriggered, Fd: int32(len(v.all) - 1)}
		err = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(v.epoll, syscall.EPOLL_CTL_ADD, one.fd, &ev))
	}
	if err != nil {
		v.t.Fatalf("visitor %d: %v", len(v.all), err)
	}
}

// arriveWithin has n more arrive, evenly within some time.
func (v *visitors) arriveWithin(n int, within time.Duration) {
	began := time.Now()
	for i := range n {
		due := began.Add(within * time.Duration(i) / time.Duration(n))
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			v.serve(max(wait, time.Millisecond))
		}
		v.arrive()
		if i%64 == 0 {
			v.serve(0)
		}
	}
}

// ask sends the request, if the connection is there already: on this machine it mostly is.
func (v *visitors) ask(one *visitor) error {
	n, err := syscall.Write(one.fd, v.request)
	switch one.unsent = err == syscall.EAGAIN; {
	case one.unsent:
		return nil
	case err != nil:
		return os.NewSyscallError("write", err)
	case n < len(v.request):
		return errors.New("the socket does not take a whole request")
	}
	return nil
}

// serve does what there is to do, and waits for something at most that long.
func (v *visitors) serve(wait time.Duration) {
	n, err := syscall.EpollWait(v.epoll, v.events[:], int(max(0, wait).Milliseconds()))
	if err != nil && err != syscall.EINTR {
		v.t.Fatal(os.NewSyscallError("epoll_wait", err))
	}
	now := time.Now()
	for _, ev := range v.events[:max(0, n)] {
		one := &v.all[ev.Fd]
		if one.fd < 0 {
			continue
		}
		var err error
		if one.unsent {
			err = v.ask(one)
		}
		if err == nil && len(v.want) > 0 {
			err = v.read(one, now)
		}
		if err != nil {
			v.t.Fatalf("visitor %d, after %v: %v", ev.Fd+1, now.Sub(one.came), err)
		}
	}
}

// read reads once, and looks for what is wanted.
func (v *visitors) read(one *visitor, now time.Time) error {
	n, err := syscall.Read(one.fd, v.in[:])
	switch {
	case err == syscall.EAGAIN:
		return nil
	case err != nil:
		return os.NewSyscallError("read", err)
	case n == 0:
		return fmt.Errorf("the server closed the connection after %q", one.read)
	case one.took > 0:
		return fmt.Errorf("the server sends %q, too", v.in[:n])
	}
	got := v.in[:n]
	if one.read != nil {
		got = append(one.read, got...)
	}
	if !bytes.Contains(got, v.want) {
		one.read = bytes.Clone(got)
		return nil
	}
	one.took = now.Sub(one.came)
	v.waiting--
	if v.leave {
		one.close()
	}
	return nil
}

// close resets the connection, so that thousands of them do not use up the ports.
func (one *visitor) close() {
	if one.fd < 0 {
		return
	}
	syscall.SetsockoptLinger(one.fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	syscall.Close(one.fd)
	one.fd = -1
}

// clear has all of them leave, and forgets them.
func (v *visitors) clear() {
	for i := range v.all {
		v.all[i].close()
	}
	v.all, v.waiting = nil, 0
}
