package framed_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// besideSleepers is the effect of sleepers on other connections, in one window.
type besideSleepers struct {
	p50, p99 float64 // microseconds, of the others
	cpu      float64 // of the server, in microseconds per reply to the others
}

// BenchmarkBesideSleepers measures how 4 connections whose handlers sleep for 50 ms per
// request affect 40 others with 2 000 requests per second: the others' p99, from the
// intended times, on every engine and in every mode of Events, and its ratio to Parked's
// in the same round.
//
//	go test -run '^$' -bench BesideSleepers -benchtime 1x ./framed
//
// The server has goroutines or loops for two processors on one CPU, and the client spins
// on another; both CPUs are otherwise idle.
func BenchmarkBesideSleepers(b *testing.B) {
	set := settings(b).with(inline, offload)
	order := rand.New(rand.NewPCG(set.seed, 0))
	samples := map[string][]besideSleepers{}
	for range set.rounds {
		for _, i := range order.Perm(len(set.names)) {
			name := set.names[i]
			samples[name] = append(samples[name], sleepBeside(b, set, name))
		}
	}
	var table strings.Builder
	const row = "%-14s  %10s %22s %22s %12s\n"
	fmt.Fprintf(&table, "40 connections at 2 000 requests/s with 4 whose handlers sleep %v; %d rounds of %v, seed %d; median (min–max)\n",
		sleepTime, set.rounds, set.window, set.seed)
	fmt.Fprintf(&table, row, "engine", "p50 µs", "p99 µs", "× parked", "CPU µs/req")
	for _, name := range set.names {
		var ratios []float64
		for i, base := range samples["parked"] {
			ratios = append(ratios, samples[name][i].p99/base.p99)
		}
		p50 := spreadOf(samples[name], func(s besideSleepers) float64 { return s.p50 })
		p99 := spreadOf(samples[name], func(s besideSleepers) float64 { return s.p99 })
		cpu := spreadOf(samples[name], func(s besideSleepers) float64 { return s.cpu })
		ratio := spreadOf(ratios, func(r float64) float64 { return r })
		fmt.Fprintf(&table, row, name, fmt.Sprintf("%.0f", p50.median), fmt.Sprintf("%.0f (%.0f–%.0f)", p99.median, p99.min, p99.max),
			fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.median, ratio.min, ratio.max), fmt.Sprintf("%.1f", cpu.median))
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(p99.median, "p99-µs")
			if ratio.n > 0 {
				b.ReportMetric(ratio.median, "×parked")
			}
		})
	}
	fmt.Print(table.String())
}

// sleepBeside runs a new server and two new clients, one of which is measured.
func sleepBeside(b *testing.B, set benchSettings, name string) besideSleepers {
	b.Helper()
	const warm = 300
	window := int(set.window / time.Millisecond)
	env := []string{"HONE_TEST_ENGINE=" + name, "HONE_TEST_TRIED=1", "GOMAXPROCS=2"}
	plan := loadPlan{Network: "tcp", Size: 16, CPU: -1}
	sleepy := plan
	if len(set.cpus) > 1 {
		env = append(env, "HONE_TEST_CPU="+strconv.Itoa(set.cpus[0]))
		plan.CPU, sleepy.CPU = set.cpus[1], set.cpus[0]
	}
	server, ready := startServer(b, env...)
	defer server.end(b)
	plan.Addr, sleepy.Addr, plan.ServerPID = ready.Addr, ready.Addr, ready.PID
	plan.Conns, plan.Depth, plan.Rate, plan.WarmMS, plan.WindowMS = 40, 64, 2000, warm, window
	sleepy.Conns, sleepy.Depth, sleepy.First, sleepy.WindowMS = 4, 1, string(toSleep), warm+window+1000
	sleepers := startLoad(b, sleepy)
	r := startLoad(b, plan).report(b)
	slept := sleepers.report(b)
	if r.Wrong > 0 || r.Unanswered > 0 || r.Requests == 0 || slept.Wrong > 0 || slept.Requests == 0 {
		b.Fatalf("%s: %+v; the sleepers: %+v", name, r, slept)
	}
	return besideSleepers{r.P50, r.P99, float64(*r.ServerCPU) / 1e3 / float64(r.Requests)}
}
