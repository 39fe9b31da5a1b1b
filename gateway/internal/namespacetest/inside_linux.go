// Package namespacetest runs tests in a namespace where they may mount file systems without root.
package namespacetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// Variable is set in a test process that runs in its own user and mount namespace.
const Variable = "HONED_PROVE_INSIDE"

// Inside reruns the test in a new user and mount namespace, with args added to its command line,
// and reports whether this process is already in that namespace. If not, the caller must return.
func Inside(t *testing.T, args ...string) bool {
	t.Helper()
	if os.Getenv(Variable) != "" {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args = append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=30m"}, args...)
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), Variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "    ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		t.Fatalf("%v\n%s", err, out)
	case err != nil:
		Lacks(t, "user namespaces", err)
	case strings.Contains(string(out), "--- SKIP"):
		Lacks(t, "a file system of its own", errors.New("see above"))
	}
	return false
}

// Lacks ends a test whose requirement is missing, as testrun.Lacks does.
func Lacks(t *testing.T, what string, err error) {
	t.Helper()
	testrun.Lacks(t, fmt.Sprintf("NOT PROVEN HERE: this proof needs %s: %v", what, err))
}
