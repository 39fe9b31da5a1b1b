//go:build unix

package record

import "syscall"

// mayWrite checks without opening the file: closing it again would drop SQLite's locks
// for this whole process.
func mayWrite(path string) bool {
	const write = 2
	return syscall.Access(path, write) == nil
}
