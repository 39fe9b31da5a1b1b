package admin

import (
	"context"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/hone-go/hone/observe"
)

// Rates computes per-second figures from two snapshots of a server.
type Rates struct {
	before *observe.Snapshot
	at     time.Time
}

// Since returns the change since the previous snapshot.
func (f *Rates) Since(s *observe.Snapshot) map[string]float64 {
	now := time.Now()
	values := map[string]float64{
		"s.conns": float64(s.Connections), "s.owed": float64(s.RepliesOwed),
		"s.outmem": float64(s.OutputMemoryBytes), "s.inmem": float64(s.InputMemoryBytes), "s.inline": float64(s.ConnectionsInLine),
		"g.goroutines": float64(s.Goroutines),
	}
	if s.RSSBytes != nil {
		values["s.rss"] = float64(*s.RSSBytes)
	}
	b, seconds := f.before, now.Sub(f.at).Seconds()
	f.before, f.at = s, now
	if b == nil || b.PID != s.PID || seconds <= 0 || s.RequestsReceived < b.RequestsReceived {
		return values
	}
	each := func(now, before uint64) float64 { return float64(now-before) / seconds }
	values["s.rate"] = each(s.RequestsReceived, b.RequestsReceived)
	values["s.in"], values["s.out"] = each(s.ReceivedBytes, b.ReceivedBytes), each(s.SentBytes, b.SentBytes)
	values["s.handoffs"] = each(s.HandOffs, b.HandOffs)
	rejected := uint64(0)
	for why, n := range s.Rejected {
		rejected += n - b.Rejected[why]
	}
	values["s.rejected"] = float64(rejected) / seconds
	if s.CPUSeconds != nil && b.CPUSeconds != nil {
		used := *s.CPUSeconds - *b.CPUSeconds
		values["s.cpu"] = used / seconds
		if n := s.RequestsReceived - b.RequestsReceived; n > 0 {
			values["s.cpureq"] = used / float64(n) * 1e6
		}
	}
	return values
}

// Figures polls a hone server's admin side every second: /stats for what it serves, and
// /metrics for its Go runtime.
type Figures struct {
	mu     sync.Mutex
	stats  *Server
	seen   Rates
	earned runtimeFigures
}

// Of sets the server to poll; nil: none. The caller keeps ownership of it.
func (f *Figures) Of(s *Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats, f.seen, f.earned = s, Rates{}, runtimeFigures{}
}

// Close stops using the server.
func (f *Figures) Close() { f.Of(nil) }

// Read implements page.Source. It returns no figures if the server does not answer.
func (f *Figures) Read(ctx context.Context) map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	s, err := f.stats.Read(ctx)
	if err != nil {
		return nil
	}
	values := f.seen.Since(s)
	response, err := f.stats.get(ctx, strings.TrimSuffix(f.stats.url, "/stats")+"/metrics")
	if err != nil {
		return values
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		maps.Copy(values, f.earned.since(io.LimitReader(response.Body, statsSize)))
	}
	return values
}

// runtimeFigures are a Go runtime's figures from /metrics.
type runtimeFigures struct {
	cycles        float64
	pauses, waits map[float64]float64 // by the bucket's upper bound
	known         bool
}

// since reads the metrics and returns the change since the previous reading. Anything
// other than the Prometheus text format yields no figures.
func (f *runtimeFigures) since(metrics io.Reader) map[string]float64 {
	values := map[string]float64{}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return values
	}
	for name, key := range map[string]string{"go_gc_heap_live_bytes": "g.heap", "go_gc_heap_goal_bytes": "g.goal"} {
		for _, m := range families[name].GetMetric() {
			values[key] = m.GetGauge().GetValue()
		}
	}
	now := runtimeFigures{
		pauses: bucketsOf(families["go_sched_pauses_total_gc_seconds"]), waits: bucketsOf(families["go_sched_latencies_seconds"]), known: true,
	}
	for _, m := range families["go_gc_cycles_total_gc_cycles_total"].GetMetric() {
		now.cycles = m.GetCounter().GetValue()
	}
	if f.known {
		values["g.gc"] = now.cycles - f.cycles
		values["g.pause"] = 1e6 * quantileBetween(f.pauses, now.pauses, 1)
		values["g.sched"] = 1e6 * quantileBetween(f.waits, now.waits, 0.99)
	}
	*f = now
	return values
}

// bucketsOf returns a histogram's cumulative buckets by upper bound; none for nil.
func bucketsOf(family *dto.MetricFamily) map[float64]float64 {
	buckets := map[float64]float64{}
	for _, m := range family.GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			buckets[b.GetUpperBound()] = max(float64(b.GetCumulativeCount()), b.GetCumulativeCountFloat())
		}
	}
	return buckets
}

// quantileBetween returns a quantile of the observations between two readings of
// cumulative buckets; 0 if there are none.
func quantileBetween(before, now map[float64]float64, part float64) float64 {
	total := now[math.Inf(1)] - before[math.Inf(1)]
	last := 0.0
	for _, end := range slices.Sorted(maps.Keys(now)) {
		if !math.IsInf(end, 1) {
			last = end
		}
		if total > 0 && now[end]-before[end] >= part*total {
			return last
		}
	}
	return 0
}

const (
	statsTime = 5 * time.Second // for one response: a server under load may be slow
	pollTime  = time.Second / 2 // for one of the page
	statsSize = 1 << 20
)
