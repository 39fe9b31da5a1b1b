//go:build unix

package record

import "syscall"

// mayWrite asks without opening the file: closing it again would take SQLite's
// locks away from this whole process.
func mayWrite(path string) bool {
	const write = 2
	return syscall.Access(path, write) == nil
}
