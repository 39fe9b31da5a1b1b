package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Folder creates a temporary folder, which the caller removes. First it removes folders
// of the same kind that killed processes left behind.
func Folder(kind string) (string, error) {
	// A process id is unique only within its container, and containers may share a
	// temporary folder.
	kind = fmt.Sprintf("%s-%s-", kind, processNamespace())
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), kind+"*")) // cannot fail: the pattern is valid
	for _, folder := range left {
		pid, _, found := strings.Cut(strings.TrimPrefix(filepath.Base(folder), kind), "-")
		if n, err := strconv.Atoi(pid); found && err == nil && n != os.Getpid() && isGone(n) {
			os.RemoveAll(folder) // those that cannot be removed belong to another user
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", kind, os.Getpid()))
}

// processNamespace identifies the PID namespace.
func processNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "0"
	}
	return strings.Trim(strings.TrimPrefix(name, "pid:"), "[]")
}
