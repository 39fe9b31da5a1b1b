package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// UsedBy returns the CPU time and the memory of a process and of its living descendants.
func UsedBy(pid int) (Use, error) {
	pids, err := descendants(pid)
	if err != nil {
		return Use{}, err
	}
	sum := add(pids)
	if sum.Busiest == 0 {
		return Use{}, fmt.Errorf("process %d has ended, or belongs to another user", pid)
	}
	return sum, nil
}

// descendants returns a process and what it has started.
func descendants(of int) ([]int, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if stat, err := os.ReadFile("/proc/" + name.Name() + "/stat"); err == nil {
			parent := parentIn(stat)
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{of}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// parentIn returns the fourth field of a stat line; see groupIn.
func parentIn(stat []byte) int {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// Descriptors returns how many descriptors the processes have open, as far as this process may see
// them.
func (u Use) Descriptors() (n int) {
	for _, pid := range u.PIDs {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // another user's, or it has ended
		n += len(open)
	}
	return n
}

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
