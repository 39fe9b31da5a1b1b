package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/journal"
)

// play is what this binary does when a test starts it again: a server in a process of its
// own, so that its CPU time is its own, until standard input ends.
func play(role string) error {
	kind, dir, _ := strings.Cut(role, " ")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	var log journal.Log
	switch kind {
	case "memory":
		log = &forgetful{}
	default:
		log, err = journal.OpenSegments(filepath.Join(dir, "log"), journal.SegmentsOptions{})
	}
	if err != nil {
		return err
	}
	defer log.Close()
	srv := &Server{Log: log, Limits: engine.Limits{Conns: 16_000}}
	ended := make(chan error, 1)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended <- srv.Close()
	}()
	serve := map[string]func(net.Listener) error{"posts": srv.ServePosts, "mqtt": srv.ServeMQTT}[kind]
	if serve == nil {
		serve = srv.Serve
	}
	if err := serve(ln); err != ErrServerClosed {
		return err
	}
	return <-ended
}

// forgetful is a log that keeps nothing but the position of the latest envelope.
type forgetful struct {
	Memory
	last atomic.Uint64
}

func (f *forgetful) Append(context.Context, []byte) (uint64, error) { return f.last.Add(1), nil }
func (f *forgetful) Bounds() (uint64, uint64, error) {
	next := f.last.Load() + 1
	return next, next, nil
}

// process is a server that a benchmark has started.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
	dir   string // of the log
}

func startProcess(b testing.TB, kind string) *process {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "log")
	must(b, os.Mkdir(dir, 0o700))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HONE_GATEWAY_ROLE="+kind+" "+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(b, err)
	stdout, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	p := &process{cmd: cmd, stdin: stdin, dir: dir}
	b.Cleanup(p.stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(b, err)
	p.addr = strings.TrimSpace(line)
	return p
}

// stop ends the process.
func (p *process) stop() {
	p.stdin.Close()
	p.cmd.Wait()
}

// cpu is the processor time that the process's threads have used, in nanoseconds: the
// ticks of /proc/PID/stat are too coarse for a short run.
func (p *process) cpu(b *testing.B) (sum time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		b.Fatalf("no threads of %d: %v", p.cmd.Process.Pid, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		ran, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		must(b, err)
		sum += time.Duration(ran)
	}
	return sum
}

// BenchmarkGateway measures acknowledged records a second, the server's CPU time for each
// and the latency. A record has 128 bytes. memory is a log that keeps nothing.
func BenchmarkGateway(b *testing.B) {
	for _, shape := range []struct{ conns, window int }{{4, 256}, {100, 16}, {100, 1024}} {
		for _, kind := range []struct {
			name, log string
			level     Level
		}{
			{"memory", "memory", Default},
			{"received-memory", "memory", Received},
			{"received", "segments", Received},
			{"segments", "segments", Default},
		} {
			b.Run(fmt.Sprintf("%dx%d/%s", shape.conns, shape.window, kind.name), func(b *testing.B) {
				measure(b, kind.log, kind.level, shape.conns, shape.window, 0)
			})
		}
	}
}

// BenchmarkOpenLoop offers records at a rate: ns/op is nothing, p50 and p99 are.
func BenchmarkOpenLoop(b *testing.B) {
	for _, rate := range []int{50_000, 100_000} {
		b.Run(fmt.Sprintf("%d/segments", rate), func(b *testing.B) { measure(b, "segments", Default, 8, 1024, rate) })
		b.Run(fmt.Sprintf("%d/received", rate), func(b *testing.B) { measure(b, "segments", Received, 8, 1024, rate) })
	}
}

func measure(b *testing.B, kind string, level Level, conns, window, rate int) {
	p := startProcess(b, kind)
	clients := make([]*Client, conns)
	for i := range clients {
		clients[i] = &Client{Addrs: []string{p.addr}, ID: fmt.Sprint("c", i), Window: window, Level: level}
		works(b)(clients[i].Open(context.Background()))
	}
	before := p.cpu(b)
	var all times
	var feeding sync.WaitGroup
	began := time.Now()
	b.ResetTimer()
	for i, c := range clients {
		share := b.N / conns
		if i < b.N%conns {
			share++
		}
		feeding.Go(func() { feed(b, c, share, float64(rate)/float64(conns), &all) })
	}
	feeding.Wait()
	b.StopTimer()
	took := time.Since(began)
	b.ReportMetric(float64(b.N)/took.Seconds(), "acked/s")
	b.ReportMetric(float64((p.cpu(b)-before).Microseconds())/float64(b.N), "server-cpu-µs/record")
	b.ReportMetric(all.quantile(0.5), "p50-ms")
	b.ReportMetric(all.quantile(0.99), "p99-ms")
}

// times are how long some records took.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *times) quantile(q float64) float64 {
	if len(t.all) == 0 {
		return 0
	}
	slices.Sort(t.all)
	return float64(t.all[int(q*float64(len(t.all)-1))].Microseconds()) / 1000
}

