package observe_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// How BenchmarkScrapeCost measures.
const (
	costRate   = 50_000
	costConns  = 100
	costFor    = 4 * time.Second
	costRounds = 8
	costTries  = 4 // for one run that the generator calls valid
	// costLag is more than would be allowed where response times are looked at:
	// what is looked at here is the server's processor time.
	costLag = 20 * time.Millisecond
)

// BenchmarkScrapeCost is what a scrape a second costs a server that answers
// 50 000 requests a second, as processor time of a request: two runs without
// scrapes and one with, each a fresh process, in random order, eight times. The
// ratio of the first two (A/A) says what this machine can tell apart.
//
//	go test -run '^$' -bench ScrapeCost -benchtime 1x ./tool/observe
//
// It takes two minutes, and wants an idle machine.
func BenchmarkScrapeCost(b *testing.B) {
	for b.Loop() {
		var none, again, scraped []float64
		sides := []struct {
			every time.Duration
			costs *[]float64
		}{{0, &none}, {0, &again}, {time.Second, &scraped}}
		for range costRounds {
			for _, i := range rand.Perm(len(sides)) {
				*sides[i].costs = append(*sides[i].costs, costOfRequests(b, sides[i].every))
			}
		}
		for name, with := range map[string][]float64{"A/A": again, "scraped/A": scraped} {
			var pairs []compare.Pair
			for i := range none {
				pairs = append(pairs, compare.Pair{ID: i + 1, A: none[i], B: with[i]})
			}
			c := compare.Rules{}.Compare([]compare.Figure{{Name: name, Unit: "µs", Pairs: pairs}}).Changes[0]
			if c.Ratio == nil || c.Low == nil || c.High == nil {
				b.Fatalf("%s: no ratio of %v and %v", name, none, with)
			}
			b.Logf("%s: %s; %.3f and %.3f", name, c.Words(0.03), none, with)
			b.ReportMetric(*c.Ratio, name)
			b.ReportMetric(*c.Low, name+"-low")
			b.ReportMetric(*c.High, name+"-high")
		}
	}
}

// costOfRequests is one run: the server's processor time of a request, in
// microseconds, scraped so often. Zero: never.
func costOfRequests(b *testing.B, every time.Duration) float64 {
	b.Helper()
	for try := 1; ; try++ {
		cost, result := measureCost(b, every)
		switch {
		case result.Valid:
			return cost
		case try == costTries:
			b.Fatalf("no valid run of %d: %v; try on an idle machine", costTries, result.InvalidReasons)
		}
		b.Logf("again, not valid: %v", result.InvalidReasons)
	}
}

func measureCost(b *testing.B, every time.Duration) (µs float64, result *load.Result) {
	b.Helper()
	child, stop := spawn(b)
	defer stop()
	s := newScraper(b, child.Admin)
	defer s.http.CloseIdleConnections()
	target, err := load.ParseTarget("tcp://"+child.Addr, wire.Standard)
	if err != nil {
		b.Fatal(err)
	}
	read := func(cpu *float64, requests *uint64) func() {
		return func() {
			if now, err := s.snapshot(); err == nil && now.CPUSeconds != nil {
				*cpu, *requests = *now.CPUSeconds, now.RequestsReceived
			}
		}
	}
	var before, after float64
	var first, last uint64
	ctx, cancel := context.WithCancel(b.Context())
	scraped := make(chan struct{})
	go func() {
		defer close(scraped)
		scrapeEvery(ctx, newScraper(b, child.Admin), every)
	}()
	result, err = load.Run(b.Context(), load.Plan{
		Target: target, Conns: costConns, Rate: costRate, For: costFor, Warmup: time.Second, MaxLag: costLag,
		WindowOpens: read(&before, &first), WindowCloses: read(&after, &last),
	})
	cancel()
	<-scraped
	if err != nil {
		b.Fatal(err)
	}
	if last <= first {
		b.Fatalf("%d requests before, %d after", first, last)
	}
	return (after - before) / float64(last-first) * 1e6, result
}

// scrapeEvery scrapes as Prometheus would, until ctx ends.
func scrapeEvery(ctx context.Context, s *scraper, every time.Duration) {
	if every == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer s.http.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.get("/metrics") // an error is a server that has ended
		}
	}
}
