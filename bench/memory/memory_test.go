//go:build linux

// Package memory attacks servers with clients that do not read, read slowly or do not
// finish what they send, and compares what the servers' processes then take with what
// their limits promise (docs/limits.md). Every server is a process of its own:
//
//	go test ./memory -timeout 30m -v -args -all
package memory

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/wire"
)

var (
	all     = flag.Bool("all", false, "attack every engine, not only events, and with full crowds")
	program = flag.String("hone", "", "the hone to attack, instead of one built here")
)

const (
	mib    = 1 << 20
	budget = 128 * mib // total-output and total-input, by default
)

// attack is a crowd that asks for much.
type attack struct {
	name    string
	conns   int
	ask     []string      // what each connection asks for, all at once
	largest int           // reply
	every   time.Duration // each reads 4 KiB so often; 0: never
	raw     []byte        // instead of requests
	lasts   time.Duration
}

func attacks() []attack {
	return []attack{
		{name: "2000 slow readers of 40 x 60 KB", conns: 2000, ask: slices.Repeat([]string{"reply 60000"}, 40), largest: 60_000, every: 400 * time.Millisecond, lasts: 8 * time.Second},
		{name: "2000 slow readers of 100 x 60 KB", conns: 2000, ask: slices.Repeat([]string{"reply 60000"}, 100), largest: 60_000, every: 400 * time.Millisecond, lasts: 8 * time.Second},
		{name: "60 readers of 16 MB", conns: 60, ask: []string{"reply 16000000"}, largest: 16_000_000, every: 20 * time.Millisecond, lasts: 6 * time.Second},
		{name: "100 readers of 16 MB", conns: 100, ask: []string{"reply 16000000"}, largest: 16_000_000, every: 20 * time.Millisecond, lasts: 6 * time.Second},
		{name: "100 that do not read 16 MB", conns: 100, ask: []string{"reply 16000000"}, largest: 16_000_000, lasts: 6 * time.Second},
		{name: "pushes to 2000 that do not read", conns: 2000, ask: slices.Repeat([]string{"push 100 6000"}, 10), largest: 600_000, lasts: 8 * time.Second},
		{name: "late replies to 2000 that do not read", conns: 2000, ask: slices.Repeat([]string{"late 5ms 240000"}, 10), largest: 240_000, lasts: 8 * time.Second},
		{name: "15000 unfinished messages", conns: 15_000, raw: unfinished(60_000), lasts: 4 * time.Second},
	}
}

// unfinished is the first half of a message of that size.
func unfinished(size int) []byte {
	frame := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: make([]byte, size)})
	return frame[:len(frame)/2]
}

func TestMemoryUnderAttack(t *testing.T) {
	hone := build(t)
	engines := []string{"events"}
	if *all {
		engines = append(engines, "buffered")
	}
	for _, a := range attacks() {
		if !*all {
			a.conns = min(a.conns, 600)
		}
		for _, engine := range engines {
			t.Run(a.name+"/"+engine, func(t *testing.T) { a.on(t, hone, engine) })
		}
	}
}

