package sys

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Polls reports that Poll and Take work on this system.
const Polls = true

// Ready is one event reported by a Poll.
type Ready struct{ event unix.EpollEvent }

// Key returns the key that the socket was added with, or WakeKey.
func (r *Ready) Key() uint64 { return uint64(uint32(r.event.Fd)) | uint64(uint32(r.event.Pad))<<32 }

func newReady(key uint64, in, out, broken, hungUp bool) Ready {
	event := unix.EpollEvent{Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	for flag, is := range map[uint32]bool{unix.EPOLLIN: in, unix.EPOLLOUT: out, unix.EPOLLERR: broken, unix.EPOLLHUP: hungUp} {
		if is {
			event.Events |= flag
		}
	}
	return Ready{event}
}

// In reports whether a read would not block: there are bytes, the end of the stream, or
// an error.
func (r *Ready) In() bool { return r.event.Events&unix.EPOLLIN != 0 }

// Out reports whether the socket is writable.
func (r *Ready) Out() bool { return r.event.Events&unix.EPOLLOUT != 0 }

// Broken reports whether the socket has an error, which the next call on it returns.
func (r *Ready) Broken() bool { return r.event.Events&unix.EPOLLERR != 0 }

// HungUp reports whether both directions are closed; what has arrived can still be read.
func (r *Ready) HungUp() bool { return r.event.Events&unix.EPOLLHUP != 0 }

// Poll waits for many sockets at once and makes the calls on them. It is a
// level-triggered epoll instance: every wait reports a socket for as long as it is ready.
// To wake a wait from outside it uses an eventfd that is never read: the eventfd is
// registered edge-triggered, so each write causes one report and needs no read.
//
// One goroutine waits, and only that one may call Now, Block, Park and Unpark. Add,
// Change, Remove, Read, Write and Wake may be called from any goroutine. Close comes
// last, after all of them.
type Poll struct {
	ends   *ends // nil, unless it serves Ends alone
	fault  Fault
	epoll  int
	alarm  int
	parked *os.File // a duplicate of epoll in Go's poller; nil before Park
	raw    syscall.RawConn
	try    func(uintptr) bool // attempt, allocated once, so that Park allocates nothing
	ready  []Ready            // Park's argument, for try
	found  int                // try's result
}

// NewPoll opens a Poll. It uses two descriptors until Close, three while parked. The
// fault, which may be nil, does not apply to the eventfd.
func NewPoll(fault Fault) (*Poll, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	alarm, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd2", err)
	}
	p := &Poll{fault: fault, epoll: epoll, alarm: alarm}
	p.try = p.attempt
	if err := p.control(unix.EPOLL_CTL_ADD, alarm, unix.EPOLLIN|unix.EPOLLET, WakeKey); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Add registers s under key. Every key except WakeKey may be used. Closing a socket
// removes it.
func (p *Poll) Add(s Socket, want Interest, key uint64) error {
	return p.register(unix.EPOLL_CTL_ADD, s, want, key)
}

// Change changes the interest or the key of s, or re-arms it after a report with Once. A
// report that the waiting goroutine already holds is not taken back.
func (p *Poll) Change(s Socket, want Interest, key uint64) error {
	return p.register(unix.EPOLL_CTL_MOD, s, want, key)
}

// Remove ends the reports of s, except for those that the waiting goroutine already
// holds.
func (p *Poll) Remove(s Socket) error {
	return p.register(unix.EPOLL_CTL_DEL, s, 0, 0)
}

func (p *Poll) register(op int, s Socket, want Interest, key uint64) error {
	if s < NoSocket {
		return p.ends.register(s, want, key, op != unix.EPOLL_CTL_DEL)
	}
	if p.fault != nil {
		if _, err := p.fault.ask(CallRegister, 0); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	return p.control(op, int(s), want.events(), key)
}

func (p *Poll) control(op, fd int, events uint32, key uint64) error {
	event := unix.EpollEvent{Events: events, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.epoll, op, fd, &event))
}

func (want Interest) events() uint32 {
	var events uint32
	if want&In != 0 {
		events |= unix.EPOLLIN
	}
	if want&Out != 0 {
		events |= unix.EPOLLOUT
	}
	if want&Once != 0 {
		events |= unix.EPOLLONESHOT
	}
	return events
}

// Now returns the events that are ready now, without waiting and without telling the
// scheduler, because the call cannot block. It fills ready, which must not be empty, from
// its start and returns the number of events, which is also 0 after EINTR or a fault.
func (p *Poll) Now(ready []Ready) int {
	if p.ends != nil {
		return p.ends.now(ready)
	}
	n, _ := p.now(ready)
	return n
}

// now is Now; answered is false when the kernel was not called or failed.
func (p *Poll) now(ready []Ready) (n int, answered bool) {
	if p.fault != nil {
		if ready = p.fault.allowed(ready); len(ready) == 0 {
			return 0, false
		}
	}
	const wait = 0
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)), wait, 0, 0)
	if errno != 0 {
		return 0, false
	}
	return int(r), true
}

