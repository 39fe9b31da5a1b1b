package deploy

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// Settings of BenchmarkScrapeCost.
const (
	costRate   = 50_000
	costConns  = 100
	costFor    = 4 * time.Second
	costRounds = 8
	costTries  = 4 // per run that the generator considers valid
	// costLag is larger than for response times: this benchmark measures the server's CPU
	// time.
	costLag = 20 * time.Millisecond
)

// BenchmarkScrapeCost measures the cost of one scrape per second for a hone serve that
// answers 50 000 requests per second, as CPU time per request: two runs without scrapes
// and one with, each a fresh process, in random order, eight times. The ratio of the
// first two (A/A) shows what this machine can resolve.
//
//	go test -run '^$' -bench ScrapeCost -benchtime 1x ./deploy
//
// It takes two minutes, and needs an idle machine.
func BenchmarkScrapeCost(b *testing.B) {
	name := build(b, "./tool/cmd/hone")
	for b.Loop() {
		var none, again, scraped []float64
		sides := []struct {
			every time.Duration
			costs *[]float64
		}{{0, &none}, {0, &again}, {time.Second, &scraped}}
		for range costRounds {
			for _, i := range rand.Perm(len(sides)) {
				*sides[i].costs = append(*sides[i].costs, costOfRequests(b, name, sides[i].every))
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

// costOfRequests is one run: the server's CPU time per request, in microseconds, with a
// scrape every so often. Zero: no scrapes.
func costOfRequests(b *testing.B, name string, every time.Duration) float64 {
	b.Helper()
	for try := 1; ; try++ {
		cost, result := measureCost(b, name, every)
		switch {
		case result.Valid:
			return cost
		case try == costTries:
			b.Fatalf("no valid run of %d: %v; try on an idle machine", costTries, result.InvalidReasons)
		}
		b.Logf("again, not valid: %v", result.InvalidReasons)
	}
}

func measureCost(b *testing.B, name string, every time.Duration) (µs float64, result *load.Result) {
	b.Helper()
	p := start(b, name, "serve", "--addr=127.0.0.1:0", "--admin=127.0.0.1:0")
	defer p.stop()
	target, err := codec.ParseTarget("tcp://" + p.Addr)
	if err != nil {
		b.Fatal(err)
	}
	asked := http.Client{Transport: new(http.Transport), Timeout: patience}
	defer asked.CloseIdleConnections()
	read := func(cpu *float64, requests *uint64) func() {
		return func() {
			var now observe.Snapshot
			body, err := fetch(&asked, "http://"+p.Admin+"/stats")
			if err == nil && json.Unmarshal(body, &now) == nil && now.CPUSeconds != nil {
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
		scrapeEvery(ctx, "http://"+p.Admin+"/metrics", every)
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

// scrapeEvery scrapes as Prometheus would, over one connection, until ctx ends.
func scrapeEvery(ctx context.Context, address string, every time.Duration) {
	if every == 0 {
		return
	}
	asked := http.Client{Transport: new(http.Transport), Timeout: patience}
	defer asked.CloseIdleConnections()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fetch(&asked, address) // an error means that the server has ended
		}
	}
}

// fetch returns the body of a response.
func fetch(client *http.Client, address string) ([]byte, error) {
	response, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