// build is the path of the hone to attack.
func build(t *testing.T) string {
	t.Helper()
	if *program != "" {
		return *program
	}
	path := filepath.Join(t.TempDir(), "hone")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/hone-go/hone/tool/cmd/hone").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// on attacks a server with an engine, and measures.
func (a attack) on(t *testing.T, hone, engine string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, other := start(ctx, t, hone, engine), start(ctx, t, hone, engine)
	crowd := make([]net.Conn, a.conns)
	for i := range crowd {
		crowd[i] = dial(ctx, t, server.addr)
		defer crowd[i].Close()
	}
	served := crowd[:1] // what the service itself keeps is not the budget's
	if a.raw != nil {
		served = crowd // nor is a connection's own read buffer, of which an engine touches nothing before the first read
	}
	for _, c := range served {
		if err := ask(c, 1, "reply 1", "x"); err != nil {
			t.Fatal(err)
		}
	}
	healthy := []*healthy{newHealthy(ctx, t, server.addr), newHealthy(ctx, t, other.addr)}
	pause(ctx, 500*time.Millisecond)
	base, kernel := server.resident(t), kernelMemory(t)

	watched, stop := context.WithCancel(ctx)
	var peak, tcp atomic.Int64
	var watching sync.WaitGroup
	watching.Go(func() {
		for watched.Err() == nil {
			peak.Store(max(peak.Load(), server.resident(t)))
			tcp.Store(max(tcp.Load(), kernelMemory(t)-kernel))
			pause(watched, 10*time.Millisecond)
		}
	})
	for _, h := range healthy {
		watching.Go(func() { h.ask(watched) })
	}
	message := a.raw
	for i, content := range a.ask {
		message = wire.Append(message, wire.Packet{Command: wire.Submit, ID: uint64(i + 1), Content: []byte(content)})
	}
	for _, c := range crowd {
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write(message); err != nil {
			t.Logf("a request: %v", err) // the server may be done with it
		}
	}
	attacked, done := context.WithTimeout(ctx, a.lasts)
	defer done()
	if a.every > 0 {
		watching.Go(func() { readSlowly(attacked, crowd, a.every) })
	}
	<-attacked.Done()
	stop()
	watching.Wait()
	for _, c := range crowd {
		c.Close()
	}
	closed := time.Now()
	after := server.resident(t)
	for after > base+48*mib && time.Since(closed) < 15*time.Second {
		pause(ctx, 100*time.Millisecond)
		after = server.resident(t)
	}

	most := base + 2*budget + 2*int64(runtime.NumCPU()*a.largest) + 64*mib
	if a.raw != nil {
		most = base + budget + budget/10
	}
	near, far := healthy[0].p99(), healthy[1].p99()
	t.Logf("base %d, peak %d (at most %d), kernel %d, %d MiB %.1f s after; healthy p99 %v, of another server %v; %d and %d failed",
		base/mib, peak.Load()/mib, most/mib, tcp.Load()/mib, after/mib, time.Since(closed).Seconds(), near, far, healthy[0].failed, healthy[1].failed)
	if peak.Load() > most {
		t.Errorf("the server took %d MiB, want at most %d", peak.Load()/mib, most/mib)
	}
	if after > base+48*mib {
		t.Errorf("the server still has %d MiB a quarter of a minute after the attack, want at most %d", after/mib, base/mib+48)
	}
	if healthy[0].failed > 0 {
		t.Errorf("%d of %d healthy requests failed: %v", healthy[0].failed, len(healthy[0].took), healthy[0].err)
	}
}

// server is one hone serve.
type server struct {
	*child.Child
	addr, admin string
}

func start(ctx context.Context, t *testing.T, hone, engine string) *server {
	t.Helper()
	return startWith(ctx, t, hone, "--service", "faults", "--engine", engine, "--admin", "off")
}

func startWith(ctx context.Context, t *testing.T, hone string, flags ...string) *server {
	t.Helper()
	said := make(chan [2]string, 1)
	args := append([]string{"serve", "--addr", "127.0.0.1:0", "--limit", "conns=18000"}, flags...)
	c, err := child.Start(exec.CommandContext(ctx, hone, args...), child.Options{Signal: true, Said: func(line []byte) {
		var addrs [2]string
		for word := range bytes.FieldsSeq(line) {
			for i, name := range []string{"addr=", "admin="} {
				if a, ok := bytes.CutPrefix(word, []byte(name)); ok {
					addrs[i] = string(a)
				}
			}
		}
		if addrs[0] != "" {
			select {
			case said <- addrs:
			default:
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	select {
	case a := <-said:
		return &server{c, a[0], a[1]}
	case <-c.Ended():
		t.Fatalf("the server has ended: %s", c.Said())
	case <-ctx.Done():
		t.Fatal("the server says no address")
	}
	return nil
}

func (s *server) resident(t *testing.T) int64 {
	n, err := fleet.MemoryOf(s.PID)
	if err != nil {
		t.Errorf("the server's memory: %v", err)
	}
	return n.Resident
}

// kernelMemory is what the kernel holds for all TCP connections.
func kernelMemory(t *testing.T) int64 {
	f, err := os.Open("/proc/net/sockstat")
	if err != nil {
		t.Error(err)
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, pages, ok := strings.Cut(lines.Text(), " mem "); ok && strings.HasPrefix(lines.Text(), "TCP:") {
			n, _ := strconv.ParseInt(pages, 10, 64)
			return n * int64(os.Getpagesize())
		}
	}
	return 0
}

func dial(ctx context.Context, t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).SetReadBuffer(4096)
	return c
}

func exchange(t *testing.T, c net.Conn) {
	t.Helper()
	if err := ask(c, 1, "", ""); err != nil {
		t.Fatal(err)
	}
}

// ask has a message answered.
func ask(c net.Conn, id uint64, content, answer string) error {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: id, Content: []byte(content)})); err != nil {
		return err
	}
	want := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id, Content: []byte(answer)})
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		more, err := c.Read(got[n:])
		if err != nil {
			return err
		}
		n += more
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("answered %x, want %x", got, want)
	}
	return nil
}

// healthy is a client that does nothing wrong.
type healthy struct {
	conn   net.Conn
	took   []time.Duration
	failed int
	err    error
}

func newHealthy(ctx context.Context, t *testing.T, addr string) *healthy {
	h := &healthy{conn: dial(ctx, t, addr)}
	t.Cleanup(func() { h.conn.Close() })
	exchange(t, h.conn)
	return h
}

func (h *healthy) ask(ctx context.Context) {
	for id := uint64(2); ctx.Err() == nil; id++ {
		begun := time.Now()
		if err := ask(h.conn, id, "", ""); err != nil {
			h.failed, h.err = h.failed+1, err
			return
		}
		h.took = append(h.took, time.Since(begun))
		pause(ctx, 5*time.Millisecond)
	}
}

func (h *healthy) p99() time.Duration {
	if len(h.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(h.took))
	return sorted[len(sorted)*99/100]
}

// readSlowly has each of the crowd read 4 KiB so often.
func readSlowly(ctx context.Context, crowd []net.Conn, every time.Duration) {
	var readers sync.WaitGroup
	const share = 100
	for part := range slices.Chunk(crowd, share) {
		readers.Go(func() {
			some := make([]byte, 4096)
			for ctx.Err() == nil {
				begun := time.Now()
				for _, c := range part {
					c.SetReadDeadline(time.Now().Add(time.Millisecond))
					c.Read(some)
				}
				pause(ctx, every-time.Since(begun))
			}
		})
	}
	readers.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	if d > 0 {
		fleet.Wait(ctx, d)
	}
}
