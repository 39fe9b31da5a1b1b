package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Used returns the CPU time, to the nanosecond, and the memory of the child's living
// group members. It scans every process of the machine: some milliseconds if there are
// thousands.
func (c *Child) Used() (Use, error) {
	all, err := running()
	if err != nil {
		return Use{}, err
	}
	sum := useOf(all, func(pid int) bool { return all[pid].group == c.PID })
	if sum.Busiest == 0 {
		return Use{}, fmt.Errorf("process %d has ended; its output: %s", c.PID, c.Said())
	}
	return sum, nil
}

// UsedBy returns the same of any processes and their descendants.
func UsedBy(pids ...int) (Use, error) {
	all, err := running()
	if err != nil {
		return Use{}, err
	}
	sum := useOf(all, func(of int) bool {
		for of > 0 && !slices.Contains(pids, of) {
			of = all[of].parent
		}
		return of > 0
	})
	if sum.Busiest == 0 {
		return Use{}, fmt.Errorf("there is no process %s", strings.Trim(fmt.Sprint(pids), "[]"))
	}
	return sum, nil
}

func useOf(all map[int]kin, ours func(pid int) bool) (sum Use) {
	for pid := range all {
		if !ours(pid) {
			continue
		}
		cpu, err := processCPU(pid)
		if err != nil {
			continue // it has ended in the meantime
		}
		resident, err := residentOf(pid)
		if err != nil {
			continue
		}
		if cpu >= sum.busiest {
			sum.busiest, sum.Busiest = cpu, pid
		}
		sum.CPU += cpu
		sum.Resident += resident
		sum.Waited += waitedFor(pid)
		sum.PIDs = append(sum.PIDs, pid)
	}
	return sum
}

// waitedFor adds up the second number of the threads' schedstat; 0: this kernel does not count.
func waitedFor(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is a good one
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		if words := bytes.Fields(text); len(words) > 1 {
			waited, _ := strconv.ParseInt(string(words[1]), 10, 64) // the kernel writes numbers
			sum += time.Duration(waited)
		}
	}
	return sum
}

// kin is what a process belongs to.
type kin struct{ parent, group int }

// running returns the processes that are not zombies.
func running() (map[int]kin, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]kin, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name.Name() + "/stat")
		if k := kinIn(stat); err == nil && k.group != 0 {
			all[pid] = k
		}
	}
	return all, nil
}

// anybodyIn reports whether a group has a process that is not a zombie.
func anybodyIn(group int) bool {
	left, err := running()
	for _, k := range left {
		if k.group == group {
			return err == nil
		}
	}
	return false
}

// kinIn returns the fourth and fifth field of a stat line, or zeros for a zombie. The second field is
// a name in parentheses, which may contain parentheses and blanks.
func kinIn(stat []byte) (k kin) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) >= 3 && fields[0][0] != 'Z' {
		k.parent, _ = strconv.Atoi(string(fields[1]))
		k.group, _ = strconv.Atoi(string(fields[2]))
	}
	return k
}

// processCPU reads a process's CPU clock, whose id the kernel derives from the process
// id.
func processCPU(pid int) (time.Duration, error) {
	const schedulerClock = 2
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedulerClock), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// residentOf returns the second number of statm, in bytes.
func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(text)
	if len(words) < 2 {
		return 0, fmt.Errorf("statm of process %d has fewer than two numbers", pid)
	}
	pages, err := strconv.ParseInt(string(words[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Descriptors returns how many the processes have open now; 0 for those of another user.
func (u Use) Descriptors() (n int) {
	for _, pid := range u.PIDs {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		n += len(open)
	}
	return n
}

// Program returns the path of the busiest process's executable.
func (u Use) Program() string { return fmt.Sprintf("/proc/%d/exe", u.Busiest) }

// sameProgram reports whether two processes run the same executable.
func sameProgram(a, b int) bool {
	one, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", a))
	other, err2 := os.Readlink(fmt.Sprintf("/proc/%d/exe", b))
	return err == nil && err2 == nil && one == other
}
