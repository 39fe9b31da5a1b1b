package load

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// eachLoop runs the test for a closed and an open loop, over TCP and unix sockets.
func eachLoop(t *testing.T, test func(t *testing.T, network string, p Plan)) {
	for name, p := range map[string]Plan{
		"closed":  {Conns: 3, Depth: 4, For: 100 * time.Millisecond, MaxLag: time.Second},
		"open":    {Conns: 3, Rate: 2000, For: 100 * time.Millisecond, MaxLag: time.Second},
		"poisson": {Conns: 3, Rate: 2000, Arrivals: Poisson, For: 100 * time.Millisecond, MaxLag: time.Second},
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+"/"+network, func(t *testing.T) { test(t, network, p) })
		}
	}
}

func TestRunMeasures(t *testing.T) {
	eachLoop(t, func(t *testing.T, network string, p Plan) {
		longer(t, p.For, func(span time.Duration) string {
			p.Target, p.Echo, p.For = echoServer(t, network), true, span
			opened, closed := 0, 0
			p.WindowOpens, p.WindowCloses = func() { opened++ }, func() { closed++ }
			r := measured(t, p)
			if r.Errors["total"] != 0 {
				t.Fatalf("errors: %v", r.Errors)
			}
			if opened != 1 || closed != 1 {
				t.Errorf("the window opened %d times and closed %d times", opened, closed)
			}
			if r.Window != p.For || r.Interrupted || r.Server != nil {
				t.Errorf("window %v, interrupted %v, server %v", r.Window, r.Interrupted, r.Server)
			}
			if n := r.Histograms.Latency.TotalCount(); n != r.Requests {
				t.Errorf("%d requests, %d in the histogram", r.Requests, n)
			}
			if rated(r) == nil || r.Latency.P50 == nil || r.Latency.Max == nil || r.Service.P50 == nil {
				return fmt.Sprintf("figures are missing: %+v", r)
			}
			if runtime.GOOS != "windows" && (r.Client.CPUPerRequest == nil || *r.Client.CPUPerRequest <= 0 || *r.Client.CPUShare <= 0) {
				return fmt.Sprintf("client %+v", r.Client)
			}
			checkLoop(t, p, r)
			return ""
		})
	})
}

// checkLoop checks what differs between the loops.
func checkLoop(t *testing.T, p Plan, r *Result) {
	t.Helper()
	if p.Rate == 0 {
		if r.Lag.P50 != nil || r.Offered != nil || r.Histograms.Service != r.Histograms.Latency {
			t.Errorf("a closed loop has lag %v, offered %v", r.Lag.P50, r.Offered)
		}
		return
	}
	want := int64(p.Rate * p.For.Seconds())
	if p.Arrivals == Constant && r.Requests != want {
		t.Errorf("%d requests, want %d", r.Requests, want)
	}
	if r.Requests < want*8/10 || r.Requests > want*12/10 {
		t.Errorf("%d requests, want about %d", r.Requests, want)
	}
	if *r.Latency.P50 < *r.Service.P50 {
		t.Errorf("response time %v below service time %v", *r.Latency.P50, *r.Service.P50)
	}
	if r.Lag.P50 == nil || r.Lag.P90 == nil || r.Offered == nil {
		t.Errorf("an open loop without lag: %+v", r.Lag)
	}
}

func TestRunOfAPlanOfZeros(t *testing.T) {
	p := must[Plan](t)(Plan{Target: codec.Frames{Address: "127.0.0.1:1"}}.complete())
	if p.Conns != 1 || p.Depth != 1 || p.For != 10*time.Second || p.Warmup != time.Second ||
		p.Timeout != 5*time.Second || len(p.Content) != 32 || p.Expect != nil || p.MaxLag != time.Millisecond {
		t.Errorf("zeros became %+v", p)
	}
	p = must[Plan](t)(Plan{Target: codec.Frames{}, Rate: 1, Warmup: -1, Content: []byte{}, Echo: true}.complete())
	if p.Depth != 256 || p.Warmup != 0 || len(p.Content) != 0 || p.Expect == nil {
		t.Errorf("the plan became %+v", p)
	}
}

