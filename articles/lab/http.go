package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/websocket"
)

// What the HTTP servers answer, and at which paths. The bench module's servers, one of
// which may take part (see Plan.Fasthttp), answer the same.
const (
	helloPath = "/hello"
	hello     = "Hello, World!"
	echoPath  = "/echo"
)

const (
	stdStage    = "nethttp"
	fastStage   = "fasthttp" // a program of another module
	wsStdStage  = "websocket-nethttp"
	wsHTTP1     = "websocket-http1"
	pipelinedBy = 16
)

// http1Name returns the name of the stage that runs http1 on an engine.
func http1Name(e engine.Engine) string { return "http1-" + e.Name() }

// usual returns the engine that http1 uses by default on this system.
func usual() engine.Engine {
	all := engine.All()
	return all[len(all)-1]
}

// greet is the handler that all servers with net/http's interface use.
func greet(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != helloPath {
		http.NotFound(w, r)
		return
	}
	io.WriteString(w, hello)
}

// onStd serves a handler with net/http as most programs do: without limits.
func onStd(handler http.Handler) *stage {
	server := &http.Server{Handler: handler}
	return &stage{serve: server.Serve, stop: func() { server.Close() }}
}

// onEngine serves the same handler with http1 and all of its limits except the number of
// connections.
func onEngine(e engine.Engine, handler http.Handler) *stage {
	server := &http1.Server{Handler: handler, Engine: e, Limits: engine.Limits{Conns: -1}}
	return &stage{serve: server.Serve, stop: func() { server.Close() }}
}

func echoes() *websocket.Upgrader {
	return &websocket.Upgrader{
		Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil },
		Limits:  engine.Limits{Conns: -1},
	}
}

// socketsOnStd is websocket on net/http: connections are hijacked, with one goroutine
// each.
func socketsOnStd() *stage {
	sockets := echoes()
	s := onStd(sockets)
	closeServer := s.stop
	s.stop = func() {
		closeServer()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // do not wait for connections
		sockets.Shutdown(ctx)
	}
	return s
}

func httpStages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){
		stdStage:   func() (*stage, error) { return onStd(http.HandlerFunc(greet)), nil },
		wsStdStage: func() (*stage, error) { return socketsOnStd(), nil },
		wsHTTP1:    func() (*stage, error) { return onEngine(engine.Engine{}, echoes()), nil },
	}
	for _, e := range engine.All() {
		all[http1Name(e)] = func() (*stage, error) { return onEngine(e, http.HandlerFunc(greet)), nil }
	}
	return all
}

// web is the lab without an article: the same service on net/http, fasthttp and http1.
func web(ctx context.Context, b *bench) error {
	names := []string{stdStage, http1Name(engine.Parked(0))}
	if own := http1Name(usual()); own != names[1] {
		names = append(names, own)
	}
	all, end, err := b.startAll(ctx, names)
	if err != nil {
		return err
	}
	defer end()
	if b.plan.Fasthttp != "" {
		fast, err := b.startPeer(ctx, fastStage, b.plan.Fasthttp)
		if err != nil {
			return err
		}
		defer fast.Stop()
		all = append(all, fast)
	}
	for _, depth := range []int{1, pipelinedBy} {
		what := fmt.Sprintf("100 connections × %d", depth)
		laps, err := b.driveAll(ctx, all, quickly(b, 1, webRounds(depth)), what, func(p *process) (load.Plan, error) { return b.webPlan(p, helloPath, depth), nil })
		if err != nil {
			return err
		}
		b.webRows(what, names, laps)
	}
	return b.webProfiles(ctx, all[0], all[len(names)-1])
}

// webRounds returns the number of rounds: fewer where servers differ by a multiple.
func webRounds(depth int) int {
	if depth > 1 {
		return fewestRounds
	}
	return 5
}

