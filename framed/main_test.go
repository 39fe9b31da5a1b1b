package framed_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs the tests, or the role that HONE_TEST_ROLE names: some tests start this
// binary again, to run each side in its own process.
func TestMain(m *testing.M) {
	switch os.Getenv("HONE_TEST_ROLE") {
	case "":
		openPoller()
		testrun.SideBySide(24)
		files := openFiles() + profiles()
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(max(code, leftOpen(files))) }))
	case "listen":
		if r, ok := any(roles{}).(interface{ listen() error }); ok {
			play(r.listen)
		}
	}
	play(func() error { return errors.ErrUnsupported })
}

// openPoller makes the runtime open its poller's descriptors before a test counts them.
func openPoller() {
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close()
	}
}

// profiles returns how many files package testing opens and leaves open, as its flags say.
func profiles() (n int) {
	for _, name := range []string{"test.cpuprofile", "test.trace"} {
		if flag.Lookup(name).Value.String() != "" {
			n++
		}
	}
	return n
}

// leftOpen returns the exit code 1 if more descriptors than before are open after all tests.
func leftOpen(before int) (code int) {
	for deadline := time.Now().Add(patience); openFiles() > before; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "the tests have left descriptors open: %d were before; now: %q\n", before, descriptors())
			return 1
		}
	}
	return 0
}

// roles has a method for every role that this operating system supports; those that need
// Linux are in files that only Linux builds.
type roles struct{}

// play runs a role and exits the process with its result.
func play(role func() error) {
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is this binary, started again in a role. It replies with lines of JSON on
// standard output, and ends when its standard input ends.
type child struct {
	role   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	lines  *bufio.Reader
	stderr bytes.Buffer // do not read before the process has ended
	ended  bool
}

const (
	childStart = 20 * time.Second // until the first line
	childEnd   = 15 * time.Second // from the end of its input to its own end
)

// startChild starts a child with env added to our environment. It ends at the latest with
// the test.
func startChild(tb testing.TB, role string, env ...string) *child {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	c := &child{role: role, cmd: exec.Command(self), stdout: out, lines: bufio.NewReader(out)}
	c.cmd.Env = append(os.Environ(), "HONE_TEST_ROLE="+role,
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0") // otherwise the race detector ends a second late
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdout = childOut
	c.cmd.Stderr = &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	childOut.Close()
	if err != nil {
		out.Close()
		tb.Fatalf("starting role %s: %v", role, err)
	}
	tb.Cleanup(func() { c.end(tb) })
	return c
}

// answer reads the child's next line into v.
func (c *child) answer(tb testing.TB, within time.Duration, v any) {
	tb.Helper()
	err := c.stdout.SetReadDeadline(time.Now().Add(within))
	var line []byte
	if err == nil {
		line, err = c.lines.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, v)
	}
	if err != nil {
		c.end(tb)
		tb.Fatalf("role %s answered %q: %v\n%s", c.role, line, err, &c.stderr)
	}
}

// ask sends the child a line and reads its reply into v.
func (c *child) ask(tb testing.TB, line string, within time.Duration, v any) {
	tb.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.end(tb)
		tb.Fatalf("role %s does not read %q: %v\n%s", c.role, line, err, &c.stderr)
	}
	c.answer(tb, within, v)
}

// end closes the child's input, waits for it, and kills it if it does not end.
func (c *child) end(tb testing.TB) {
	tb.Helper()
	if c.ended {
		return
	}
	c.ended = true
	c.stdin.Close()
	late := time.AfterFunc(childEnd, func() { c.cmd.Process.Kill() })
	err := c.cmd.Wait()
	late.Stop()
	c.stdout.Close()
	if err != nil {
		tb.Errorf("role %s ended with %v\n%s", c.role, err, &c.stderr)
	}
}
