package race

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
)

// scenario is one way of using a server with package drive.
type scenario struct {
	name   string
	ask    string  // the name of a web.Question, or web.Socket; empty: hone's frames
	conns  int     // connections that ask
	depth  int     // requests under way on each
	rate   float64 // requests a second of all; 0: the next as soon as an answer is there
	once   bool    // a connection for each request, so many at once
	loops  int     // the server's, unpinned if there are two
	levels []int   // how many idle connections to read the memory of, and nothing else
	crowd  int     // connections that are pushed to; web.Stream has nothing else
}

// Rounds of CPU are compared in pairs, of which a signed-rank test needs many. The p99 at a rate varies more than CPU does;
// memory hardly varies, and other programs do not change it.
const (
	cpuRounds    = 8
	rateRounds   = 16
	steadyRounds = 5
	idleRounds   = 3
)

// Rows are all that package drive measures. They are told apart by what they make dear: frames/A waking up, A2 the
// same unpinned and on two loops, B the code itself, C the memory that a crowd is spread over, O sleeping and
// waking at a rate, once accepting and closing. lent is a request that http1 leaves to net/http.
func Rows() []Row {
	var all []Row
	add := func(group string, servers []fleet.Entry, scenarios ...scenario) {
		for _, s := range scenarios {
			all = append(all, s.row(group, servers))
		}
	}
	add("frames", fleet.Frames(),
		scenario{name: "A", conns: 100, depth: 1},
		scenario{name: "A2", conns: 100, depth: 1, loops: 2},
		scenario{name: "B", conns: 100, depth: 64},
		scenario{name: "C", conns: 2000, depth: 1},
		scenario{name: "O", conns: 100, depth: 64, rate: 50_000},
		scenario{name: "once", conns: 64, depth: 1, once: true},
		scenario{name: "idle", levels: []int{1000, 5000, 15_000}})
	add("http", append(fleet.HTTP(), fleet.Nginx().Alone()),
		scenario{name: "hello", ask: "hello", conns: 64, depth: 1},
		scenario{name: "hello-256", ask: "hello", conns: 256, depth: 1},
		scenario{name: "pipelined", ask: "hello", conns: 64, depth: 16},
		scenario{name: "rate", ask: "hello", conns: 64, depth: 4, rate: 20_000},
		scenario{name: "once", ask: "hello", conns: 64, depth: 1, once: true})
	add("http", fleet.HTTP(),
		scenario{name: "page", ask: "page", conns: 64, depth: 1},
		scenario{name: "picture", ask: "picture", conns: 64, depth: 1},
		scenario{name: "TLS", ask: "tls", conns: 64, depth: 1},
		scenario{name: "idle", ask: "hello", levels: []int{15_000}},
		scenario{name: "idle-TLS", ask: "tls", levels: []int{2000}},
		scenario{name: "lent", ask: "chunked", levels: []int{15_000}})
	add("http", fleet.Streams(), scenario{name: "streams", ask: web.Stream, crowd: 5000})
	add("ws", fleet.WebSocket(),
		scenario{name: "100x1", ask: web.Socket, conns: 100, depth: 1},
		scenario{name: "2000x1", ask: web.Socket, conns: 2000, depth: 1},
		scenario{name: "100x16", ask: web.Socket, conns: 100, depth: 16},
		scenario{name: "idle", ask: web.Socket, levels: []int{15_000}},
		scenario{name: "push", ask: web.Socket, conns: 100, depth: 8, rate: 2000, loops: 2, crowd: 15_000})
	return append(all, http2Row(), respRow(), gatewayRow())
}

func (s scenario) row(group string, servers []fleet.Entry) Row {
	s.loops = max(1, s.loops)
	r := Row{Name: group + "/" + s.name, Title: s.title, Client: drive.Client, Servers: servers, Rounds: cpuRounds, Round: each(s.measure)}
	switch {
	case len(s.levels) > 0:
		r.Rounds, r.Round = idleRounds, s.idle
	case s.crowd > 0:
		r.Rounds, r.Round = steadyRounds, each(s.push)
	case s.rate > 0:
		r.Rounds = rateRounds
	}
	return r
}

// placed says where server and client run: on a machine with one CPU both are there.
func (s scenario) placed(cpus []int) (server fleet.How, clientCPU, clientProcs int) {
	q, err := web.Named(s.ask)
	server = fleet.How{CPU: fleet.AnyCPU, Loops: s.loops, TLS: err == nil && q.TLS}
	if s.loops > 1 || len(cpus) < 2 {
		return server, fleet.AnyCPU, min(2, len(cpus))
	}
	server.CPU = cpus[0]
	return server, cpus[1], 1
}

