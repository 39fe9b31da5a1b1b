package journal

import (
	"os"
	"syscall"
)

// openDirect opens a file for writes past the page cache, with a buffer of zeros for them: a mapping
// of pages that nobody has touched, so the kernel gives none of them memory.
func openDirect(path string) (f *os.File, zeros []byte, free func(), err error) {
	if zeros, err = syscall.Mmap(-1, 0, zeroBytes, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		return nil, nil, nil, os.NewSyscallError("mmap", err)
	}
	free = func() { syscall.Munmap(zeros) }
	if f, err = os.OpenFile(path, os.O_WRONLY|syscall.O_DIRECT, 0); err != nil {
		free()
	}
	return f, zeros, free, err
}
