package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// leastShare is how much of its half each of two busy gateways must store.
const leastShare = 0.3

// BenchmarkBusyGateways compares two busy gateways with one, of three on one cluster of three nats-servers with fsync.
// Clients stay with their gateway. A shape is the clients of each busy gateway and the window of each client; a pair is a
// run of two between runs of one, and its ratio is the sum of the two by the mean of those beside it. Metrics of several
// runs are medians. It fails if a process ends, a gateway gets less than leastShare, or something acknowledged is not stored
// once. HONE_BENCH_WINDOW is the time of a run, 10s without it:
//
//	go test ./gateway/cmd/honed -run '^$' -bench BusyGateways -benchtime 5x -timeout 60m
func BenchmarkBusyGateways(b *testing.B) {
	m := match{time: 10 * time.Second}
	if v := os.Getenv("HONE_BENCH_WINDOW"); v != "" {
		var err error
		m.time, err = time.ParseDuration(v)
		must(b, err)
	}
	for _, shape := range []struct{ clients, window int }{{4, 64}, {2, 8}, {2, 1}} {
		b.Run(fmt.Sprintf("%dx%d", shape.clients, shape.window), func(b *testing.B) {
			m := m
			m.clients, m.window, m.acked = shape.clients, shape.window, map[string]uint64{}
			m.compare(b)
		})
	}
}

// match is the runs of one shape.
type match struct {
	time            time.Duration // of a run
	clients, window int

	gateways []*daemon
	runs     int
	acked    map[string]uint64 // by client; no two runs share one
}

func (m *match) compare(b *testing.B) {
	servers, urls := natsServers(b)
	m.gateways = busyGateways(b, urls, 3)
	ones, twos, ratios, least := m.run(b, m.gateways[0]), []float64(nil), []float64(nil), 1.0
	for b.Loop() {
		both := m.run(b, m.gateways[:2]...)
		ones = append(ones, m.run(b, m.gateways[len(ones)%2])...) // each of the two in turn
		sum, beside := both[0]+both[1], ones[len(ones)-2:]
		twos, ratios = append(twos, sum), append(ratios, 2*sum/(beside[0]+beside[1]))
		least = min(least, 2*slices.Min(both)/sum)
		b.Logf("two %.0f, one %.0f records/s: %.3f", both, beside, ratios[len(ratios)-1])
	}
	stored, checked := inCluster(b, urls) // none of them twice
	lost := uint64(0)
	for client, acked := range m.acked {
		lost += acked - min(stored[client], acked)
	}
	exits := 0
	for _, d := range append(servers, m.gateways...) {
		exits += d.ends()
	}
	if exits > 0 || lost+checked.LeftOut > 0 || !(least >= leastShare) {
		b.Errorf("%d exits, %d lost, %d left out, least share %.2f", exits, lost, checked.LeftOut, least)
	}
	b.ReportMetric(0, "ns/op") // says nothing here
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(ones), "one-records/s")
	b.ReportMetric(median(twos), "two-records/s")
	b.ReportMetric(least, "least-share")
	b.ReportMetric(float64(exits), "exits")
	b.ReportMetric(float64(lost), "lost")
}

// run keeps some gateways busy, and returns how many records each acknowledges per second once every client has begun.
func (m *match) run(b *testing.B, busy ...*daemon) (rates []float64) {
	ctx, cancel := context.WithCancel(b.Context())
	m.runs++
	var crews []*crew
	stop := func() {
		cancel()
		for _, c := range crews {
			c.feeding.Wait()
		}
	}
	defer stop()
	for _, g := range busy {
		crews = append(crews, newCrew(ctx, b, g, fmt.Sprintf("run-%d-%s", m.runs, g.name), m.clients, m.window, 128))
	}
	eventually(b, "every client", func() bool {
		return !slices.ContainsFunc(crews, func(c *crew) bool { return c.least() == 0 })
	})
	before, began := make([]uint64, len(crews)), time.Now()
	for i, c := range crews {
		before[i] = c.all.Load()
	}
	<-time.After(m.time)
	for i, c := range crews {
		rates = append(rates, float64(c.all.Load()-before[i])/time.Since(began).Seconds())
	}
	stop()
	for _, c := range crews {
		for i, client := range c.clients {
			m.acked[client.ID] = c.acked[i].Load()
		}
	}
	return rates
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}
