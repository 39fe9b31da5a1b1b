package framed_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// serveReady is the serve role's first line.
type serveReady struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"`
}

// serveMemory is the reply to the lines "rss", after an idle period, and "rss at once".
type serveMemory struct {
	Anonymous int64 `json:"rss_anon"` // bytes without a backing file
}

// serve is the serve role: a framed server that acknowledges every Submit with
// OK and nothing more, until standard input ends.
//
//	HONE_TEST_ENGINE  the engine's name
//	HONE_TEST_CPU     the CPU to run on; set GOMAXPROCS=1 with it
//	HONE_TEST_LIMITS  how many connections to allow
//	HONE_TEST_LATE    how to acknowledge: 1, see committer, or one of lateWays
//	HONE_TEST_TLS=1   over TLS
//	HONE_TEST_TRIED=1 do as requests say that try its patience: see tried
func (roles) serve() error {
	e, err := engineNamed(os.Getenv("HONE_TEST_ENGINE"))
	if err != nil {
		return err
	}
	if cpu := os.Getenv("HONE_TEST_CPU"); cpu != "" {
		n, err := strconv.Atoi(cpu)
		if err == nil {
			err = pinProcess(n)
		}
		if err != nil {
			return fmt.Errorf("HONE_TEST_CPU: %w", err)
		}
	}
	if err := raiseDescriptorLimit(); err != nil {
		return err
	}
	s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil })}
	if n := os.Getenv("HONE_TEST_LIMITS"); n != "" {
		if s.Limits.Conns, err = strconv.Atoi(n); err != nil {
			return fmt.Errorf("HONE_TEST_LIMITS: %w", err)
		}
	}
	switch late := os.Getenv("HONE_TEST_LATE"); late {
	case "", "0":
	case "1":
		c, err := newCommitter()
		if err != nil {
			return err
		}
		defer c.close()
		s.Handler = c
	default:
		handler, stop := lateHandler(late)
		if handler == nil {
			return fmt.Errorf("HONE_TEST_LATE: there is no way %q", late)
		}
		defer stop()
		s.Handler = handler
	}
	if os.Getenv("HONE_TEST_TRIED") == "1" {
		s.Handler = framed.HandlerFunc(tried)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if os.Getenv("HONE_TEST_TLS") == "1" {
		config, err := newTLSConfig()
		if err != nil {
			return err
		}
		ln = engine.NewTLSListener(ln, config)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	err = errors.Join(
		json.NewEncoder(os.Stdout).Encode(serveReady{ln.Addr().String(), os.Getpid()}),
		answerLines(os.Stdin),
		s.Close())
	if end := <-served; !errors.Is(end, framed.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// Operations that requests ask of a server in the tried mode, by the first byte of their
// content.
const (
	toBlock = 'B' // until the server is closed
	toSleep = 'S' // for sleepTime
	toFill  = 'F' // a reply of 8 KiB
)

const sleepTime = 50 * time.Millisecond

func tried(c framed.Call, dst, req []byte) ([]byte, error) {
	if len(req) == 0 {
		return dst, nil
	}
	switch req[0] {
	case toBlock:
		<-c.Context().Done()
	case toSleep:
		<-time.After(sleepTime)
	case toFill:
		return append(dst, make([]byte, 8<<10)...), nil
	}
	return dst, nil
}

// quiet is how long connections are idle before their memory is read: longer than Parked
// takes to rest.
const quiet = 8 * time.Second

// answerLines executes the commands in in until it ends.
func answerLines(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch lines.Text() {
		case "rss":
			<-time.After(quiet)
		case "rss at once":
		default:
			return fmt.Errorf("there is no command %q", lines.Text())
		}
		debug.FreeOSMemory()
		debug.FreeOSMemory() // what finalizers have released in the first
		n, err := anonymousMemory()
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(serveMemory{n})
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// anonymousMemory returns how much of this process's resident memory has no backing file.
func anonymousMemory() (int64, error) {
	if all, err := os.ReadFile("/proc/self/smaps_rollup"); err == nil {
		if _, rest, ok := bytes.Cut(all, []byte("\nAnonymous:")); ok {
			var kb int64
			_, err := fmt.Fscan(bytes.NewReader(rest), &kb)
			return kb << 10, err
		}
	}
	var size, resident, shared int64 // in pages
	all, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Fscan(bytes.NewReader(all), &size, &resident, &shared)
	}
	return (resident - shared) * int64(os.Getpagesize()), err
}

func engineNamed(name string) (e engine.Engine, err error) {
	return e, e.UnmarshalText([]byte(name))
}

// committer is a handler that promises every reply and settles the promises in batches,
// as a handler that commits to disk would.
type committer struct {
	alarm   *os.File // fires when the batch is due
	raw     syscall.RawConn
	stopped chan struct{}

	mu      sync.Mutex
	waiting []framed.Reply
	spare   []framed.Reply
}

const (
	commitAfter = 300 * time.Microsecond // after the first of a batch
	commitCount = 256                    // or when so many wait
)

func newCommitter() (*committer, error) {
	const monotonic = 1
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	// A kernel timer, because the runtime rounds waits up to milliseconds when it is
	// otherwise idle.
	c := &committer{alarm: os.NewFile(fd, "commit alarm"), stopped: make(chan struct{})}
	var err error
	if c.raw, err = c.alarm.SyscallConn(); err != nil {
		c.alarm.Close()
		return nil, err
	}
	go c.commit()
	return c, nil
}

// close waits for the last batch.
func (c *committer) close() {
	c.alarm.Close()
	<-c.stopped
}

func (c *committer) Handle(call framed.Call, dst, _ []byte) ([]byte, error) {
	r := call.Later()
	c.mu.Lock()
	c.waiting = append(c.waiting, r)
	n := len(c.waiting)
	c.mu.Unlock()
	switch n {
	case 1:
		return dst, c.ring(commitAfter)
	case commitCount:
		return dst, c.ring(1)
	}
	return dst, nil
}

// ring sets the alarm, replacing any earlier setting.
func (c *committer) ring(after time.Duration) error {
	var errno syscall.Errno
	err := c.raw.Control(func(fd uintptr) {
		when := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(after))} // no interval, the value
		_, _, errno = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&when)), 0, 0, 0)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("timerfd_settime", errno)
	}
	return err
}

