package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// BenchmarkGenerator compares what a request costs the generator with what it
// costs hone's Buffered server in a process of its own, all answers verified.
//
//	go test -run '^$' -bench Generator -benchtime 1x ./tool/load
//
// HONE_BENCH_WINDOW (1.5s) is how long one sample takes, HONE_BENCH_ROUNDS (5)
// how many there are; the figures are medians. A single one means little.
func BenchmarkGenerator(b *testing.B) {
	for _, plan := range []Plan{
		{Conns: 100, Depth: 64},
		{Conns: 100, Depth: 1},
		{Conns: 100, Rate: 20_000},
	} {
		name := fmt.Sprintf("closed-%dx%d", plan.Conns, plan.Depth)
		if plan.Rate > 0 {
			name = fmt.Sprintf("open-%.0f", plan.Rate)
		}
		b.Run(name, func(b *testing.B) { compareCost(b, plan) })
	}
}

func compareCost(b *testing.B, p Plan) {
	rounds, window := 5, 1500*time.Millisecond
	if v := os.Getenv("HONE_BENCH_ROUNDS"); v != "" {
		rounds = must[int](b)(strconv.Atoi(v))
	}
	if v := os.Getenv("HONE_BENCH_WINDOW"); v != "" {
		window = must[time.Duration](b)(time.ParseDuration(v))
	}
	var client, server, ratio, rate, p50, p99, lag []float64
	for range rounds {
		addr, pid := startServer(b)
		var spent time.Duration
		p.Target, p.Echo = codec.Frames{Address: addr}, true
		p.For, p.Warmup = window, window/3
		p.WindowOpens = func() { spent = -cpuOf(b, pid) }
		p.WindowCloses = func() { spent += cpuOf(b, pid) }
		r := must[*Result](b)(Run(context.Background(), p))
		if r.Errors["total"] != 0 {
			b.Fatalf("errors: %v", r.Errors)
		}
		perRequest := spent.Seconds() * 1e6 / (*r.Rate * window.Seconds())
		client, server = append(client, *r.Client.CPUPerRequest), append(server, perRequest)
		ratio = append(ratio, *r.Client.CPUPerRequest/perRequest)
		rate, p50, p99 = append(rate, *r.Rate), append(p50, *r.Latency.P50), append(p99, *r.Latency.P99)
		if r.Lag.P99 != nil {
			lag = append(lag, *r.Lag.P50)
		}
	}
	b.ReportMetric(0, "ns/op") // it has no meaning here; 0 leaves it out
	b.ReportMetric(median(client), "client-µs/req")
	b.ReportMetric(median(server), "server-µs/req")
	b.ReportMetric(median(ratio), "×server")
	b.ReportMetric(median(rate), "req/s")
	b.ReportMetric(median(p50), "p50-µs")
	b.ReportMetric(median(p99), "p99-µs")
	if lag != nil {
		b.ReportMetric(median(lag), "lag-p50-µs")
	}
}

// cpuOf returns the CPU time that a process has used, to a tick.
func cpuOf(tb testing.TB, pid int) time.Duration {
	const tick = time.Second / 100 // USER_HZ, on every platform that Go runs on
	all := must[[]byte](tb)(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	// After the name, which is in parentheses: user and system time are the 14th and 15th fields
	// of the line.
	_, rest, _ := strings.Cut(string(all), ") ")
	fields := strings.Fields(rest)
	return tick * time.Duration(must[int](tb)(strconv.Atoi(fields[11]))+must[int](tb)(strconv.Atoi(fields[12])))
}
