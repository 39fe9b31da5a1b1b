//go:build unix

package observe

import (
	"syscall"
	"time"
)

// processCPU is what this process has used, user and system, since its start.
func processCPU() (time.Duration, bool) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0, false
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), true
}
