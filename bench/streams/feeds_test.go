//go:build linux

package streams

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/trial"
)

var base = flag.String("base", "", "serve HTTP with this git `revision` of hone as well, alternately")

// feedServer is a row of the figures below: the program feed with one library and engine.
type feedServer struct {
	revision string // "": this one
	engine   string
	dir      string // of the program
}

func (s feedServer) name() string { return strings.TrimSpace(s.revision + " " + s.engine) }

// start starts the server; it ends with the test, if not before.
func (s feedServer) start(t *testing.T) *fleet.Server {
	t.Helper()
	server, err := fleet.Start(t.Context(), s.dir, fleet.Entry{Server: table.Server{Name: s.name(), Program: "feed"}, Engine: s.engine}, fleet.How{CPU: fleet.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

const (
	buffered = "buffered" // what others are compared with
	netHTTP  = "net/http"
)

// feedServers builds the program feed, and lists what to measure: engines, buffered for
// comparison, and net/http; with -base, the same engines of that revision.
func feedServers(t *testing.T) (servers []feedServer) {
	t.Helper()
	engines := []string{"events", "events-offload"}
	if *only != "" && *only != buffered {
		engines = []string{*only}
	}
	build := func(revision, hone string, engines ...string) {
		dir := t.TempDir()
		if err := fleet.Compile(t.Context(), "..", dir, hone, "./streams/feed"); err != nil {
			t.Fatal(err)
		}
		for _, engine := range engines {
			servers = append(servers, feedServer{revision, engine, dir})
		}
	}
	engines = append(engines, buffered)
	build("", "", append(engines, netHTTP)...)
	if *base != "" {
		checkout, err := trial.Checkout(t.Context(), filepath.Join("..", ".."), *base)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { checkout.Remove() })
		build(*base, checkout.Dir, engines...)
	}
	return servers
}

// TestFeedsStart has many clients connect at once, each to a handler that sends an event
// and then blocks: on Events the last of them must not wait longer than on Buffered, where
// every handler has a goroutine from the start.
func TestFeedsStart(t *testing.T) {
	servers := feedServers(t)
	for _, around := range []struct {
		name string
		busy int
	}{{"quiet", 0}, {"beside 8 busy programs", 8}} {
		for _, within := range size([]time.Duration{0}, []time.Duration{0, time.Second}) {
			for _, clients := range size([]int{200}, []int{1000, 4000}) {
				t.Run(fmt.Sprintf("%s/%d clients within %v", around.name, clients, within), func(t *testing.T) {
					spin(t, around.busy)
					figures := make(durations)
					for round := range size(1, 5) {
						for i := range servers {
							startFeeds(t, servers[(i+round)%len(servers)], clients, within, figures)
						}
					}
					figures.log(t, servers)
					figures.judge(t, servers, "last first event", "last", 1.5)
					figures.judge(t, servers, "last first event of a second crowd", "last of the second", 1.5)
					if within > 0 {
						return // the client wakes a thousand times meanwhile
					}
					judge(t, "CPU of the client to that of buffered's server", figures.median(buffered, "client CPU").Seconds()/figures.median(buffered, "server CPU").Seconds(), "%.2f", "<=", 1)
				})
			}
		}
	}
}

// startFeeds starts a server, and measures from when clients begin to connect until the
// last of them has its first event; and again with a second crowd when the first has left.
func startFeeds(t *testing.T, one feedServer, clients int, within time.Duration, figures durations) {
	const limit = 3 * time.Minute
	s := one.start(t)
	defer s.Stop()
	v := newVisitors(t, s.Addr, "GET /feed HTTP/1.1\r\nHost: localhost\r\n\r\n", "data: event 1 of 1\n\n")
	usedBefore, ownBefore := cpuOf(t, s.PID), cpuOf(t, os.Getpid())
	for _, crowd := range []string{"", " of the second"} {
		began := time.Now()
		v.arriveWithin(clients, within)
		for v.waiting > 0 && time.Since(began) < limit {
			v.serve(time.Second)
		}
		if v.waiting > 0 {
			t.Errorf("%s: %d of %d clients%s have no event within %v", one.name(), v.waiting, clients, crowd, limit)
		}
		var took []time.Duration
		for _, visitor := range v.all {
			took = append(took, visitor.came.Add(visitor.waited()).Sub(began))
		}
		slices.Sort(took)
		figures.add(one.name(), "median"+crowd, took[clients/2])
		figures.add(one.name(), "last"+crowd, took[clients-1])
		v.clear()
		fleet.Wait(t.Context(), time.Second) // their handlers end
	}
	figures.add(one.name(), "server CPU", cpuOf(t, s.PID)-usedBefore)
	figures.add(one.name(), "client CPU", cpuOf(t, os.Getpid())-ownBefore)
}

// TestNewcomers has clients that never read ask for endless streams, and others come
// meanwhile: those must not wait for them.
func TestNewcomers(t *testing.T) {
	servers := feedServers(t)
	crowd, stay := size(60, 600), size(time.Second, 12*time.Second) // longer than stall-time
	figures := make(durations)
	for round := range size(1, 3) {
		for i := range servers {
			one := servers[(i+round)%len(servers)]
			newcomers(t, one, crowd, stay, figures)
		}
	}
	figures.log(t, servers)
	figures.judge(t, servers, "slowest first reply", "slowest", 1.5)
	for _, one := range servers {
		if one.engine != netHTTP && one.revision == "" {
			judge(t, one.engine+": slowest first reply", figures.median(one.name(), "slowest").Seconds(), "%.3f s", "<=", 1)
		}
	}
}

// newcomers measures one server, with three crowds one after the other.
func newcomers(t *testing.T, one feedServer, crowd int, stay time.Duration, figures durations) {
	const body = "from a newcomer"
	s := one.start(t)
	defer s.Stop()
	never := newVisitors(t, s.Addr, "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n", "")
	defer never.clear()
	v := newVisitors(t, s.Addr, fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body), "\r\n\r\n"+body)
	defer v.clear()
	v.leave = true
	const every = 20 * time.Millisecond
	due := time.Now()
	for range 3 {
		for range crowd {
			never.arrive()
		}
		for until := time.Now().Add(stay); time.Now().Before(until); {
			if wait := time.Until(due); wait > 0 {
				v.serve(wait + time.Millisecond)
				continue
			}
			v.arrive()
			due = due.Add(every)
			never.serve(0)
		}
		never.clear()
	}
	for limit := time.Now().Add(time.Minute); v.waiting > 0 && time.Now().Before(limit); {
		v.serve(time.Second)
	}
	if v.waiting > 0 {
		t.Errorf("%s: %d of %d newcomers have no reply within a minute", one.name(), v.waiting, len(v.all))
	}
	var took []time.Duration
	for _, visitor := range v.all {
		took = append(took, visitor.waited())
	}
	slices.Sort(took)
	figures.add(one.name(), "slowest", took[len(took)-1])
	figures.add(one.name(), "99 of 100", took[len(took)*99/100])
	figures.add(one.name(), "median", took[len(took)/2])
}

// TestFlushCPU has a handler that flushes once and ends cost no more than with -base.
func TestFlushCPU(t *testing.T) {
	if *base == "" {
		t.Skip("compares with another revision; give -args -base REVISION")
	}
	const conns, deep, pairs = 100, 16, 9
	servers := feedServers(t)
	for _, before := range servers {
		if before.revision == "" {
			continue
		}
		now := servers[slices.IndexFunc(servers, func(one feedServer) bool { return one.engine == before.engine })]
		t.Run(now.engine, func(t *testing.T) {
			askersOf := func(one feedServer) *askers {
				s := one.start(t)
				request := []byte("GET /once HTTP/1.1\r\nHost: localhost\r\n\r\n")
				c, _ := dial(t, s.Addr, 0)
				body, answer, err := drive.AskHTTP(c, request)
				if err != nil || !strings.Contains(body, "event 1 of 1") {
					t.Fatalf("%q, %v", body, err)
				}
				web.Undate(answer)
				return newAskers(t, s.PID, s.Addr, conns, bytes.Repeat(request, deep), bytes.Repeat(answer, deep), deep, web.Undate)
			}
			a, b, client := askersOf(now), askersOf(before), cpuOf(t, os.Getpid())
			ratios, costs := compareCPU(t, a, b, pairs, size(300*time.Millisecond, 2*time.Second))
			client = cpuOf(t, os.Getpid()) - client
			t.Logf("with %s %.0f ns of CPU a request; the ratios of %d pairs are %.3f to %.3f; the client used %.2f of the servers' CPU",
				*base, costs[pairs/2], pairs, ratios[0], ratios[pairs-1], client.Seconds()/(cpuOf(t, a.pid)+cpuOf(t, b.pid)).Seconds())
			judge(t, "CPU to that of "+*base+", the median", ratios[pairs/2], "%.3f", "<=", 1.03)
		})
	}
}

// durations are the figures of all rounds, by server and then by what they are.
type durations map[string]map[string][]time.Duration

func (f durations) add(server, what string, d time.Duration) {
	if f[server] == nil {
		f[server] = make(map[string][]time.Duration)
	}
	f[server][what] = append(f[server][what], d)
}

func (f durations) median(server, what string) time.Duration {
	sorted := slices.Sorted(slices.Values(f[server][what]))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// log prints medians, with the least and the most.
func (f durations) log(t *testing.T, servers []feedServer) {
	for _, one := range servers {
		var text []string
		for what, all := range f[one.name()] {
			figure := fmt.Sprintf("%s %v", what, short(f.median(one.name(), what)))
			if len(all) > 1 {
				figure += fmt.Sprintf(" (%v–%v)", short(slices.Min(all)), short(slices.Max(all)))
			}
			text = append(text, figure)
		}
		slices.Sort(text)
		t.Logf("%-24s %s", one.name(), strings.Join(text, ", "))
	}
}

func short(d time.Duration) time.Duration { return d.Round(max(time.Microsecond, d/1000)) }

// judge compares this revision's servers with buffered, by the median of the rounds' ratios,
// and prints the same of the other revision's.
func (f durations) judge(t *testing.T, servers []feedServer, what, figure string, limit float64) {
	t.Helper()
	for _, one := range servers {
		than := feedServer{revision: one.revision, engine: buffered}.name()
		if one.engine == netHTTP || one.engine == buffered {
			continue
		}
		var ratios []float64
		for round, d := range f[one.name()][figure] {
			ratios = append(ratios, float64(d)/float64(f[than][figure][round]))
		}
		slices.Sort(ratios)
		median, what := ratios[len(ratios)/2], fmt.Sprintf("%s: %s to that of %s", one.name(), what, than)
		if one.revision == "" {
			judge(t, what, median, "%.2f", "<=", limit)
		} else {
			t.Logf("%s: %.2f", what, median)
		}
	}
}
