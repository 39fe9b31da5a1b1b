package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
)

// TestMain runs the tests, or the example itself for tests that need it as a separate
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HONE_TEST_ROLE") == "example" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// onEveryEngine runs a test on every engine, new ones included.
func onEveryEngine(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) { test(t, e) })
	}
}

// start runs the server until the test ends.
func start(t *testing.T, srv *engine.Server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), srv, ln) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

// dial connects to the server, as nc would.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc.(*net.TCPConn)
}

// wantAll reads until EOF: a close, not a reset.
func wantAll(t *testing.T, nc net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(nc)
	if string(got) != want || err != nil {
		t.Errorf("read %.200q (%d bytes) and %v, want %.200q (%d bytes) and EOF", got, len(got), err, want, len(want))
	}
}

func TestConversation(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		nc := dial(t, start(t, newServer(e)))
		r := bufio.NewReader(nc)
		for _, line := range []string{"hello\n", "with telnet\r\n", "\n", "année\n"} {
			io.WriteString(nc, line)
			if got, err := r.ReadString('\n'); got != strings.ToUpper(line) || err != nil {
				t.Errorf("%q answered with %q, %v", line, got, err)
			}
		}
		io.WriteString(nc, "asked\nbefore\nthe end\nnot a li")
		nc.CloseWrite()
		wantAll(t, nc, "ASKED\nBEFORE\nTHE END\nerror: peer_closed\n")
	})
}

// Far more data than one visit, buffer or TCP window holds: answers keep their order.
func TestPipelined(t *testing.T) {
	var ask strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&ask, "line %d\n", i)
	}
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		nc := dial(t, start(t, newServer(e)))
		asked := make(chan error, 1)
		go func() {
			_, err := io.WriteString(nc, ask.String())
			nc.CloseWrite()
			asked <- err
		}()
		wantAll(t, nc, strings.ToUpper(ask.String()))
		if err := <-asked; err != nil {
			t.Error(err)
		}
	})
}

func TestTrickled(t *testing.T) {
	line := strings.Repeat("x", 3000) + "\n"
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		nc := dial(t, start(t, newServer(e)))
		for i := range line {
			if _, err := io.WriteString(nc, line[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		nc.CloseWrite()
		wantAll(t, nc, strings.ToUpper(line))
	})
}

func TestRefusals(t *testing.T) {
	const short = 50 * time.Millisecond
	for _, test := range []struct {
		name, ask, want string
		limits          engine.Limits
	}{
		{"a line too long", "a\n" + strings.Repeat("x", 100), "A\nerror: too_large, a line has at most 64 bytes\n", engine.Limits{}},
		{"a quiet peer", "a\n", "A\nerror: idle_timeout\n", engine.Limits{IdleTime: short}},
		{"a line that does not end", "a\nb", "A\nerror: frame_timeout\n", engine.Limits{FrameTime: short}},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEveryEngine(t, func(t *testing.T, e engine.Engine) {
				srv := newServer(e)
				srv.Protocol = Protocol{MaxLine: 64}
				srv.Limits = test.limits
				srv.Limits.InFlight = 1
				nc := dial(t, start(t, srv))
				io.WriteString(nc, test.ask)
				wantAll(t, nc, test.want)
			})
		})
	}
}

// The program as its user sees it, on every engine: its output and its end.
func TestRun(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdout, w := io.Pipe()
		var stderr bytes.Buffer
		ended := make(chan error, 1)
		go func() {
			err := run(ctx, "127.0.0.1:0", e, w, &stderr)
			w.Close()
			ended <- err
		}()
		first, err := bufio.NewReader(stdout).ReadString('\n')
		var addr, name string
		if n, _ := fmt.Sscanf(first, "listening on %s (engine %s", &addr, &name); n != 2 || name != e.Name()+")" {
			t.Fatalf("the first line is %q, %v", first, err)
		}
		nc := dial(t, addr)
		io.WriteString(nc, "hello\n")
		if got, err := bufio.NewReader(nc).ReadString('\n'); got != "HELLO\n" {
			t.Errorf("answered %q, %v", got, err)
		}
		cancel()
		wantAll(t, nc, "error: shutting_down\n")
		nc.Close()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		counts := "1 connections, 1 lines, 6 bytes in, 27 bytes out; drained: 1 clean, 0 forced\n"
		if got := stderr.String(); got != counts {
			t.Errorf("the counts are %q, want %q", got, counts)
		}
	})
}

func TestAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), ln.Addr().String(), engine.Engine{}, io.Discard, io.Discard)
	if said := fmt.Sprint(err); err == nil || !strings.Contains(said, "-addr") {
		t.Errorf("on an address in use: %s, want an error that names -addr", said)
	}
}

// program is the example as a separate process.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=example", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	return cmd
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"-h", 0, "-engine name"},
		{"-engine steam", 2, "buffered, events, events-inline"},
		{"-engine", 2, "-engine"},
		{"-port 1", 2, "-port"},
		{"please", 2, "Usage"},
		{"-addr nowhere", 1, "choose another address with -addr"},
	} {
		cmd := program(t, strings.Fields(test.args)...)
		said, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code || !bytes.Contains(said, []byte(test.says)) {
			t.Errorf("%s ends with %v, want exit status %d and %q:\n%s", test.args, err, test.code, test.says, said)
		}
	}
}

func TestSIGTERM(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM to send")
	}
	cmd := program(t, "-addr", "127.0.0.1:0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(stdout).ReadString('\n')
	addr := regexp.MustCompile(`[0-9.]+:[0-9]+`).FindString(first)
	if addr == "" {
		t.Fatalf("the first line is %q, %v", first, err)
	}
	nc := dial(t, addr)
	io.WriteString(nc, "hello\n")
	if got, err := bufio.NewReader(nc).ReadString('\n'); got != "HELLO\n" {
		t.Errorf("answered %q, %v", got, err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	wantAll(t, nc, "error: shutting_down\n")
	nc.Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "1 lines") {
		t.Errorf("ended with %v and %q, want 0 and the counts", err, stderr.String())
	}
}
