package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs the tests, or plays the server for BenchmarkGenerator or the
// generator for BenchmarkWrkAgainstNginx, which start this binary again to have
// them in a process of their own.
func TestMain(m *testing.M) {
	play := map[string]func() error{"serve": serveUntilInputEnds, "load": loadAsAsked, "shop": serveShop}[os.Getenv("HONE_TEST_ROLE")]
	if play == nil {
		testrun.SideBySide(16)
		if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // the runtime's poller must not be counted
			ln.Close()
		}
		descriptors := openDescriptors()
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			if left := openDescriptors() - descriptors; code == 0 && left > 0 {
				fmt.Fprintf(os.Stderr, "%d descriptors are left\n", left)
				code = 1
			}
			os.Exit(code)
		}))
	}
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveReady is the only line that the serving process prints.
type serveReady struct {
	Addr string `json:"addr"`
}

// serveUntilInputEnds echoes what it is asked, on hone's Buffered engine.
func serveUntilInputEnds() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &framed.Server{
		Engine: engine.Buffered(16 << 10),
		Limits: engine.Limits{FrameSize: 1 << 20},
		Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			return append(dst, req...), nil
		}),
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	err = json.NewEncoder(os.Stdout).Encode(serveReady{ln.Addr().String()})
	_, readErr := io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, readErr, s.Close())
	if end := <-served; !errors.Is(end, framed.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// startServer starts the serving process, which ends with the test, and returns its address and
// process id.
func startServer(tb testing.TB, env ...string) (string, int) {
	tb.Helper()
	return startRole(tb, "serve", env...)
}

// startRole starts a process that serves in a role of TestMain.
func startRole(tb testing.TB, role string, env ...string) (string, int) {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE="+role)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the server's process: %v", err)
		}
	})
	var ready serveReady
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		tb.Fatalf("the server said %q: %v", line, err)
	}
	return ready.Addr, cmd.Process.Pid
}
