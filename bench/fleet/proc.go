package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Memory is what a process holds of the machine's, in bytes.
type Memory struct {
	Resident  int64 // all of it
	Anonymous int64 // what no file backs: heap, stacks, tables
}

// MemoryOf asks the kernel. It counts page by page, so it is exact, and for a
// gigabyte takes some milliseconds.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return Memory{}, err
	}
	return parseMemory(text)
}

// parseMemory reads the two lines that are wanted of smaps_rollup.
func parseMemory(text []byte) (m Memory, err error) {
	for name, field := range map[string]*int64{"Rss:": &m.Resident, "Anonymous:": &m.Anonymous} {
		_, rest, found := bytes.Cut(text, []byte("\n"+name))
		if !found {
			return m, fmt.Errorf("smaps_rollup has no line %s", name)
		}
		words := strings.Fields(string(rest))
		if len(words) < 2 || words[1] != "kB" {
			return m, fmt.Errorf("smaps_rollup: the line %s is not in kB", name)
		}
		kb, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return m, fmt.Errorf("smaps_rollup: %w", err)
		}
		*field = kb << 10
	}
	return m, nil
}

// PeakOf is the most that a process has had resident.
func PeakOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(text, []byte("\nVmHWM:"))
	if words := strings.Fields(string(rest)); found && len(words) > 1 && words[1] == "kB" {
		kb, err := strconv.ParseInt(words[0], 10, 64)
		return kb << 10, err
	}
	return 0, errors.New("/proc/PID/status has no line VmHWM in kB")
}

// ProcessCPU is the user and system time that a process has used, all its
// threads together and to the nanosecond: the kernel makes a clock's number out
// of the process's.
func ProcessCPU(pid int) (time.Duration, error) {
	const schedulerClock = 2
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedulerClock), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// IdleCPU is how long all CPUs together have been idle, to a tick of the kernel's,
// and how many there are.
func IdleCPU() (idle time.Duration, cpus int, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseIdle(text)
}

// parseIdle adds the fourth and fifth number of the line "cpu" of /proc/stat:
// idle, and idle for want of a disk.
func parseIdle(text []byte) (idle time.Duration, cpus int, err error) {
	const tick = time.Second / 100 // what the kernel tells user programs, everywhere that Go runs
	var user, nice, system, waiting, disk int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d", &user, &nice, &system, &waiting, &disk); err != nil {
		return 0, 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return time.Duration(waiting+disk) * tick, bytes.Count(text, []byte("\ncpu")), nil
}

// mask is a set of CPUs as the kernel has it.
type mask [1024 / 64]uint64

func maskOf(cpu int) (m mask) {
	m[cpu/64] = 1 << (cpu % 64)
	return m
}

// bind binds the calling thread.
func bind(m mask) error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(m), uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return os.NewSyscallError("sched_setaffinity", errno)
	}
	return nil
}

// affinity is what the calling thread may use.
func affinity() (m mask, err error) {
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(m), uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return m, os.NewSyscallError("sched_getaffinity", errno)
	}
	return m, nil
}

// CPUs lists those that this process may use.
func CPUs() ([]int, error) {
	m, err := affinity()
	if err != nil {
		return nil, err
	}
	var cpus []int
	for i := range len(m) * 64 {
		if m[i/64]&(1<<(i%64)) != 0 {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}
