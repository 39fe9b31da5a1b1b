package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Creating a folder removes that of a killed process; those of living processes and of
// other kinds stay.
func TestFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.Command(os.Args[0], "-test.run", "^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	mine, err := Folder("hone-test")
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.TrimSuffix(mine[:strings.LastIndex(mine, "-")], fmt.Sprint(os.Getpid()))
	left, other := fmt.Sprintf("%s%d-1", prefix, ended.Process.Pid), fmt.Sprintf("%s%d-1", prefix, os.Getppid())
	notOurs := filepath.Join(os.TempDir(), fmt.Sprintf("hone-test-%d", ended.Process.Pid))
	for _, folder := range []string{left, other, notOurs} {
		if err := os.MkdirAll(filepath.Join(folder, "within"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Folder("hone-test"); err != nil {
		t.Fatal(err)
	}
	for folder, stays := range map[string]bool{mine: true, left: runtime.GOOS == "windows", other: true, notOurs: true} {
		if _, err := os.Stat(folder); (err == nil) != stays {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
