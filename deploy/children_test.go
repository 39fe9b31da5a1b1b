package deploy

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

// root is the repository's root.
const root = ".."

// patience bounds every wait of a test.
const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needs returns the path of a program that make deps installs. Without the program it
// skips the test, or fails it under HONE_TEST_ALL.
func needs(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name)
	}
	return path
}

// missing skips the test because name is missing, or fails it under HONE_TEST_ALL.
func missing(t *testing.T, name string) {
	t.Helper()
	testrun.Lacks(t, name+" is not here: make deps installs it")
}

// daemons returns the paths of servers that a test starts, and skips it without HONE_TEST_ALL:
// they take long.
func daemons(t *testing.T, one, other string) (string, string) {
	t.Helper()
	if !testrun.All() {
		t.Skipf("waits for %s and %s to evaluate rules; HONE_TEST_ALL=1 runs it", one, other)
	}
	return needs(t, one), needs(t, other)
}

// listening matches the line in which Prometheus and node_exporter log their address.
const listening = `msg="Listening on".* address=(\S+)`

// daemon starts a program that serves until the test ends, and returns the group of
// pattern in the first matching line of its standard error.
func daemon(t *testing.T, pattern, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	dieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, ended := make(chan string, 1), make(chan struct{})
	var said []string // read after ended
	go func() {
		defer close(ended)
		says := regexp.MustCompile(pattern)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said = append(said, lines.Text())
			if m := says.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		cmd.Wait() // the lines say how it ended
	}()
	deadline := time.NewTimer(patience)
	t.Cleanup(func() {
		deadline.Stop()
		cmd.Process.Signal(syscall.SIGTERM)
		hurry := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		<-ended
		hurry.Stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, strings.Join(said, "\n"))
		}
	})
	select {
	case address := <-found:
		return address
	case <-ended:
		t.Fatalf("%s ended", name)
	case <-deadline.C:
		t.Fatalf("%s said no %q within %v", name, pattern, patience)
	}
	panic("unreachable")
}

// run runs a program to its end; if it fails, so does the test, with its output.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// deployed returns a path in the deploy folder.
func deployed(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// text returns a file of the deploy folder.
func text(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(deployed(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