// Block waits in the kernel until something is ready and returns the events like Now. The
// goroutine keeps its thread. It may return 0 (EINTR, a fault): wait again.
func (p *Poll) Block(ready []Ready) int {
	if p.ends != nil {
		return p.ends.wait(ready)
	}
	if p.fault != nil {
		if ready = p.fault.allowed(ready); len(ready) == 0 {
			return 0
		}
	}
	const forever = ^uintptr(0)
	r, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)), forever, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(r)
}

// Park waits in Go's own poller until something is ready and returns the events like Now.
// The goroutine holds no thread. It may return 0 like Block, which does the waiting where
// parking is impossible, for example without a free descriptor.
func (p *Poll) Park(ready []Ready) int {
	if p.ends != nil {
		return p.ends.wait(ready)
	}
	if p.parked == nil && p.park() != nil {
		return p.Block(ready)
	}
	p.ready, p.found = ready, 0
	err := p.raw.Read(p.try)
	p.ready = nil
	if err != nil {
		p.Unpark()
		return p.Block(ready)
	}
	return p.found
}

// attempt ends the parking when there are events, and also when the kernel did not report
// whether there are: Go's poller is edge-triggered, and this may have been the edge.
func (p *Poll) attempt(uintptr) bool {
	n, answered := p.now(p.ready)
	p.found = n
	return n > 0 || !answered
}

// park registers a duplicate of the epoll descriptor in Go's poller.
func (p *Poll) park() error {
	fd, err := unix.FcntlInt(uintptr(p.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // required for os.NewFile to use Go's poller
		unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return err
	}
	p.parked, p.raw = file, raw
	return nil
}

// Unpark takes the Poll out of Go's poller until the next Park. Otherwise events that
// Block waits for wake Go's poller too.
func (p *Poll) Unpark() {
	if p.parked != nil {
		p.parked.Close()
		p.parked, p.raw = nil, nil
	}
}

// Wake ends a Block or Park, or makes the next wait return at once, with a report whose
// key is WakeKey. Several calls may share one report. It costs a write, without telling
// the scheduler.
func (p *Poll) Wake() error {
	if p.ends != nil {
		p.ends.wake()
		return nil
	}
	one := uint64(1)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(p.alarm), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
		switch errno {
		case unix.EINTR:
		case 0:
			return nil
		default:
			return os.NewSyscallError("write", errno)
		}
	}
}

// Read is the function Read on s, subject to the fault.
func (p *Poll) Read(s Socket, b []byte) (int, error) {
	if s < NoSocket {
		return p.ends.read(s, b)
	}
	if p.fault != nil && len(b) > 0 {
		allow, err := p.ration(CallRead, len(b))
		if err != nil {
			return 0, err
		}
		b = b[:allow]
	}
	return Read(uintptr(s), b)
}

// Write is the function Write on s, subject to the fault, which is called again after a
// short write until all is written or it refuses.
func (p *Poll) Write(s Socket, b []byte) (int, error) {
	if s < NoSocket {
		return p.ends.write(s, b)
	}
	if p.fault == nil {
		return Write(uintptr(s), b)
	}
	done := 0
	for done < len(b) {
		allow, err := p.ration(CallWrite, min(len(b)-done, maxWrite))
		if err != nil {
			return done, err
		}
		n, err := Write(uintptr(s), b[done:done+allow])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// ration returns how many of n bytes the fault lets a call request, at least one.
func (p *Poll) ration(c Call, n int) (int, error) {
	allow, err := p.fault.ask(c, n)
	if errors.Is(err, unix.EAGAIN) || err == nil && allow == 0 {
		return 0, ErrAgain
	}
	return allow, err
}

// Close closes the descriptors. The sockets stay open.
func (p *Poll) Close() error {
	if p.ends != nil {
		return nil
	}
	p.Unpark()
	return errors.Join(
		os.NewSyscallError("close", unix.Close(p.alarm)),
		os.NewSyscallError("close", unix.Close(p.epoll)))
}