func TestRunRefusesBadPlans(t *testing.T) {
	target := codec.Frames{Address: "127.0.0.1:1"}
	nan := 0.0
	for name, p := range map[string]Plan{
		"no target": {},
		"conns":     {Target: target, Conns: -1},
		"depth":     {Target: target, Depth: -1},
		"too deep":  {Target: target, Depth: 1 << 16},
		"rate":      {Target: target, Rate: -1},
		"no rate":   {Target: target, Rate: nan / nan},
		"arrivals":  {Target: target, Arrivals: 7},
		"for":       {Target: target, For: -1},
		"timeout":   {Target: target, Timeout: -1},
		"lag":       {Target: target, MaxLag: -1},
		"stall":     {Target: target, MaxStall: -1},
		"size":      {Target: target, Size: -1},
		"ramp":      {Target: target, Ramp: -1},
	} {
		r, err := Run(context.Background(), p)
		if r != nil || faultOf(t, err).Kind != BadPlan {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// A server that reads slowly and sends long answers fills the buffers of both directions.
func TestRunWithFullBuffers(t *testing.T) {
	sideBySide(t)
	target := echoServer(t, "tcp")
	for name, p := range map[string]Plan{
		"closed": {Target: target, Conns: 2, Depth: 64},
		"open":   {Target: target, Conns: 2, Depth: 64, Rate: 2000, MaxLag: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p.Size, p.Echo, p.Requests = 60<<10, true, 400
			r := measured(t, p)
			if r.Errors["total"] != 0 || r.Requests != 400 {
				t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
			}
		})
	}
}

// throughNothing is a target whose connections implement only net.Conn, like those of TLS.
type throughNothing struct{ codec.Frames }

type plainConn struct{ net.Conn }

func (p throughNothing) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := p.Frames.Dial(ctx)
	return plainConn{nc}, err
}

func TestRunOnAnyConnection(t *testing.T) {
	for name, p := range map[string]Plan{
		"small":      {Conns: 2, Depth: 4, Size: 16},
		"large":      {Conns: 2, Depth: 16, Size: 30 << 10},
		"small open": {Conns: 2, Depth: 4, Size: 16, Rate: 1000},
		"large open": {Conns: 2, Depth: 16, Size: 30 << 10, Rate: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			p.Target, p.Echo = throughNothing{echoServer(t, "tcp")}, true
			p.Requests, p.MaxLag, p.Timeout = 100, time.Second, patience/2
			r := measured(t, p)
			if r.Errors["total"] != 0 || r.Requests == 0 {
				t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
			}
		})
	}
}

func TestRunPassesPushesOver(t *testing.T) {
	target := serveWith(t, "tcp", answering(nil, func(dst []byte, p wire.Packet) []byte {
		dst = wire.Append(dst, wire.Packet{Command: wire.Deliver, ID: p.ID, Content: []byte("news")})
		return echo(dst, p)
	}))
	r := measured(t, Plan{Target: target, Depth: 4, Echo: true, Requests: 100, Timeout: patience / 2})
	if r.Errors["total"] != 0 || r.Requests == 0 {
		t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
	}
}

func TestRunRamp(t *testing.T) {
	sideBySide(t)
	o := runPlan(t, context.Background(), Plan{
		Target: echoServer(t, "tcp"), Conns: 11, Ramp: 50, For: 100 * time.Millisecond,
	})
	if o.err != nil {
		t.Fatal(o.err)
	}
	if least := 300 * time.Millisecond; o.took < least { // the last begins 200 ms after the first
		t.Errorf("took %v, want %v or more", o.took, least)
	}
}

func TestRunTellsItsProgress(t *testing.T) {
	sideBySide(t)
	var told []Progress
	var counted, served int64
	measured(t, Plan{
		Target: echoServer(t, "tcp"), Conns: 2, Rate: 1000, Warmup: 100 * time.Millisecond, For: 2200 * time.Millisecond,
		MaxLag: time.Second, Progress: func(p Progress) {
			counted, served = p.Latency.TotalCount(), p.Service.TotalCount()
			told = append(told, p)
		},
	})
	if counted < 300 || served != counted {
		t.Errorf("the last one had %d response times and %d service times", counted, served)
	}
	if len(told) < 1 || len(told) > 3 {
		t.Fatalf("told %d times, want 2, or 1 or 3 on a busy machine: %+v", len(told), told)
	}
	last := told[len(told)-1]
	if last.Phase != "measuring" || last.Conns != 2 || last.Answered < 500 || last.Rate < 300 || last.P50 == nil || last.P99 == nil {
		t.Errorf("told %+v", last)
	}
	if !slices.IsSortedFunc(told, func(a, b Progress) int { return int(a.Elapsed - b.Elapsed) }) {
		t.Errorf("told out of order: %+v", told)
	}
}

// In a closed loop the service times are the response times; an open one has both.
func TestProgressOfBothLoops(t *testing.T) {
	for _, open := range []bool{false, true} {
		var told Progress
		r := &run{plan: Plan{Progress: func(p Progress) { told = p }}, paced: open}
		r.total, r.recent, r.interval, r.fresh = newTally(open), newTally(open), newTally(open), newTally(open)
		r.interval.Answered = 10
		if r.report(int64(2 * time.Second)); told.Rate != 5 || told.Service == nil || told.Service == told.Latency == open {
			t.Errorf("open %v: told %+v", open, told)
		}
		if r.interval.Answered != 0 || r.reported != int64(2*time.Second) {
			t.Errorf("open %v: the next one would have the same answers", open)
		}
	}
}

// Without a warm-up the measured time, and what reads a server's counters for it, begins before the first request.
func TestWindowOpensBeforeTheFirstRequest(t *testing.T) {
	for name, p := range map[string]Plan{"closed": {Conns: 4, Requests: 20}, "open": {Conns: 4, Rate: 1000, For: 20 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			early := int64(-1)
			p.Warmup = -1
			p.WindowOpens = func() {
				<-time.After(20 * time.Millisecond)
				early = asked.Load()
			}
			p.Target = serveWith(t, "tcp", answering(func() { asked.Add(1) }, echo))
			if runPlan(t, t.Context(), p); early != 0 || asked.Load() == 0 {
				t.Errorf("%d of %d requests came before the measured time", early, asked.Load())
			}
		})
	}
}

