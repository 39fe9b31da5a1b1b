package view

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// inForeground reports whether this process may write to the terminal. It may if the
// terminal is not its session's.
func inForeground(terminal *os.File) bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno != 0 || int(group) == syscall.Getpgrp()
}

// watchContinue returns a channel that receives when the command continues after Ctrl-Z.
func watchContinue() (continued <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCONT)
	return signals, func() { signal.Stop(signals) }
}
