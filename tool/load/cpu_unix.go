//go:build unix

package load

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time that this process has used.
func processCPU() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
