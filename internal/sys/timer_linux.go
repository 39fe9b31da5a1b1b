package sys

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Timer is a kernel timer (timerfd) for one goroutine. Package time rounds waits up to a
// millisecond when the process is otherwise idle; a Timer fires about 40 µs late, and its
// goroutine waits in the runtime's poller, without a thread. NewTimer makes one. Only one
// goroutine may call Wait, and one at a time Set, also during a Wait; Close may be called
// from any.
type Timer struct {
	file  *os.File
	raw   syscall.RawConn
	spec  unix.ItimerSpec
	err   error
	arm   func(fd uintptr) // allocated once, so that Set allocates nothing
	rings [8]byte
}

// NewTimer opens a timer that is not set. It uses a descriptor until Close.
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
	t.arm = func(fd uintptr) { t.err = unix.TimerfdSettime(int(fd), 0, &t.spec, nil) }
	return t, nil
}

// Set makes the timer fire once, after d; it replaces an earlier Set. With d <= 0 it
// fires at once.
func (t *Timer) Set(d time.Duration) error {
	t.spec.Value = unix.NsecToTimespec(int64(max(d, 1)))
	if err := t.raw.Control(t.arm); err != nil {
		return err
	}
	return os.NewSyscallError("timerfd_settime", t.err)
}

// Wait returns when the timer has fired since it was last set, and with an error that is
// os.ErrClosed when Close ends the wait.
func (t *Timer) Wait() error {
	_, err := t.file.Read(t.rings[:])
	return err
}

// Close closes the descriptor and ends a Wait.
func (t *Timer) Close() error { return t.file.Close() }
