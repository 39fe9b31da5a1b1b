package observe

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/workers"
)

// scrapers limits concurrent scrapes; one more is answered with 503.
const scrapers = 4

// metrics serves the metrics that Metrics lists, from a registry of its own.
func (a *Admin) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(a),
		goCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapers})
}

// reading is one scrape's data: every source is read once.
type reading struct {
	info    Info
	server  engine.Stats
	sent    uint64       // responses sent; see Admin.read
	http    *http1.Stats // nil: not an HTTP server
	latency *times       // nil: not timed
	conns   map[string]conns.Stats
	workers map[string]workers.Stats
	moves   map[string]map[workers.Reason]uint64 // by pool
	buffers map[string]pool.Stats
	caches  map[string]Cache
	host    *host // nil: not available on this system
}

// collector reads everything once per scrape and keeps nothing. The number of its series is
// fixed by the Admin's fields: no label has a value that a client chose.
type collector struct {
	admin   *Admin
	entries []entry
	descs   []*prometheus.Desc // of entries
}

func newCollector(a *Admin) *collector {
	c := &collector{admin: a, entries: entries()}
	for i := range c.entries {
		c.descs = append(c.descs, c.entries[i].describe())
	}
	return c
}

// Describe lists the series.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect reads them.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	r := c.admin.readAll()
	for i := range c.entries {
		e, desc := &c.entries[i], c.descs[i]
		if e.timed != nil {
			if seen := e.timed(r); seen != nil {
				to <- prometheus.MustNewConstHistogram(desc, seen.count, seen.seconds, seen.buckets)
			}
			continue
		}
		e.read(r, func(v float64, labels ...string) {
			for i := range labels {
				labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD") // Prometheus accepts only valid UTF-8
			}
			to <- prometheus.MustNewConstMetric(desc, e.valueType(), v, labels...)
		})
	}
}

// readAll reads every source once.
func (a *Admin) readAll() *reading {
	r := &reading{info: a.Info, latency: a.Latency.read(), host: readHost()}
	if a.HTTP != nil {
		r.http = new(a.HTTP())
	}
	r.server, r.sent = a.read()
	r.conns = readEach(a.Conns, call)
	r.workers = readEach(a.Workers, WorkerPool.Stats)
	r.moves = a.moves.read(a.Workers)
	r.buffers = readEach(a.Buffers, call)
	r.caches = readEach(a.Caches, call)
	return r
}

// readEach reads each source of one kind.
func readEach[Source, Stats any](sources map[string]Source, read func(Source) Stats) map[string]Stats {
	all := make(map[string]Stats, len(sources))
	for name, source := range sources {
		all[name] = read(source)
	}
	return all
}

func call[Stats any](read func() Stats) Stats { return read() }
