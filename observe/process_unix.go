//go:build unix

package observe

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time of this process since its start, user and system.
func processCPU() (time.Duration, bool) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0, false
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), true
}