// title says what the scenario is.
func (s scenario) title(cpus []int) string {
	asking := ""
	if s.ask != "" {
		asking = ", asking for " + s.ask
	}
	switch {
	case len(s.levels) > 0:
		return fmt.Sprintf("memory of %v idle connections that were served once%s, by connection", s.levels, asking)
	case s.ask == web.Stream:
		return fmt.Sprintf("an event of 256 bytes to each of %d open streams, not pinned, one loop; and the memory of a stream", s.crowd)
	case s.crowd > 0:
		return fmt.Sprintf("a message pushed to %d connections; then, beside that, %d connections, %.0f requests/s, not pinned, %d loops", s.crowd, s.conns, s.rate, s.loops)
	}
	load := fmt.Sprintf("%d connections × %d outstanding", s.conns, s.depth)
	switch {
	case s.rate > 0:
		load = fmt.Sprintf("%d connections, %.0f requests/s", s.conns, s.rate)
	case s.once:
		load = fmt.Sprintf("a connection for each request, %d at once", s.conns)
	}
	switch server, client, _ := s.placed(cpus); {
	case s.loops > 1:
		return fmt.Sprintf("%s%s, not pinned, %d loops", load, asking, s.loops)
	case client == fleet.AnyCPU:
		return load + asking + ", NOT PINNED, since there is one CPU, one loop"
	default:
		return fmt.Sprintf("%s%s, server on CPU %d, client on CPU %d, one loop", load, asking, server.CPU, client)
	}
}

// measure is a new server and a new client for one window.
func (s scenario) measure(ctx context.Context, g *Ground, e fleet.Entry) ([]table.Sample, error) {
	how, cpu, procs := s.placed(g.CPUs)
	server, err := fleet.Start(ctx, g.Dir, e, how)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client, err := g.client(ctx, cpu, procs)
	if err != nil {
		return nil, err
	}
	defer client.Stop()
	var answer drive.Report
	_, others, err := watch(server.PID, []*child.Child{client}, func() (err error) {
		answer, err = ask(ctx, client, s.order(g, server), g.Warmup+g.Window)
		return err
	})
	if err != nil {
		return nil, err
	}
	answer.Load.Figures["others"] = others
	return []table.Sample{{Figures: answer.Load.Figures, Doubts: answer.Load.Doubts}}, nil
}

func (s scenario) order(g *Ground, server *fleet.Server) drive.Order {
	return drive.Order{Addr: server.Addr, Ask: s.ask, Load: &drive.Load{PID: server.PID, Conns: s.conns, Depth: s.depth, Rate: s.rate, Once: s.once, Warmup: g.Warmup, Window: g.Window}}
}

// idle reads the memory of some servers at the same time, which do not disturb each other.
func (s scenario) idle(ctx context.Context, g *Ground, order []fleet.Entry) []table.Sample {
	const together = 5
	if g.Small() {
		s.levels = []int{min(1000, s.levels[0])}
	}
	var all []table.Sample
	var mu sync.Mutex
	for group := range slices.Chunk(order, together) {
		var reading sync.WaitGroup
		for _, e := range group {
			reading.Go(func() {
				samples, err := s.memory(ctx, g, e)
				if err != nil {
					samples = append(samples, table.Sample{Server: e.Name, Error: err.Error()})
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, samples...)
			})
		}
		reading.Wait()
	}
	slices.SortStableFunc(all, func(a, b table.Sample) int { return strings.Compare(a.Server, b.Server) })
	return all
}

// warmConns are served before memory is read for the first time, so that what is there once is not counted.
const warmConns = 10

// memory reads one server's memory with more and more idle connections.
func (s scenario) memory(ctx context.Context, g *Ground, e fleet.Entry) (samples []table.Sample, err error) {
	how, _, _ := s.placed(nil)
	server, err := fleet.Start(ctx, g.Dir, e, how)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client, err := g.client(ctx, fleet.AnyCPU, 1)
	if err != nil {
		return nil, err
	}
	defer client.Stop()
	open := func(n int) (fleet.Memory, error) {
		if _, err := ask(ctx, client, drive.Order{Addr: server.Addr, Ask: s.ask, Open: n}, 0); err != nil {
			return fleet.Memory{}, err
		}
		if err := fleet.Wait(ctx, g.Quiet); err != nil {
			return fleet.Memory{}, err
		}
		return server.Collect(ctx, e)
	}
	before, err := open(warmConns)
	if err != nil {
		return nil, err
	}
	for _, level := range s.levels {
		after, err := open(level)
		if err != nil {
			return samples, err
		}
		samples = append(samples, table.Sample{Server: e.Name, Case: fmt.Sprintf("%dk", level/1000), Figures: map[string]float64{
			"per_conn_bytes": float64(after.Anonymous-before.Anonymous) / float64(level-warmConns),
		}})
	}
	return samples, nil
}
