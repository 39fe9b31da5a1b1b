//go:build linux || darwin

package journal

import (
	"os"
	"syscall"
)

// freeSpace returns how many bytes are free for unprivileged users on a folder's disk.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return s.Bavail * uint64(s.Bsize), nil
}
