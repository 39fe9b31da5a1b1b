//go:build unix

package workers

import (
	"syscall"
	"time"
)

// processTime returns the CPU time of this process.
func processTime() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