func (c *committer) commit() {
	defer close(c.stopped)
	var rings [8]byte
	for {
		_, err := c.alarm.Read(rings[:])
		c.mu.Lock()
		batch := c.waiting
		c.waiting = c.spare[:0]
		c.mu.Unlock()
		for _, r := range batch {
			r.Send(nil) // ignores a connection that has ended
		}
		clear(batch)
		c.spare = batch
		if err != nil {
			return
		}
	}
}

// scenario is one way to load a server.
type scenario struct {
	name   string
	plan   loadPlan
	pinned bool     // server and client on one CPU each
	late   string   // how the server acknowledges: HONE_TEST_LATE of serve; empty: inline
	also   []string // engines in addition to engine.All
}

// scenarios differ in what dominates their cost: A wake-ups, A2 the same without pinning,
// O sleeping and waking at a fixed rate, B the code itself, C cache misses with many
// connections; and A and B with late replies.
func scenarios() []scenario {
	return []scenario{
		{name: "A", plan: loadPlan{Conns: 100, Depth: 1}, pinned: true, also: []string{offload}},
		{name: "A2", plan: loadPlan{Conns: 100, Depth: 1}},
		{name: "O", plan: loadPlan{Conns: 100, Depth: 64, Rate: 50_000}, pinned: true},
		{name: "B", plan: loadPlan{Conns: 100, Depth: 64}, pinned: true},
		{name: "C", plan: loadPlan{Conns: 2000, Depth: 1}, pinned: true},
		{name: "late-A", plan: loadPlan{Conns: 100, Depth: 1}, pinned: true, late: "1"},
		{name: "late-B", plan: loadPlan{Conns: 100, Depth: 64}, pinned: true, late: "1"},
	}
}

// sample is one window of one engine.
type sample struct {
	cpu, client float64 // microseconds per request
	rate        float64 // requests per second
	busy        float64 // the client's share of one CPU
	others      float64 // of one CPU, used by other processes
	p50, p99    float64 // microseconds
}

// benchSettings come from the environment, for longer or shorter runs.
type benchSettings struct {
	rounds int           // HONE_BENCH_ROUNDS, 5
	window time.Duration // HONE_BENCH_WINDOW, 1.5s
	seed   uint64        // HONE_BENCH_SEED, the time; determines the order of runs
	names  []string      // HONE_BENCH_ENGINES, separated by commas; all
	chosen bool          // names are exactly those requested
	cpus   []int
}

