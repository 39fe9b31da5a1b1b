package view

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// needsTERM: a terminal without TERM gets no picture.
const needsTERM = true

// control reads or sets a property of a terminal.
func control(fd uintptr, request uintptr, value unsafe.Pointer) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value))
	return errno == 0
}

// inForeground reports whether this process may write to the terminal. It may if the
// terminal is not its session's.
func inForeground(terminal *os.File) bool {
	var group int32
	return !control(terminal.Fd(), syscall.TIOCGPGRP, unsafe.Pointer(&group)) || int(group) == syscall.Getpgrp()
}

// keyboard is a terminal whose keys are read one by one without echo. Ctrl-C and Ctrl-Z
// stay signals, so that they work whatever the command is doing.
type keyboard struct {
	terminal *os.File
	before   syscall.Termios
	read     chan struct{}
}

// takeKeyboard takes the keyboard if standard input is a terminal; nil if not.
func takeKeyboard() *keyboard {
	k := &keyboard{read: make(chan struct{})}
	if !control(os.Stdin.Fd(), syscall.TCGETS, unsafe.Pointer(&k.before)) {
		return nil
	}
	var err error // a separate descriptor can be closed during a read
	if k.terminal, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err != nil {
		return nil
	}
	if !k.get(&k.before) {
		k.terminal.Close()
		return nil
	}
	now := k.before
	now.Lflag &^= syscall.ICANON | syscall.ECHO
	now.Cc[syscall.VMIN], now.Cc[syscall.VTIME] = 1, 0
	k.set(&now)
	go k.watch()
	return k
}

func (k *keyboard) get(t *syscall.Termios) bool {
	return k.on(func(fd uintptr) bool { return control(fd, syscall.TCGETS, unsafe.Pointer(t)) })
}

func (k *keyboard) set(t *syscall.Termios) bool {
	return k.on(func(fd uintptr) bool { return control(fd, syscall.TCSETS, unsafe.Pointer(t)) })
}

// on runs do with the terminal's descriptor, which stays non-blocking.
func (k *keyboard) on(do func(fd uintptr) bool) (ok bool) {
	conn, err := k.terminal.SyscallConn()
	if err != nil {
		return false
	}
	return conn.Control(func(fd uintptr) { ok = do(fd) }) == nil && ok
}

// watch reads keys until the terminal is closed. q acts as Ctrl-C.
func (k *keyboard) watch() {
	defer close(k.read)
	var keys [16]byte
	for {
		n, err := k.terminal.Read(keys[:])
		if err != nil {
			return
		}
		for _, key := range keys[:n] {
			if key == 'q' || key == 'Q' {
				syscall.Kill(os.Getpid(), syscall.SIGINT)
			}
		}
	}
}

// giveBack restores the terminal's settings.
func (k *keyboard) giveBack() {
	if k == nil {
		return
	}
	k.set(&k.before)
	k.terminal.Close()
	<-k.read
}

// jobs receives the signals that stop or end the command.
type jobs struct{ signals chan os.Signal }

// watchJobs catches them, except those that the parent process ignores.
func watchJobs() *jobs {
	j := &jobs{make(chan os.Signal, 4)}
	for _, sig := range []os.Signal{syscall.SIGTSTP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(j.signals, sig)
		}
	}
	return j
}

func (j *jobs) stop() { signal.Stop(j.signals) }

// stopTime is how long a stop may take to take effect.
const stopTime = 250 * time.Millisecond

// obey does what the signal would have done, and returns when the command continues.
func (j *jobs) obey(sig os.Signal) {
	if sig != syscall.SIGTSTP {
		signal.Reset(sig)
		syscall.Kill(os.Getpid(), sig.(syscall.Signal))
		time.Sleep(stuckTime) // the stop takes effect shortly; show nothing until then
		return
	}
	if !hasShell() {
		return // nobody would continue it
	}
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	defer signal.Stop(on)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP) // Go cannot restore SIGTSTP's default action
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-on:
	case <-timer.C:
	}
}

// hasShell reports whether this process has an ancestor, in another process group of the
// same session, which can notice that it is stopped: the kernel's condition for job
// control stops.
func hasShell() bool {
	_, group, session := family(os.Getpid())
	for pid := os.Getppid(); pid > 0; {
		parent, itsGroup, itsSession := family(pid)
		if itsGroup != group {
			return itsSession == session && session != 0
		}
		pid = parent
	}
	return false
}

// family returns a process's parent, process group and session; 0 when it has ended.
func family(pid int) (parent, group, session int) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, 0
	}
	_, fields, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ") // after the name
	var state string
	if _, err := fmt.Sscan(fields, &state, &parent, &group, &session); err != nil {
		return 0, 0, 0
	}
	return parent, group, session
}
