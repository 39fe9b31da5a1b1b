package machine

import (
	"encoding/binary"
	"syscall"
)

// ask uses sysctl(3). What has no answer stays unknown.
func ask() (t reported) {
	t.cpu, _ = syscall.Sysctl("machdep.cpu.brand_string")
	t.kernel, _ = syscall.Sysctl("kern.osrelease")
	if size, err := syscall.Sysctl("hw.memsize"); err == nil && len(size) <= 8 {
		var number [8]byte // syscall takes the last byte of a number for a string's terminator
		copy(number[:], size)
		t.memory = binary.LittleEndian.Uint64(number[:])
	}
	return t
}
