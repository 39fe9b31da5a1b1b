package testrun

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Namespace is the environment variable of a test process that runs in its own user and mount namespace.
const Namespace = "HONE_TEST_NAMESPACE"

// InNamespace reruns the test in a new user and mount namespace, where it may mount file systems without root, with args
// added to its command line, and reports whether this process is already in that namespace. If not, the caller must return.
func InNamespace(t *testing.T, args ...string) bool {
	t.Helper()
	if os.Getenv(Namespace) != "" {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args = append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=30m"}, args...)
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), Namespace+"=1")
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
		Lacks(t, fmt.Sprintf("NOT PROVEN HERE: this proof needs user namespaces: %v", err))
	case strings.Contains(string(out), "--- SKIP"):
		Lacks(t, "NOT PROVEN HERE: this proof needs a file system of its own, see above")
	}
	return false
}
