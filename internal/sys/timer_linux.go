package sys

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Timer is a kernel timer (timerfd) for one goroutine. Package time rounds waits up to a
// millisecond when the process is otherwise idle; a Timer fires about 40 µs late, and its
// goroutine waits in the runtime's poller, without a thread. NewTimer makes one. Only one
// goroutine may call Wait or WaitFor, and one at a time Set, also during a Wait; Close may be
// called from any.
//
// Its system calls bypass the Go scheduler, because neither blocks. The first system call that
// the scheduler sees after the process was idle wakes the runtime's monitor thread, which then
// polls every 20 µs until the process is idle again. That cost a load of 2,000 requests/s two
// more context switches and two more futex calls per request, and a quarter more CPU.
type Timer struct {
	file  *os.File
	raw   syscall.RawConn
	spec  unix.ItimerSpec // WaitFor's
	armed bool
	err   error
	wait  func(fd uintptr) bool // allocated once, so that Wait allocates nothing

	set    unix.ItimerSpec // Set's
	setErr error
	arm    func(fd uintptr)

	rings [8]byte
}

// NewTimer opens a timer. It uses a descriptor until Close.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &Timer{file: os.NewFile(uintptr(fd), "timer")}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		t.file.Close()
		return nil, err
	}
	t.wait = t.ring
	t.arm = func(fd uintptr) { t.setErr = settime(fd, &t.set) }
	return t, nil
}

// settime arms the timer.
func settime(fd uintptr, spec *unix.ItimerSpec) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(spec)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	return nil
}

// ring arms the timer if it is not armed, and is called again when it has fired. It arms the
// timer only once the poller waits for it, so that no earlier expiration needs to be read.
func (t *Timer) ring(fd uintptr) bool {
	if t.armed {
		_, t.err = Read(fd, t.rings[:])
		return !errors.Is(t.err, ErrAgain)
	}
	t.armed = true
	t.err = settime(fd, &t.spec)
	return t.err != nil
}

// Set makes the timer fire once, after d; it replaces an earlier Set. With d <= 0 it fires at
// once.
func (t *Timer) Set(d time.Duration) error {
	t.set.Value = unix.NsecToTimespec(int64(max(d, 1)))
	if t.raw.Control(t.arm) != nil {
		return os.ErrClosed
	}
	return t.setErr
}

// Wait returns when the timer has fired since it was last set, and with an error that is
// os.ErrClosed when Close ends the wait.
func (t *Timer) Wait() error {
	t.armed = true
	return t.await()
}

// WaitFor returns after d, at once if d <= 0. It is Set and Wait with one system call less,
// for a timer that no other goroutine sets.
func (t *Timer) WaitFor(d time.Duration) error {
	t.spec.Value = unix.NsecToTimespec(int64(max(d, 1)))
	t.armed = false
	return t.await()
}

func (t *Timer) await() error {
	if t.raw.Read(t.wait) != nil {
		return os.ErrClosed // the only thing that ends the wait
	}
	return t.err
}

// Watch has a Poll report under key that the timer has fired, until it is set again. Only the
// goroutine that waits for the Poll may set it then, and nobody may wait for it.
func (t *Timer) Watch(p *Poll, key uint64) (err error) {
	if closed := t.raw.Control(func(fd uintptr) { err = p.Add(Socket(fd), In, key) }); closed != nil {
		return os.ErrClosed
	}
	return err
}

// Close closes the descriptor and ends a Wait.
func (t *Timer) Close() error { return t.file.Close() }
