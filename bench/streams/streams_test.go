//go:build linux

// Package streams measures visits that wait (Turn.Flush, More, Hold, TakeOver that gives
// back) and compares the figures with what they are to be. Every server is a process of
// its own, examples/streams or the one in server:
//
//	go test -count=1 ./streams -timeout 90m -v -args -all
//
// Beside it, it measures handlers of package http1 that flush, with the server in feed, and
// with -base REVISION the same of another revision.
//
// A figure that misses its goal fails with -all only: a short run is too noisy for a
// verdict. What must always hold (bytes, order) fails in any case.
package streams

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/streams/probe"
	"github.com/hone-go/hone/tool/child"
)

var (
	all  = flag.Bool("all", false, "measure every engine at full size, and fail where a goal is missed")
	only = flag.String("engine", "", "measure the engine `name` only")
)

const (
	mib   = 1 << 20
	chunk = 16 << 10 // what examples/streams makes at a time
)

const (
	spinning = "HONE_SPIN"      // set in a process that is to do nothing else
	spinTime = 20 * time.Minute // how long it does at most
)

// TestMain spins where it is told to.
func TestMain(m *testing.M) {
	if os.Getenv(spinning) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Println(`"spinning"`)
	for began := time.Now(); time.Since(began) < spinTime; {
	}
}

// spin keeps that many processes busy until the test ends.
func spin(t *testing.T, n int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(cmd.Environ(), spinning+"=1", "GOMAXPROCS=1")
		c, err := child.Start(cmd, child.Options{Signal: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		if err := c.Answer(t.Context(), 20*time.Second, new(string)); err != nil {
			t.Fatalf("a busy program: %v", err)
		}
	}
}

// size is small, or full with -all.
func size[N any](small, full N) N {
	if *all {
		return full
	}
	return small
}

// engines are those to measure.
func engines() []string {
	if *only != "" {
		return []string{*only}
	}
	return size([]string{"events"}, []string{"events", "buffered"})
}

// judge prints a figure with what is asked of it.
func judge(t *testing.T, what string, got float64, format, sign string, limit float64) {
	t.Helper()
	ok := sign == "<=" && got <= limit || sign == ">=" && got >= limit
	text := fmt.Sprintf("%s: "+format+", asked for %s "+format, what, got, sign, limit)
	switch {
	case ok:
		t.Log("ok      ", text)
	case *all:
		t.Error("MISSED  ", text)
	default:
		t.Log("MISSED  ", text)
	}
}

// program builds a server, examples/streams with a probe in it or the one in server, and
// returns its path.
func program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := []string{"build", "-o", path}
	switch name {
	case "streams":
		const pkg = "github.com/hone-go/hone/examples/streams"
		dir := output(t, "go", "list", "-f", "{{.Dir}}", pkg)
		probed, err := filepath.Abs("testdata/probed.go")
		if err != nil {
			t.Fatal(err)
		}
		overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(dir, "probed.go"): probed}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "overlay.json")
		if err := os.WriteFile(file, overlay, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-overlay", file, pkg)
	default:
		args = append(args, "./"+name)
	}
	output(t, "go", args...)
	return path
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// server is a program that serves.
type server struct {
	*child.Child
	addr string
	mu   sync.Mutex // one question at a time
}

// start starts a program; what it serves ends with the test.
func start(t *testing.T, path string, args ...string) *server {
	t.Helper()
	addr := make(chan string, 1)
	c, err := child.Start(exec.CommandContext(t.Context(), path, args...), child.Options{Signal: true, Said: func(line []byte) {
		var a string
		if n, _ := fmt.Sscanf(string(line), "listening on %s", &a); n == 1 {
			addr <- a
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	c.Answer(t.Context(), 20*time.Second, new(any)) // the line with the address, which is not JSON
	select {
	case a := <-addr:
		return &server{Child: c, addr: a}
	case <-time.After(20 * time.Second):
		t.Fatalf("the server says no address: %s", c.Said())
	}
	return nil
}

// heap asks the server for its heap in use.
func (s *server) heap(t *testing.T, how string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a probe.Answer
	if err := s.Ask(t.Context(), how, 20*time.Second, &a); err != nil {
		t.Errorf("the server's heap: %v", err)
	}
	return a.InUse
}

// resident is the process's memory, to the page.
func (s *server) resident(t *testing.T) int64 {
	m, err := fleet.MemoryOf(s.PID)
	if err != nil {
		t.Errorf("the server's memory: %v", err)
	}
	return m.Resident
}

// cpuOf is a process's user and system time.
func cpuOf(t *testing.T, pid int) time.Duration {
	cpu, err := fleet.ProcessCPU(pid)
	if err != nil {
		t.Errorf("the CPU of process %d: %v", pid, err)
	}
	return cpu
}

// peaks samples a server's memory until stop is called, which returns the most of each.
func (s *server) peaks(t *testing.T) (stop func() (resident, heap int64)) {
	ctx, cancel := context.WithCancel(t.Context())
	var resident, heap atomic.Int64
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for ctx.Err() == nil {
			resident.Store(max(resident.Load(), s.resident(t)))
			heap.Store(max(heap.Load(), s.heap(t, probe.Heap)))
			fleet.Wait(ctx, 50*time.Millisecond)
		}
	})
	return func() (int64, int64) {
		cancel()
		sampling.Wait()
		return resident.Load(), heap.Load()
	}
}

// dial connects with socket buffers of that many bytes, so that a slow client is felt
// soon; 0: the kernel's.
func dial(t *testing.T, addr string, buffer int) (net.Conn, *bufio.Reader) {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if buffer == 0 {
			return nil
		}
		raw.Control(func(fd uintptr) {
			if err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer); err == nil {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, buffer)
			}
		})
		return err
	}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReaderSize(c, 4096)
}

// ask sends a line and wants a line, soon.
func ask(c net.Conn, r *bufio.Reader, line, want string) error {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return exchange(c, r, line, want)
}

// exchange is ask for a client that has a deadline of its own.
func exchange(c net.Conn, r *bufio.Reader, line, want string) error {
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return err
	}
	got, err := r.ReadString('\n')
	if err == nil && got != want+"\n" {
		err = fmt.Errorf("%q is answered with %q, want %q", line, got, want)
	}
	return err
}

// content appends n bytes of what examples/streams serves, from at on, a multiple of 8.
func content(dst []byte, at, n int) []byte {
	end := len(dst) + n
	for ; len(dst) < end; at += 8 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at+8)*0x9E3779B97F4A7C15)
	}
	return dst[:end]
}
