//go:build linux || darwin

package writer

import (
	"os"
	"syscall"
)

// lockFile locks a file. The kernel releases the lock when the process ends.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