// with adds engines to compare, unless they were chosen.
func (s benchSettings) with(more ...string) benchSettings {
	if !s.chosen {
		s.names = append(slices.Clip(s.names), more...)
	}
	return s
}

func settings(b *testing.B) benchSettings {
	s := benchSettings{rounds: 5, window: 1500 * time.Millisecond, seed: uint64(time.Now().UnixNano())}
	var err error
	from := func(key string, parse func(string) error) {
		if v := os.Getenv(key); v != "" && err == nil {
			if err = parse(v); err != nil {
				err = fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	from("HONE_BENCH_ROUNDS", func(v string) (err error) { s.rounds, err = strconv.Atoi(v); return err })
	from("HONE_BENCH_WINDOW", func(v string) (err error) { s.window, err = time.ParseDuration(v); return err })
	from("HONE_BENCH_SEED", func(v string) (err error) { s.seed, err = strconv.ParseUint(v, 10, 64); return err })
	from("HONE_BENCH_ENGINES", func(v string) error {
		s.names, s.chosen = strings.Split(v, ","), true
		for _, name := range s.names {
			if _, err := engineNamed(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && (s.rounds < 1 || s.rounds > 1000 || s.window < 10*time.Millisecond || s.window > 5*time.Minute) {
		err = errors.New("HONE_BENCH_ROUNDS is 1 to 1000, HONE_BENCH_WINDOW 10ms to 5m")
	}
	if err == nil {
		s.cpus, err = allowedCPUs()
	}
	if err != nil {
		b.Fatal(err)
	}
	if s.names == nil {
		for _, e := range engine.All() {
			s.names = append(s.names, e.Name())
		}
	}
	return s
}

// BenchmarkEngines compares the engines by the server's CPU time per request. Every
// sample is a fresh server and a fresh client, each in its own process; the rounds
// interleave the engines in random order, so that noise affects all of them.
//
//	go test -run '^$' -bench Engines -benchtime 1x ./framed
//	go test -run '^$' -bench 'Engines/^A$' -benchtime 1x ./framed
//
// Single figures mean little: compare the ratios, and consider their spread. "busy" is
// the client's share of a CPU (in the open loop it spins); "others" is what other
// processes used, which should be close to zero.
func BenchmarkEngines(b *testing.B) {
	set := settings(b)
	order := rand.New(rand.NewPCG(set.seed, 0))
	for _, sc := range scenarios() {
		b.Run(sc.name, func(b *testing.B) {
			set := set.with(sc.also...)
			samples, retaken := map[string][]sample{}, 0
			for range set.rounds {
				for _, i := range order.Perm(len(set.names)) {
					name := set.names[i]
					s, again := measure(b, set, sc, name)
					samples[name], retaken = append(samples[name], s), retaken+again
				}
			}
			ratios := map[string]spread{}
			for _, name := range set.names {
				ratios[name] = ratioTo(samples["buffered"], samples[name])
			}
			for _, name := range set.names {
				b.Run(name, func(b *testing.B) {
					cpu := spreadOf(samples[name], func(s sample) float64 { return s.cpu })
					rate := spreadOf(samples[name], func(s sample) float64 { return s.rate })
					b.ReportMetric(0, "ns/op") // meaningless here; 0 omits it
					b.ReportMetric(cpu.median, "cpu-µs/req")
					b.ReportMetric(rate.median, "req/s")
					if r := ratios[name]; r.n > 0 {
						b.ReportMetric(r.median, "×buffered")
					}
				})
			}
			fmt.Print(table(set, sc, samples, ratios)) // b.Log prints nothing in a benchmark with sub-benchmarks
			if retaken > 0 {
				fmt.Printf("%d samples repeated because other processes were busy; the remaining noise is under \"others\"\n", retaken)
			}
		})
	}
}

// A sample is repeated, at most twice, when other processes used more than disturbedAt of
// one CPU during it. The decision does not depend on the result.
const disturbedAt = 0.6

// measure takes one sample, and returns how many it has discarded for it.
func measure(b *testing.B, set benchSettings, sc scenario, name string) (sample, int) {
	b.Helper()
	for retaken := 0; ; retaken++ {
		s, fault := measureOnce(b, set, sc, name)
		if s.others > disturbedAt && retaken < 2 {
			continue
		}
		if fault != "" {
			b.Fatalf("%s/%s: %s", sc.name, name, fault)
		}
		return s, retaken
	}
}

// measureOnce runs a new server and a new client for one window.
func measureOnce(b *testing.B, set benchSettings, sc scenario, name string) (s sample, fault string) {
	b.Helper()
	plan := sc.plan
	plan.CPU, plan.Size, plan.WarmMS, plan.WindowMS = -1, 16, 500, int(set.window/time.Millisecond)
	env := []string{"HONE_TEST_ENGINE=" + name, "HONE_TEST_LATE=" + sc.late}
	if sc.pinned && len(set.cpus) > 1 {
		env = append(env, "GOMAXPROCS=1", "HONE_TEST_CPU="+strconv.Itoa(set.cpus[0]))
		plan.CPU = set.cpus[1]
	}
	server, ready := startServer(b, env...)
	defer server.end(b)
	plan.Network, plan.Addr, plan.ServerPID = "tcp", ready.Addr, ready.PID
	r := startLoad(b, plan).report(b)
	n, elapsed := float64(r.Requests), float64(r.ElapsedNS)
	s = sample{
		cpu:    float64(*r.ServerCPU) / 1e3 / n,
		client: float64(r.ClientCPU) / 1e3 / n,
		rate:   n / elapsed * 1e9,
		busy:   float64(r.ClientCPU) / elapsed,
		others: float64(r.Others) / elapsed,
		p50:    r.P50,
		p99:    r.P99,
	}
	if r.Wrong > 0 || r.Unanswered > 0 || r.Requests == 0 {
		fault = fmt.Sprintf("%d acks, %d wrong, %d requests unanswered; other processes used %.0f%% of a CPU",
			r.Requests, r.Wrong, r.Unanswered, 100*s.others)
	}
	return s, fault
}

func startServer(tb testing.TB, env ...string) (*child, serveReady) {
	tb.Helper()
	server := startChild(tb, "serve", env...)
	var ready serveReady
	server.answer(tb, childStart, &ready)
	return server, ready
}

// loading is a plan in progress.
type loading struct {
	client *child
	plan   loadPlan
}

// startLoad runs a plan in a dedicated process: no garbage collections, no preemption
// signals, one processor.
func startLoad(tb testing.TB, plan loadPlan) loading {
	if plan.DrainMS == 0 {
		plan.DrainMS = 1000
	}
	tb.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		tb.Fatal(err)
	}
	return loading{startChild(tb, "load", "HONE_TEST_PLAN="+string(text), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1"), plan}
}

// report waits for the plan's end.
func (l loading) report(tb testing.TB) (r loadReport) {
	tb.Helper()
	defer l.client.end(tb)
	took := time.Duration(l.plan.WarmMS+l.plan.WindowMS+l.plan.DrainMS) * time.Millisecond
	l.client.answer(tb, childStart+took, &r)
	return r
}

// spread summarises one figure over several rounds.
type spread struct {
	n                int
	median, min, max float64
}

func spreadOf[T any](rounds []T, figure func(T) float64) spread {
	var all []float64
	for _, r := range rounds {
		all = append(all, figure(r))
	}
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	middle := len(all) / 2
	median := all[middle]
	if len(all)%2 == 0 {
		median = (all[middle-1] + all[middle]) / 2
	}
	return spread{len(all), median, all[0], all[len(all)-1]}
}

// ratioTo compares CPU times round by round, so that noise that affected both cancels
// out.
func ratioTo(base, samples []sample) spread {
	var ratios []float64
	for i := range min(len(base), len(samples)) {
		if base[i].cpu > 0 {
			ratios = append(ratios, samples[i].cpu/base[i].cpu)
		}
	}
	return spreadOf(ratios, func(r float64) float64 { return r })
}

func table(set benchSettings, sc scenario, samples map[string][]sample, ratios map[string]spread) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s: %d connections × depth %d", sc.name, sc.plan.Conns, sc.plan.Depth)
	if sc.plan.Rate > 0 {
		fmt.Fprintf(&t, ", %d requests/s", sc.plan.Rate)
	}
	if sc.late != "" {
		t.WriteString(", late replies")
	}
	switch {
	case !sc.pinned:
		t.WriteString(", not pinned")
	case len(set.cpus) > 1:
		fmt.Fprintf(&t, ", server on CPU %d, client on CPU %d", set.cpus[0], set.cpus[1])
	default:
		t.WriteString(", NOT PINNED: this machine has one CPU, and both sides share it")
	}
	fmt.Fprintf(&t, "; %d rounds of %v, seed %d; median (min–max)\n", set.rounds, set.window, set.seed)
	const row = "%-14s  %-22s %-22s %8s %9s %9s %11s %6s %7s\n"
	fmt.Fprintf(&t, row, "engine", "server CPU µs/req", "× buffered", "kreq/s", "p50 µs", "p99 µs", "client µs", "busy", "others")
	for _, name := range set.names {
		of := func(figure func(sample) float64) spread { return spreadOf(samples[name], figure) }
		cpu, ratio := of(func(s sample) float64 { return s.cpu }), "-"
		if r := ratios[name]; r.n > 0 {
			ratio = fmt.Sprintf("%.2f (%.2f–%.2f)", r.median, r.min, r.max)
		}
		median := func(format string, figure func(sample) float64) string { return fmt.Sprintf(format, of(figure).median) }
		fmt.Fprintf(&t, row, name,
			fmt.Sprintf("%.3f (%.3f–%.3f)", cpu.median, cpu.min, cpu.max), ratio,
			median("%.1f", func(s sample) float64 { return s.rate / 1e3 }),
			median("%.1f", func(s sample) float64 { return s.p50 }),
			median("%.1f", func(s sample) float64 { return s.p99 }),
			median("%.3f", func(s sample) float64 { return s.client }),
			median("%.0f%%", func(s sample) float64 { return 100 * s.busy }),
			median("%.0f%%", func(s sample) float64 { return 100 * s.others }))
	}
	return t.String()
}

// BenchmarkIdleMemory reports how much memory of the server's process an idle connection
// costs that was used once. The kernel's memory is not included.
//
//	go test -run '^$' -bench IdleMemory -benchtime 1x ./framed
func BenchmarkIdleMemory(b *testing.B) {
	const first = 100 // before the first reading, to exclude one-time costs
	idle := idleConns(b, first, 15_000, 10_000)
	for _, e := range engine.All() {
		b.Run(e.Name(), func(b *testing.B) {
			server, ready := startServer(b, "HONE_TEST_ENGINE="+e.Name(), "HONE_TEST_LIMITS="+strconv.Itoa(first+idle+16))
			defer server.end(b)
			var before, after serveMemory
			closeFirst := openServed(b, ready.Addr, first)
			defer closeFirst()
			server.ask(b, "rss", childStart, &before)
			closeIdle := openServed(b, ready.Addr, idle)
			defer closeIdle()
			server.ask(b, "rss", childStart, &after)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(after.Anonymous-before.Anonymous)/float64(idle), "B/conn")
			b.ReportMetric(float64(before.Anonymous), "B-before")
			b.ReportMetric(float64(idle), "conns")
		})
	}
}

// idleConns returns the first of the wanted numbers of connections that the descriptor
// limit allows in addition to others, or as many as possible. The server's process has
// the same limit.
func idleConns(b *testing.B, others int, wanted ...int) int {
	b.Helper()
	const slack = 128
	if err := raiseDescriptorLimit(); err != nil {
		b.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	can := int(min(limit.Cur, 1<<30)) - len(open) - others - slack // a large limit also means unlimited
	for _, want := range wanted {
		if can >= want {
			return want
		}
	}
	if can < 1 {
		b.Skipf("RLIMIT_NOFILE is %d: too few descriptors for any connection", limit.Cur)
	}
	fmt.Printf("RLIMIT_NOFILE is %d: %d connections instead of %d\n", limit.Cur, can, wanted[0])
	return can
}

// openServed opens n connections, exchanges one request on each, and returns a function
// that closes them.
func openServed(b *testing.B, addr string, n int) (closeAll func()) {
	b.Helper()
	conns := make([]int, 0, n)
	closeAll = func() {
		for _, fd := range conns {
			syscall.Close(fd)
		}
	}
	request := wire.Standard.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("sixteen bytes...")})
	var ack [64]byte
	for range n {
		fd, err := loadDial("tcp", addr)
		if err == nil {
			conns = append(conns, fd)
			_, err = uninterrupted(func() (int, error) { return syscall.Write(fd, request) })
		}
		for got, need := 0, 1; err == nil && need > 0; {
			var k int
			k, err = uninterrupted(func() (int, error) { return syscall.Read(fd, ack[got:]) })
			if err == nil && k == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				got += k
				_, need, err = wire.Frame(ack[:got], len(ack))
			}
		}
		if err != nil {
			closeAll()
			b.Fatalf("connection %d of %d: %v", len(conns), n, err)
		}
	}
	return closeAll
}

// The tests of the benchmarks' client: it must count correctly and detect wrong replies.

func TestLoadClient(t *testing.T) {
	const warm = 10 // ms
	for _, e := range engine.All() {
		for _, late := range []string{"0", "1"} {
			server, ready := startServer(t, "HONE_TEST_ENGINE="+e.Name(), "HONE_TEST_LATE="+late)
			for _, rate := range []int{0, 5000} {
				t.Run(fmt.Sprintf("%s/late=%s/rate=%d", e.Name(), late, rate), func(t *testing.T) {
					var r loadReport
					window := 15                                            // ms
					for again := 0; r.Requests == 0 && again < 6; again++ { // on a busy machine a short one may contain none
						window *= 2
						r = startLoad(t, loadPlan{Network: "tcp", Addr: ready.Addr, ServerPID: ready.PID,
							Conns: 7, Depth: 3, Rate: rate, WarmMS: warm, WindowMS: window, DrainMS: 20_000, Size: 16, CPU: -1, Check: true}).report(t)
					}
					if r.Requests == 0 || r.Wrong != 0 || r.Unanswered != 0 || r.ServerCPU == nil || *r.ServerCPU <= 0 || r.ClientCPU <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
						t.Errorf("%+v", r)
					}
					if r.Allocs > 50 {
						t.Errorf("the client allocated %d times for %d requests", r.Allocs, r.Requests)
					}
					if due := int64(rate * (warm + window) / 1000); rate > 0 && r.Requests > due+1 {
						t.Errorf("%d requests by %d ms, want %d at most at %d/s", r.Requests, warm+window, due, rate)
					}
				})
			}
			server.end(t)
		}
	}
}

func TestLoadClientSeesWrongAcks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		liar(ln)
	}()
	r := startLoad(t, loadPlan{Network: "tcp", Addr: ln.Addr().String(), Conns: 1, Depth: 8, WindowMS: 200, DrainMS: 50, Size: 16, CPU: -1}).report(t)
	ln.Close()
	<-served
	// Three requests are settled: one correctly, one with a failure, one twice. An ack
	// with an unknown id settles nothing, and the rest stay unanswered.
	if r.Requests != 3 || r.Wrong != 3 || r.Unanswered != 8 || r.ServerCPU != nil {
		t.Errorf("%+v, want 3 requests, 3 wrong, 8 unanswered, no server CPU", r)
	}
}

// liar serves one connection as TestLoadClientSeesWrongAcks describes.
func liar(ln net.Listener) {
	conn, err := ln.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	frame := make([]byte, wire.HeaderSize+9+16)
	for i := 0; ; i++ {
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		p, err := wire.Standard.Parse(frame[wire.HeaderSize:])
		if err != nil {
			return
		}
		p.Command, p.Content = wire.SubmitAck, nil
		var out []byte
		switch i {
		case 1:
			p.Result = wire.Failed
			out = wire.Standard.Append(out, p)
		case 3:
			p.ID ^= 1 << 40
			out = wire.Standard.Append(out, p)
		case 2:
			out = wire.Standard.Append(wire.Standard.Append(out, p), p)
		case 0:
			out = wire.Standard.Append(out, p)
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func TestLoadHistogram(t *testing.T) {
	var h loadHistogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("the median of no values is %v", got)
	}
	for v := int64(1); v < 1<<40; v *= 3 {
		h = loadHistogram{}
		h.add(v)
		if got := h.quantile(0.5); got < float64(v)*0.99 || got > float64(v)*1.01 {
			t.Errorf("%d came back as %v", v, got)
		}
	}
	h = loadHistogram{}
	for v := range int64(10_000) {
		h.add(v * 1000)
	}
	for _, q := range []float64{0.5, 0.99, 1} {
		if got, want := h.quantile(q), q*1e7; got < want*0.98 || got > want*1.02 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
}
