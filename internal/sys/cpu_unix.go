//go:build unix

package sys

import (
	"syscall"
	"time"
)

// ProcessTime returns the CPU time that this process has used, user and system.
func ProcessTime() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
