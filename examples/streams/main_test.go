package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
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

// running is the running program and its output.
type running struct {
	addr   string
	stop   context.CancelFunc
	ended  chan error
	stderr bytes.Buffer // read it only after the program has ended
}

// start runs the program until stop is called or the test ends.
func start(t *testing.T, e engine.Engine) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, ended: make(chan error, 1)}
	stdout, w := io.Pipe()
	var program sync.WaitGroup
	program.Go(func() {
		err := run(ctx, "127.0.0.1:0", e, w, &r.stderr)
		w.Close()
		r.ended <- err
	})
	t.Cleanup(func() { cancel(); stdout.Close(); program.Wait() })
	first, err := bufio.NewReader(stdout).ReadString('\n')
	var name string
	if n, _ := fmt.Sscanf(first, "listening on %s (engine %s", &r.addr, &name); n != 2 || name != e.Name()+")" {
		t.Fatalf("the first line is %q, %v", first, err)
	}
	return r
}

// client is a connection such as nc would make.
type client struct {
	*net.TCPConn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &client{nc.(*net.TCPConn), bufio.NewReader(nc)}
}

// line reads a line and compares it.
func (c *client) line(t *testing.T, want string) {
	t.Helper()
	if got, err := c.r.ReadString('\n'); got != want+"\n" {
		t.Fatalf("read %.100q, %v; want %q", got, err, want)
	}
}

// bytes reads a download and compares it.
func (c *client) bytes(t *testing.T, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes of %d, or others: %v", n, len(want), err)
	}
}

// end wants the rest of the stream, and EOF: a close, not a reset.
func (c *client) end(t *testing.T, want string) {
	t.Helper()
	if got, err := io.ReadAll(c.r); string(got) != want || err != nil {
		t.Errorf("read %.200q and %v, want %q and EOF", got, err, want)
	}
}

const large = 8<<20 + 5

// Streams in both directions, longer than any buffer, one after the other on one connection.
func TestUploadAndDownload(t *testing.T) {
	body := appendBytes(nil, 0, large)
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		c := dial(t, start(t, e).addr)
		sent := make(chan error, 1)
		go func() {
			_, err := fmt.Fprintf(c, "put %d\n%sget %d\nput 2\nabget 3\n", len(body), body, len(body))
			c.CloseWrite()
			sent <- err
		}()
		c.line(t, fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)))
		c.line(t, fmt.Sprint(len(body)))
		c.bytes(t, body)
		c.line(t, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte("ab"))))
		c.end(t, "3\n"+string(body[:3]))
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// Events follow the answer that starts them, come between the answers of a client that sends
// further commands, and end when it disconnects.
func TestFeed(t *testing.T) {
	body := appendBytes(nil, 0, large)
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e)
		c := dial(t, r.addr)
		io.WriteString(c, "feed 1\n")
		c.line(t, "feed")
		events := 0
		event := func(line string) bool {
			if line != fmt.Sprintf("event %d\n", events+1) {
				return false
			}
			events++
			return true
		}
		for range 3 {
			if line, err := c.r.ReadString('\n'); !event(line) {
				t.Fatalf("read %q, %v; want event %d", line, err, events+1)
			}
		}
		fmt.Fprintf(c, "get %d\n", large)
		for {
			line, err := c.r.ReadString('\n')
			if line == fmt.Sprintf("%d\n", large) {
				break
			} else if !event(line) {
				t.Fatalf("read %q, %v; want the download or event %d", line, err, events+1)
			}
		}
		c.bytes(t, body)
		c.CloseWrite()
		for {
			line, err := c.r.ReadString('\n')
			if line == "end\n" {
				break
			} else if !event(line) {
				t.Fatalf("read %q, %v; want the end or event %d", line, err, events+1)
			}
		}
		c.end(t, "")
		r.stop()
		if err := <-r.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		counts := fmt.Sprintf("1 connections, 2 commands, %d events, ", events)
		if said := r.stderr.String(); !strings.HasPrefix(said, counts) {
			t.Errorf("the counts are %q, want %q", said, counts)
		}
	})
}

// Ctrl-C ends a feed, and waits for streams in progress.
func TestStop(t *testing.T) {
	body := appendBytes(nil, 0, large)
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		r := start(t, e)
		feed, up, down := dial(t, r.addr), dial(t, r.addr), dial(t, r.addr)
		io.WriteString(feed, "feed 3600000\n")
		feed.line(t, "feed")
		fmt.Fprintf(up, "get 0\nput %d\n%s", large, body[:large/2])
		up.line(t, "0")
		fmt.Fprintf(down, "get %d\n", large)
		down.line(t, fmt.Sprint(large))
		r.stop()
		feed.end(t, "end\nerror: shutting_down\n")
		up.Write(body[large/2:])
		up.end(t, fmt.Sprintf("%08x\nerror: shutting_down\n", crc32.ChecksumIEEE(body)))
		down.bytes(t, body)
		down.end(t, "error: shutting_down\n")
		for _, c := range []*client{feed, up, down} {
			c.Close()
		}
		if err := <-r.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if said := r.stderr.String(); !strings.HasPrefix(said, "3 connections, 4 commands, 0 events, ") || !strings.HasSuffix(said, "drained: 3 clean, 0 forced\n") {
			t.Errorf("the counts are %q", said)
		}
	})
}

// An error of the client is answered in one line.
func TestRefusals(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		c := dial(t, start(t, e).addr)
		io.WriteString(c, "get 0\nhello\nget 0\n")
		c.end(t, "0\nerror: malformed\n")
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
	c := dial(t, addr)
	io.WriteString(c, "feed 3600000\n")
	c.line(t, "feed")
	cmd.Process.Signal(syscall.SIGTERM)
	c.end(t, "end\nerror: shutting_down\n")
	c.Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "1 commands") {
		t.Errorf("ended with %v and %q, want 0 and the counts", err, stderr.String())
	}
}