// startPeer starts a server of the bench module, which takes no orders.
func (b *bench) startPeer(ctx context.Context, name, program string) (*process, error) {
	c, err := child.Start(exec.CommandContext(ctx, program), child.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w; build it in a clone: go build -o fasthttp ./bench/servers/fasthttp", name, err)
	}
	var first ready
	if err := c.Answer(ctx, startTime, &first); err != nil {
		c.Stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &process{name: name, addr: first.Addr, Child: c}, nil
}

// webPlan returns the load on an HTTP server.
func (b *bench) webPlan(p *process, path string, depth int) load.Plan {
	return load.Plan{Target: load.HTTP{URL: "http://" + p.addr + path}, Conns: quickly(b, 20, 100), Depth: depth,
		For: quickly(b, 100*time.Millisecond, time.Second), Warmup: quickly(b, 20*time.Millisecond, 300*time.Millisecond)}
}

// webRows compares every server with net/http, and http1 with fasthttp.
func (b *bench) webRows(load string, names []string, laps map[string]lap) {
	std, fast := laps[stdStage], laps[fastStage]
	b.add(std.rate.row("net/http, "+load, "requests/s", "The baseline of the other rows: the same handler or the same answer, 13 bytes. Server and load share the CPUs.").as(NoClaim),
		std.cpu.row("net/http, CPU, "+load, perRequest, "One goroutine per connection reads, parses, calls the handler and writes: one read and one write per request, plus the scheduler's search for work.").as(NoClaim))
	b.fastRows(load, std, fast)
	for _, name := range names[1:] {
		what, why := "http1 on goroutines", "One change: http1 parses, and net/http's handlers stay. One goroutine per connection, as before, but without buffers while it is idle."
		if name == http1Name(usual()) {
			what, why = "http1 on event loops", "One more change: one loop per CPU reads what has arrived, serves it and writes once, so no goroutine is woken or scheduled. With all limits on."
		}
		own := laps[name]
		more := own.rate.over(std.rate)
		b.add(own.rate.row(what+", "+load, "requests/s", why).to(more, "net/http").as(better(more)))
		saved := std.cpu.over(own.cpu)
		b.add(own.cpu.row(what+", CPU, "+load, perRequest, why).to(saved, "less than net/http").as(better(saved)))
		if !fast.cpu.known() {
			continue
		}
		beside := fast.cpu.over(own.cpu)
		b.add(own.cpu.row(what+" against fasthttp, CPU, "+load, perRequest, "Ours. The claim: net/http's handlers, with a fresh request that they may retain, cost no more than fasthttp's, whose request is reused.").
			to(beside, "less than fasthttp").as(better(beside)))
	}
}

// fastRows compares fasthttp, or explains how to include it.
func (b *bench) fastRows(load string, std, fast lap) {
	if !fast.rate.known() {
		b.add(spread{}.row("fasthttp, "+load, "requests/s", "Not measured: it is not part of hone. In a clone, make lab builds it from the bench module and passes it with --fasthttp."))
		return
	}
	const why = "Its own handler interface, with requests and responses that are reused: nothing is allocated, and a handler must not retain anything. Still one goroutine per connection."
	more, saved := fast.rate.over(std.rate), std.cpu.over(fast.cpu)
	b.add(fast.rate.row("fasthttp, "+load, "requests/s", why).to(more, "net/http").as(better(more)),
		fast.cpu.row("fasthttp, CPU, "+load, perRequest, why).to(saved, "less than net/http").as(better(saved)))
}

// webProfiles explains the profiles of the first server and the last under pipelined
// requests, where one read or write can serve many.
func (b *bench) webProfiles(ctx context.Context, std, own *process) error {
	var views [2]profileOf
	for i, p := range []*process{std, own} {
		plan := b.webPlan(p, helloPath, pipelinedBy)
		plan.For = time.Minute // cancelled once the profile is taken
		var err error
		views[i], err = b.profile(ctx, p, quickly(b, 150*time.Millisecond, 2*time.Second), "", func(ctx context.Context) error {
			_, err := load.Run(ctx, plan)
			return err
		})
		if err != nil {
			return err
		}
	}
	before, after := views[0].cpu, views[1].cpu
	kernel, left := one(flatShare(before, inSystemCalls...)), one(flatShare(after, inSystemCalls...))
	b.add(kernel.row("net/http: system calls, of its CPU", "%", "Read first: flat time in system calls. net/http writes each response separately, so pipelining saves it only reads. Top functions: "+top(before, 3)+".").as(NoClaim))
	b.add(left.row("http1: system calls, of its CPU", "%", "One write carries the responses to all requests that have arrived. The claim: the kernel's share is smaller than net/http's. Top functions: "+top(after, 3)+".").
		to(kernel.over(left), "less than net/http").as(larger(kernel.over(left))))
	memory := one(cumShare(after, inAllocation...))
	b.add(memory.row("http1: allocation and collection, of its CPU", "%", "Read next: cum of runtime.mallocgc and of the garbage collector. The claim: this is now more than system calls. It is the cost of a fresh request per handler call, which fasthttp does not pay. Most bytes: "+top(views[1].allocs, 3)+".").
		to(memory.over(left), "its system calls").as(larger(memory.over(left))))
	return nil
}
