package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// TestProveDiskFull fills the disk of a gateway under load. At the reserve the gateway stops
// acknowledging, and continues when there is space again. When the disk reports free space and has
// none, the log fails: the gateway exits with the reason, and continues after a restart.
func TestProveDiskFull(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !testrun.InNamespace(t) {
		return
	}
	t.Run("reserve", func(t *testing.T) {
		dir := disk(t, "size=160m")
		g := startGateway(t, filepath.Join(dir, "log"), testrun.FreeAddr(t))
		ballast := filepath.Join(dir, "ballast")
		takeUp(t, ballast, 80<<20)
		load := begin(t, g.addr)
		g.says("no space for the log")
		before := load.acked.Load()
		if status := g.health(); status != http.StatusServiceUnavailable {
			t.Errorf("/healthz returns %d while the disk is full", status)
		}
		// A new client gets no answer now, because its session would have to be stored.
		brief, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		late := &gateway.Client{Addrs: []string{g.addr}, ID: "late"}
		if seq, err := late.Submit(brief, []byte("x")); err == nil {
			t.Errorf("record %d was acknowledged on a full disk", seq)
		}
		if after := load.acked.Load(); after > before+uint64(load.client.Window) {
			t.Errorf("%d records were acknowledged on a full disk", after-before)
		}
		os.Remove(ballast)
		g.says("there is space for the log again")
		load.reach(before + 300)
		if g.health() != http.StatusOK {
			t.Error("/healthz still fails after space was freed")
		}
		late.Close(t.Context())
		load.end()
		g.kill()
		load.stored(filepath.Join(dir, "log"))
	})
	t.Run("the log fails", func(t *testing.T) {
		dir := disk(t, "size=600m,nr_inodes=150")
		addr := testrun.FreeAddr(t)
		g := startGateway(t, filepath.Join(dir, "log"), addr)
		ballast := filepath.Join(dir, "ballast")
		must(t, os.Mkdir(ballast, 0o700))
		for n := 0; ; n++ { // use up all inodes: the log needs one for its next segment
			err := os.WriteFile(filepath.Join(ballast, fmt.Sprint(n)), nil, 0o600)
			if errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		load := begin(t, addr)
		if code := g.wait(); code != commandline.Failed {
			t.Errorf("honed ended with %d", code)
		}
		before := load.acked.Load()
		t.Logf("%s", g.lastLine())
		for _, word := range []string{"no space left on device", "restart honed"} {
			if !strings.Contains(g.lastLine(), word) {
				t.Errorf("the last line lacks %q: %s", word, g.lastLine())
			}
		}
		code, out, errs := honed(t, "verify", "--data", filepath.Join(dir, "log"))
		if code != commandline.OK {
			t.Errorf("verify on a full disk: %d %s%s", code, out, errs)
		}
		os.RemoveAll(ballast)
		g = startGateway(t, filepath.Join(dir, "log"), addr)
		load.reach(before + 300)
		load.end()
		g.kill()
		load.stored(filepath.Join(dir, "log"))
	})
}

// disk mounts an empty file system.
func disk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, options)
	return dir
}

// takeUp makes a file that takes up space.
func takeUp(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
	}
	must(t, err)
}

// mount hides dir behind an empty file system.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// ran is a honed process.
type ran struct {
	t           *testing.T
	cmd         *exec.Cmd
	stdin       io.Closer
	listen      []string    // addresses
	addr, admin string      // the first one
	line        chan []byte // what it prints when it is ready
	ended       chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
}

// Write collects the process's standard error.
func (g *ran) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.said.Write(b)
}

func startGateway(t *testing.T, dir, listen string, more ...string) *ran {
	t.Helper()
	return startProcess(t, exec.Command(os.Args[0], append(gatewayArgs(dir, listen), more...)...))
}

func gatewayArgs(dir, listen string) []string {
	return []string{"serve", "--json", "--until-eof", "--admin", "127.0.0.1:0", "--data", dir, "--listen", listen}
}

// startProcess starts a gateway with a command line of its own.
func startProcess(t *testing.T, cmd *exec.Cmd) *ran {
	t.Helper()
	g := launch(t, cmd)
	g.ready()
	return g
}

