package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Folder makes a temporary folder, which the caller removes. Before that it removes those
// of the same kind that processes have left which were killed.
func Folder(kind string) (string, error) {
	// A number means a process only within its container, and several may share a folder
	// for temporary files.
	kind = fmt.Sprintf("%s-%s-", kind, processNamespace())
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), kind+"*")) // the pattern is a good one
	for _, folder := range left {
		pid, _, found := strings.Cut(strings.TrimPrefix(filepath.Base(folder), kind), "-")
		if n, err := strconv.Atoi(pid); found && err == nil && n != os.Getpid() && isGone(n) {
			os.RemoveAll(folder) // what cannot be removed is another user's
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", kind, os.Getpid()))
}

// processNamespace tells apart the processes of containers.
func processNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "0"
	}
	return strings.Trim(strings.TrimPrefix(name, "pid:"), "[]")
}
