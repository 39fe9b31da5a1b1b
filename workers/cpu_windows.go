package workers

import (
	"syscall"
	"time"
)

// processTime returns the CPU time of this process.
func processTime() (used time.Duration, known bool) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, false
	}
	var born, ended, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &born, &ended, &kernel, &user) != nil {
		return 0, false
	}
	return span(kernel) + span(user), true
}

// span converts a Filetime that is a duration, in units of 100 ns.
func span(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