// launch starts a gateway and does not wait for it.
func launch(t *testing.T, cmd *exec.Cmd) *ran {
	t.Helper()
	g := &ran{t: t, cmd: cmd, ended: make(chan struct{}), line: make(chan []byte, 1)}
	g.cmd.Stderr = g
	stdin, err := g.cmd.StdinPipe()
	must(t, err)
	g.stdin = stdin
	out, err := g.cmd.StdoutPipe()
	must(t, err)
	must(t, g.cmd.Start())
	go func() {
		line, _ := bufio.NewReader(out).ReadBytes('\n')
		g.line <- line
		g.cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(g.kill)
	return g
}

// ready waits until the gateway serves.
func (g *ran) ready() {
	g.t.Helper()
	var ready struct {
		Listen []string
		Admin  string
	}
	if err := json.Unmarshal(<-g.line, &ready); err != nil {
		<-g.ended
		g.t.Fatalf("honed did not start: %s", g.said.String())
	}
	g.listen, g.addr, g.admin = ready.Listen, ready.Listen[0], ready.Admin
}

func (g *ran) kill() {
	g.cmd.Process.Kill()
	<-g.ended
	g.stdin.Close()
}

// wait returns the exit code.
func (g *ran) wait() int {
	g.t.Helper()
	select {
	case <-g.ended:
	case <-time.After(time.Minute):
		g.t.Fatal("honed does not exit")
	}
	return g.cmd.ProcessState.ExitCode()
}

// says waits until honed has written a text to standard error.
func (g *ran) says(text string) {
	g.t.Helper()
	eventually(g.t, text, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Contains(g.said.String(), text)
	})
}

func (g *ran) lastLine() string {
	lines := strings.Split(strings.TrimSpace(g.said.String()), "\n")
	return lines[len(lines)-1]
}

func (g *ran) health() int {
	g.t.Helper()
	resp, err := http.Get("http://" + g.admin + "/healthz")
	must(g.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("timed out after a minute: %s", what)
		}
	}
}

// load is a client that submits until end is called.
type load struct {
	t      *testing.T
	client *gateway.Client
	acked  atomic.Uint64
	stop   context.CancelFunc
	ended  chan struct{}
}

// loadSize is large, so that the disk fills quickly.
const loadSize = 16 << 10

// fill makes the data of record n.
func fill(data []byte, n uint64) {
	copy(data, bytes.Repeat(binary.BigEndian.AppendUint64(nil, n), len(data)/8))
}

func begin(t *testing.T, addr string) *load { return beginAt(t, addr, 0) }

// beginGently is begin for tests that only need a load: 1000 records a second at most.
func beginGently(t *testing.T, addr string) *load { return beginAt(t, addr, time.Millisecond) }

// beginAt waits for each interval before each record.
func beginAt(t *testing.T, addr string, each time.Duration) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{t: t, client: &gateway.Client{Addrs: []string{addr}, ID: "load", Window: 64}, stop: stop, ended: make(chan struct{})}
	done := func(_ uint64, err error) {
		if err == nil {
			l.acked.Add(1)
		}
	}
	go func() {
		defer close(l.ended)
		var next <-chan time.Time
		if each > 0 {
			tick := time.NewTicker(each)
			defer tick.Stop()
			next = tick.C
		}
		for n := uint64(0); ctx.Err() == nil; n++ {
			if next != nil {
				<-next
			}
			data := make([]byte, loadSize)
			if fill(data, n); ctx.Err() == nil {
				l.client.SubmitAsync(ctx, data, done)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-l.ended; l.client.Close(ctx) })
	return l
}

// reach waits until a number of records is acknowledged.
func (l *load) reach(n uint64) {
	l.t.Helper()
	eventually(l.t, fmt.Sprint(n, " acknowledged"), func() bool { return l.acked.Load() >= n })
}

// end stops the load and waits until every submitted record is acknowledged.
func (l *load) end() {
	l.t.Helper()
	l.stop()
	<-l.ended
	reports(l.t, l.client.Close(l.t.Context()))
}

// stored checks that every acknowledged record is in the log, once and in order.
func (l *load) stored(dir string) {
	l.t.Helper()
	log, err := journal.OpenReader(dir, nil)
	must(l.t, err)
	defer log.Close()
	l.storedIn(log)
}

func (l *load) storedIn(log journal.Reader) {
	l.t.Helper()
	n, want := uint64(0), make([]byte, loadSize)
	checked, err := gateway.Check(l.t.Context(), log, func(r journal.Record) error {
		if r.Client == "load" {
			if fill(want, n); !bytes.Equal(r.Data, want) {
				l.t.Errorf("record %d has other data", n)
			}
			n++
		}
		return nil
	})
	if err != nil || checked.LeftOut > 0 || n != l.acked.Load() {
		l.t.Errorf("%+v, %v; %d records, %d acknowledged", checked, err, n, l.acked.Load())
	}
	l.t.Logf("%d records acknowledged, %d stored, each once", l.acked.Load(), n)
}
