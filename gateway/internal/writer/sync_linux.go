package writer

import (
	"os"
	"syscall"
)

// DataSync makes a file's content and length durable, but not its times.
func DataSync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
