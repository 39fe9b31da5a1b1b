//go:build linux

package streams

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
)

const (
	buffered = "buffered" // what others are compared with
	netHTTP  = "net/http"
)

// feedServer is a row of the figures below: a program and an engine.
type feedServer struct {
	fleet.Entry
	dir string // of the program
}

// start starts the server; it ends with the test, if not before.
func (s feedServer) start(t *testing.T) *fleet.Server {
	t.Helper()
	server, err := fleet.Start(t.Context(), s.dir, s.Entry, fleet.How{CPU: fleet.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// feedServers builds the programs, and lists what to measure: engines, buffered for comparison, and net/http.
func feedServers(t *testing.T) (servers []feedServer) {
	t.Helper()
	engines := []string{"events", "events-offload"}
	if *only != "" && *only != buffered {
		engines = []string{*only}
	}
	dir := t.TempDir()
	if err := fleet.Compile(t.Context(), "..", dir, "./servers/http1", "./servers/nethttp"); err != nil {
		t.Fatal(err)
	}
	for _, engine := range append(engines, buffered) {
		servers = append(servers, feedServer{fleet.Entry{Server: table.Server{Name: engine, Program: "http1"}, Engine: engine}, dir})
	}
	return append(servers, feedServer{fleet.Entry{Server: table.Server{Name: netHTTP, Program: "nethttp"}}, dir})
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
	v := newVisitors(t, s.Addr, "GET "+web.CrowdPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n", string(web.Event([]byte(web.Welcome))))
	usedBefore, ownBefore := cpuOf(t, s.PID), cpuOf(t, os.Getpid())
	for _, crowd := range []string{"", " of the second"} {
		began := time.Now()
		v.arriveWithin(clients, within)
		for v.waiting > 0 && time.Since(began) < limit {
			v.serve(time.Second)
		}
		if v.waiting > 0 {
			t.Errorf("%s: %d of %d clients%s have no event within %v", one.Name, v.waiting, clients, crowd, limit)
		}
		var took []time.Duration
		for _, visitor := range v.all {
			took = append(took, visitor.came.Add(visitor.waited()).Sub(began))
		}
		slices.Sort(took)
		figures.add(one.Name, "median"+crowd, took[clients/2])
		figures.add(one.Name, "last"+crowd, took[clients-1])
		v.clear()
		fleet.Wait(t.Context(), time.Second) // their handlers end
	}
	figures.add(one.Name, "server CPU", cpuOf(t, s.PID)-usedBefore)
	figures.add(one.Name, "client CPU", cpuOf(t, os.Getpid())-ownBefore)
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
		if one.Name != netHTTP {
			judge(t, one.Name+": slowest first reply", figures.median(one.Name, "slowest").Seconds(), "%.3f s", "<=", 1)
		}
	}
}

// newcomers measures one server, with three crowds one after the other.
func newcomers(t *testing.T, one feedServer, crowd int, stay time.Duration, figures durations) {
	const body = "from a newcomer"
	s := one.start(t)
	defer s.Stop()
	never := newVisitors(t, s.Addr, "GET "+web.EndlessPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n", "")
	defer never.clear()
	v := newVisitors(t, s.Addr, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", web.HelloPath, len(body), body), "\r\n\r\nHello")
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
		t.Errorf("%s: %d of %d newcomers have no reply within a minute", one.Name, v.waiting, len(v.all))
	}
	var took []time.Duration
	for _, visitor := range v.all {
		took = append(took, visitor.waited())
	}
	slices.Sort(took)
	figures.add(one.Name, "slowest", took[len(took)-1])
	figures.add(one.Name, "99 of 100", took[len(took)*99/100])
	figures.add(one.Name, "median", took[len(took)/2])
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
		for what, all := range f[one.Name] {
			figure := fmt.Sprintf("%s %v", what, short(f.median(one.Name, what)))
			if len(all) > 1 {
				figure += fmt.Sprintf(" (%v–%v)", short(slices.Min(all)), short(slices.Max(all)))
			}
			text = append(text, figure)
		}
		slices.Sort(text)
		t.Logf("%-24s %s", one.Name, strings.Join(text, ", "))
	}
}

func short(d time.Duration) time.Duration { return d.Round(max(time.Microsecond, d/1000)) }

// judge compares the servers with buffered, by the median of the rounds' ratios.
func (f durations) judge(t *testing.T, servers []feedServer, what, figure string, limit float64) {
	t.Helper()
	for _, one := range servers {
		if one.Name == netHTTP || one.Name == buffered {
			continue
		}
		var ratios []float64
		for round, d := range f[one.Name][figure] {
			ratios = append(ratios, float64(d)/float64(f[buffered][figure][round]))
		}
		slices.Sort(ratios)
		judge(t, fmt.Sprintf("%s: %s to that of %s", one.Name, what, buffered), ratios[len(ratios)/2], "%.2f", "<=", limit)
	}
}