// A run that ends as soon as it measures has the rate of the time that its answers took.
func TestRunThatEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := 0
	p := Plan{Warmup: -1, For: time.Minute}
	p.Target = serveWith(t, "tcp", answering(func() {
		if asked++; asked == 100 {
			cancel()
		}
	}, echo))
	r := runPlan(t, ctx, p).result
	if r == nil || r.Requests < 99 || !r.Interrupted || r.Latency.Max == nil {
		t.Fatalf("%+v", r)
	}
	if most := time.Duration(*r.Latency.Max * float64(time.Microsecond)); r.Window < most*9/10 {
		t.Errorf("%d requests in %v, %v/s; one of them took %v", r.Requests, r.Window, *rated(r), most)
	}
}

func TestInterruptedRunNeverPasses(t *testing.T) {
	goals := []Goal{must[Goal](t)(ParseGoal("p50<1m")), must[Goal](t)(ParseGoal("errors==0"))}
	for name, p := range map[string]Plan{
		"connecting": {Conns: 100, Ramp: 1, For: time.Minute},
		"warming up": {Depth: 4, Warmup: time.Minute, For: time.Minute},
		"measuring":  {Depth: 4, Warmup: -1, For: time.Minute},
		"open":       {Depth: 4, Rate: 2000, Warmup: -1, For: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			asked := 0
			reads := answering(func() {
				if asked++; asked == 20 { // at most Depth of the requests before have no answer yet
					cancel()
				}
			}, echo)
			p.Target = serveWith(t, "tcp", func(nc net.Conn) {
				if p.Ramp > 0 {
					cancel()
				}
				reads(nc)
			})
			o := runPlan(t, ctx, p)
			if o.err != nil || o.result == nil {
				t.Fatalf("%v, %v", o.result, o.err)
			}
			r := o.result
			if r.Valid || !r.Interrupted || len(r.InvalidReasons) == 0 || r.Errors["total"] != 0 {
				t.Errorf("valid %v, interrupted %v, reasons %q, errors %v", r.Valid, r.Interrupted, r.InvalidReasons, r.Errors)
			}
			if begun := p.Warmup < 0; begun != (rated(r) != nil) || begun != (r.Requests > 0) {
				t.Errorf("rate %v, %d requests", r.Rate, r.Requests)
			}
			for _, o := range Check(r, goals) {
				if o.Met || o.Judged {
					t.Errorf("%v", o)
				}
			}
			if o.took > 10*time.Second {
				t.Errorf("took %v", o.took)
			}
		})
	}
}

// A run costs only a few hundred allocations at its start, and as many a second, in addition to its requests.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, p := range map[string]Plan{
		"closed": {Conns: 4, Depth: 32, Requests: 50_000},
		"open":   {Conns: 4, Depth: 8, Requests: 6000},
	} {
		t.Run(name, func(t *testing.T) {
			longer(t, 300*time.Millisecond, func(span time.Duration) string {
				var before, after runtime.MemStats
				p.Target, p.Echo, p.MaxLag, p.Timeout = echoServer(t, "tcp"), true, time.Second, patience
				if name == "open" {
					p.Rate = float64(p.Requests) / span.Seconds()
				}
				p.WindowOpens = func() { runtime.ReadMemStats(&before) }
				p.WindowCloses = func() { runtime.ReadMemStats(&after) }
				r := measured(t, p)
				if n := after.Mallocs - before.Mallocs; float64(n) > 400+100*r.Window.Seconds() || r.Requests != p.Requests {
					return fmt.Sprintf("%d allocations for %d requests in %v", n, r.Requests, r.Window)
				}
				return ""
			})
		})
	}
}

// Answers are settled, replaced and counted without allocation.
func TestAnswersAllocateNothing(t *testing.T) {
	const depth = 64
	p := must[Plan](t)(Plan{Target: codec.Frames{}, Depth: depth, Echo: true, For: time.Hour}.complete())
	r := newRun(p)
	r.counters[0].window = window{0, int64(time.Hour)}
	c := newConn(r, 0, swallow{})
	c.begin(r.now())
	if len(c.slots) != depth {
		t.Fatalf("%d places, want %d", len(c.slots), depth)
	}
	answers := make([]byte, 0, 64*depth)
	if n := testing.AllocsPerRun(200, func() {
		answers = answers[:0]
		for _, s := range c.slots {
			answers = echo(answers, wire.Packet{ID: s.id, Content: p.Content})
		}
		if used, _, err := c.arrived(answers, r.now()); err != nil || used != len(answers) {
			t.Fatal(used, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d answers, want none", n, depth)
	}
}

// swallow is a connection that discards its input.
type swallow struct{ net.Conn }

func (swallow) Write(p []byte) (int, error) { return len(p), nil }