// feed submits n records; with a rate, each is due at its own time, and late from then on.
func feed(b *testing.B, c *Client, n int, rate float64, all *times) {
	data := make([]byte, 128)
	var mine []time.Duration // the reader's alone, until Close
	sample := 16
	if rate > 0 {
		sample = 1
	}
	starts := make([]time.Time, 2048)
	done := func(seq uint64, err error) {
		if err != nil {
			b.Error(err)
		} else if seq%uint64(sample) == 0 {
			mine = append(mine, time.Since(starts[seq%2048]))
		}
	}
	began := time.Now()
	for i := range n {
		due := time.Now()
		if rate > 0 {
			due = began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if wait := time.Until(due); wait > 0 {
				<-time.After(wait)
			}
		}
		starts[(i+1)%2048] = due
		if _, err := c.SubmitAsync(context.Background(), data, done); err != nil {
			b.Error(err)
			break
		}
	}
	reports(b, c.Close(context.Background()))
	all.mu.Lock()
	defer all.mu.Unlock()
	all.all = append(all.all, mine...)
}

// slowDisk is a log whose appends take ten milliseconds, or longer where its timer comes late.
type slowDisk struct {
	Memory
	ended   time.Time
	longest atomic.Int64 // time of an append
	between atomic.Int64 // the longest time between two
}

func (l *slowDisk) Append(ctx context.Context, envelope []byte) (uint64, error) {
	began := time.Now()
	l.between.Store(max(l.between.Load(), int64(began.Sub(l.ended))))
	<-time.After(10 * time.Millisecond)
	l.ended = time.Now()
	l.longest.Store(max(l.longest.Load(), int64(l.ended.Sub(began))))
	return l.Memory.Append(ctx, envelope)
}

// BenchmarkCheckpointBeside measures how long a client with one record each millisecond waits for its acknowledgements
// while a checkpoint of a million sessions is stored, and for as long after it. What a checkpoint costs is the time between
// two appends; the rest of the worst wait is late timers, on a machine that has other work.
func BenchmarkCheckpointBeside(b *testing.B) {
	log := &slowDisk{}
	crowd(b, &log.Memory, 999_000)
	up := serve(b, &Server{Log: log})
	must(b, up.Recover(b.Context()))
	c := &Client{Addrs: []string{up.addr}, ID: "c", Window: 4096}
	works(b)(c.Open(b.Context()))
	var mu sync.Mutex
	var waits []time.Duration
	during := func(name string, goesOn func() bool) {
		mu.Lock()
		waits = nil
		mu.Unlock()
		began, before := time.Now(), ownCPU(b)
		log.longest.Store(0)
		log.between.Store(0)
		for due := began; goesOn(); due = due.Add(time.Millisecond) {
			<-time.After(time.Until(due))
			_, err := c.SubmitAsync(context.Background(), make([]byte, 128), func(_ uint64, err error) {
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(due))
			})
			must(b, err)
		}
		cpu := (ownCPU(b) - before).Seconds() / time.Since(began).Seconds()
		mu.Lock()
		defer mu.Unlock()
		all := &times{all: slices.Clone(waits)}
		b.ReportMetric(cpu, name+"-cpu")
		b.ReportMetric(all.quantile(0.5), name+"-p50-ms")
		b.ReportMetric(all.quantile(0.99), name+"-p99-ms")
		b.ReportMetric(all.quantile(1), name+"-worst-ms")
		b.ReportMetric(float64(log.longest.Load())/1e6, name+"-longest-append-ms")
		b.ReportMetric(float64(log.between.Load())/1e6, name+"-longest-between-ms")
	}
	for b.Loop() {
		up.queue.mu.Lock()
		was := up.queue.base
		up.committer.checkpointed = -up.Expiry.Milliseconds()
		up.queue.mu.Unlock()
		began := time.Now()
		up.tick()
		during("beside", up.locked(func() bool { return up.queue.base == was }))
		took := time.Since(began)
		b.ReportMetric(took.Seconds(), "checkpoint-s")
		began = time.Now()
		during("alone", func() bool { return time.Since(began) < took })
	}
	must(b, c.Close(context.Background()))
}

// ownCPU is the processor time that this process has used.
func ownCPU(b *testing.B) time.Duration {
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkClient is the cost of a record on the client's side, and its allocations.
func BenchmarkClient(b *testing.B) {
	p := startProcess(b, "memory")
	c := &Client{Addrs: []string{p.addr}, ID: "c"}
	works(b)(c.Open(context.Background()))
	data := make([]byte, 128)
	done := func(uint64, error) {}
	b.ReportAllocs()
	for b.Loop() {
		works(b)(c.SubmitAsync(context.Background(), data, done))
	}
	c.Close(context.Background())
}
