package sys

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Polls says that Poll and Take work here.
const Polls = true

// maxInterrupts bounds how often a Fault may interrupt one call.
const maxInterrupts = 64

// ask is the Fault's answer once it has stopped interrupting, with an allowance
// within what was wanted.
func (f Fault) ask(c Call, n int) (int, error) {
	for range maxInterrupts {
		allow, err := f(c, n)
		if err == nil || !errors.Is(err, unix.EINTR) {
			return min(max(allow, 0), n), err
		}
	}
	return n, nil
}

// Ready is one report of a Poll.
type Ready struct{ event unix.EpollEvent }

// Key is the key that the socket was added with, or WakeKey.
func (r *Ready) Key() uint64 { return uint64(uint32(r.event.Fd)) | uint64(uint32(r.event.Pad))<<32 }

// In says that a read will not find the socket empty: there are bytes, or the
// end, or an error.
func (r *Ready) In() bool { return r.event.Events&unix.EPOLLIN != 0 }

// Out says that there is room to write.
func (r *Ready) Out() bool { return r.event.Events&unix.EPOLLOUT != 0 }

// Broken says that the socket has an error, which the next call on it returns.
func (r *Ready) Broken() bool { return r.event.Events&unix.EPOLLERR != 0 }

// HungUp says that both directions are closed; what has arrived can be read.
func (r *Ready) HungUp() bool { return r.event.Events&unix.EPOLLHUP != 0 }

// Poll waits for many sockets at once, and makes the calls on them. It is an
// epoll instance, level-triggered: a socket is reported by every wait for as
// long as it is ready. Its alarm, which ends a wait from outside, is an eventfd
// that is never read: registered edge-triggered, each ring is one report, and
// the read that would silence it is saved.
//
// One goroutine waits, and Now, Block, Park, Unpark belong to it. Add, Change,
// Remove, Read, Write and Wake may be called from any. Close comes last, after
// all of them.
type Poll struct {
	fault  Fault
	epoll  int
	alarm  int
	parked *os.File // a duplicate of epoll in Go's poller; nil until Park
	raw    syscall.RawConn
	try    func(uintptr) bool // attempt, made once, so that Park allocates nothing
	ready  []Ready            // Park's argument, for try
	found  int                // try's result
}

// NewPoll opens a Poll. It costs two descriptors until Close, three while
// parked. The fault, which may be nil, is not asked about the alarm's calls.
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

// Add has s reported under key from now on. All keys are free for use but
// WakeKey. A socket that is closed is removed with it.
func (p *Poll) Add(s Socket, want Interest, key uint64) error {
	return p.register(unix.EPOLL_CTL_ADD, s, want, key)
}

// Change waits for something else on s, or reports it under another key, or
// arms it again after a report that was to come Once. A report that the waiting
// goroutine already holds is not taken back.
func (p *Poll) Change(s Socket, want Interest, key uint64) error {
	return p.register(unix.EPOLL_CTL_MOD, s, want, key)
}

// Remove ends the reports of s, but for those that the waiting goroutine
// already holds.
func (p *Poll) Remove(s Socket) error {
	return p.register(unix.EPOLL_CTL_DEL, s, 0, 0)
}

func (p *Poll) register(op int, s Socket, want Interest, key uint64) error {
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

// Now reports what is ready now, without waiting and without telling the
// scheduler: the call cannot block. It fills ready, which must not be empty,
// from its start and returns how many reports there are: 0 also after an
// interruption or a fault.
func (p *Poll) Now(ready []Ready) int {
	n, _ := p.now(ready)
	return n
}

// now also says whether the kernel was asked and answered.
func (p *Poll) now(ready []Ready) (n int, answered bool) {
	if p.fault != nil {
		if ready = p.allowed(ready); len(ready) == 0 {
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

// Block waits in the kernel until something is ready and reports it like Now.
// The goroutine keeps its thread. It may return 0 (an interruption, a fault):
// wait again.
func (p *Poll) Block(ready []Ready) int {
	if p.fault != nil {
		if ready = p.allowed(ready); len(ready) == 0 {
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

// allowed is the part of ready that the fault lets a wait fill.
func (p *Poll) allowed(ready []Ready) []Ready {
	// An interrupted wait returns, so nothing counts as one to be retried.
	allow, err := p.fault(CallWait, len(ready))
	if err != nil {
		return nil
	}
	return ready[:min(max(allow, 0), len(ready))]
}

// Park waits in Go's own poller until something is ready and reports it like
// Now. The goroutine keeps no thread. It may return 0 like Block, which also
// does the waiting where parking is impossible, as when descriptors ran out.
func (p *Poll) Park(ready []Ready) int {
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

// attempt ends the parking when there are reports, and also when the kernel did
// not say whether there are: Go's poller hears of each change once, and this
// may have been it.
func (p *Poll) attempt(uintptr) bool {
	n, answered := p.now(p.ready)
	p.found = n
	return n > 0 || !answered
}

// park gives Go's poller a duplicate of the epoll descriptor.
func (p *Poll) park() error {
	fd, err := unix.FcntlInt(uintptr(p.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else os.NewFile leaves Go's poller out
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

// Unpark takes the Poll out of Go's poller until the next Park. Without it,
// what Block waits for keeps Go's poller busy too.
func (p *Poll) Unpark() {
	if p.parked != nil {
		p.parked.Close()
		p.parked, p.raw = nil, nil
	}
}

// Wake ends a Block or Park, or makes the next wait return at once, with a
// report whose key is WakeKey. Several may share one report. It costs a write,
// which the scheduler is not told of.
func (p *Poll) Wake() error {
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

// Read is the function Read on s, and what the fault makes of it.
func (p *Poll) Read(s Socket, b []byte) (int, error) {
	if p.fault != nil && len(b) > 0 {
		allow, err := p.ration(CallRead, len(b))
		if err != nil {
			return 0, err
		}
		b = b[:allow]
	}
	return Read(uintptr(s), b)
}

// Write is the function Write on s, and what the fault makes of it: it is asked
// again after a short write, until all is written or it says no.
func (p *Poll) Write(s Socket, b []byte) (int, error) {
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

// ration is how much of n the fault lets a call ask for, which is not nothing.
func (p *Poll) ration(c Call, n int) (int, error) {
	allow, err := p.fault.ask(c, n)
	if errors.Is(err, unix.EAGAIN) || err == nil && allow == 0 {
		return 0, ErrAgain
	}
	return allow, err
}

// Close gives the descriptors back. The sockets stay open.
func (p *Poll) Close() error {
	p.Unpark()
	return errors.Join(
		os.NewSyscallError("close", unix.Close(p.alarm)),
		os.NewSyscallError("close", unix.Close(p.epoll)))
}
