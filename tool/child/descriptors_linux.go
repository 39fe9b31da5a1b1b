package child

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// LeaveDescriptors lowers a process's limit so that it can open n more descriptors, and returns how
// to lift it again. With n = 0 it can open none but in the place of one that it closes.
func LeaveDescriptors(pid, n int) (restore func() error, err error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	var before syscall.Rlimit
	if err := prlimit(pid, nil, &before); err != nil {
		return nil, err
	}
	taken, last := map[int]bool{}, 0
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			taken[fd], last = true, max(last, fd+1)
		}
	}
	limit := last // not below it: closing a descriptor above the limit would not help the process
	if n > 0 {
		for limit = 0; n > 0; limit++ {
			if !taken[limit] {
				n--
			}
		}
	}
	lowered := before
	lowered.Cur = min(before.Cur, uint64(limit))
	return func() error { return prlimit(pid, &before, nil) }, prlimit(pid, &lowered, nil)
}

func prlimit(pid int, set, get *syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("descriptor limit of process %d: %w", pid, errno)
	}
	return nil
}
