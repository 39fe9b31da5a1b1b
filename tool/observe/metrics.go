package observe

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hone-go/hone/engine"
)

// scrapers bounds the scrapes under way; one more is answered 503.
const scrapers = 4

// metrics serves the server's counters, the process and the Go runtime from a
// registry of its own.
func (a *Admin) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(a),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapers})
}

// collector reads the counters once for every scrape, and keeps nothing. The
// number of its series is fixed: no label has a value that a client chose.
type collector struct {
	admin                 *Admin
	figures               []figure
	rejected, ended, info *prometheus.Desc
}

// figure is one number of a scrape.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(st *engine.Stats, sent uint64) float64
}

func newCollector(a *Admin) *collector {
	return &collector{
		admin:   a,
		figures: figures(),
		rejected: prometheus.NewDesc("hone_rejected_total",
			"Connections refused or closed because of a limit or a broken protocol.", []string{"reason"}, nil),
		ended: prometheus.NewDesc("hone_connections_ended_total",
			"Connections that ended without breaking a rule.", []string{"reason"}, nil),
		info: prometheus.NewDesc("hone_info",
			"What is running; always 1.", []string{"engine", "service", "dialect", "version"}, nil),
	}
}

func figures() []figure {
	type value = func(st *engine.Stats, sent uint64) float64
	gauge := func(name, help string, v value) figure {
		return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, v}
	}
	counter := func(name, help string, v value) figure {
		return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, v}
	}
	return []figure{
		gauge("hone_connections", "Connections open now.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Open) }),
		counter("hone_connections_accepted_total", "Connections that were served.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Accepted) }),
		counter("hone_requests_received_total", "Requests given to handlers.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Requests) }),
		counter("hone_responses_sent_total", "Requests that are owed no reply any more: answered, or their connection ended first.",
			func(_ *engine.Stats, sent uint64) float64 { return float64(sent) }),
		counter("hone_late_responses_sent_total", "Replies that were promised for later and given.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Late) }),
		counter("hone_pushes_sent_total", "Messages sent that nobody asked for.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Pushes) }),
		counter("hone_received_bytes_total", "Bytes read from sockets.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.BytesIn) }),
		counter("hone_sent_bytes_total", "Bytes written to sockets.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.BytesOut) }),
		counter("hone_panics_total", "Panics in user code.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Panics) }),
		gauge("hone_output_waiting_bytes", "Output waiting for slow peers now.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Waiting) }),
		gauge("hone_replies_owed", "Replies promised for later and outstanding now.",
			func(st *engine.Stats, _ uint64) float64 { return float64(st.Owed) }),
	}
}

// Describe lists the series.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		to <- f.desc
	}
	to <- c.rejected
	to <- c.ended
	to <- c.info
}

// Collect reads them.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	st, sent := c.admin.read()
	for _, f := range c.figures {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&st, sent))
	}
	for why, n := range reasons(st) {
		desc := c.ended
		if rejection(why) {
			desc = c.rejected
		}
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), why.String())
	}
	i := c.admin.Info
	to <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1,
		st.Engine, label(i.Service), label(i.Dialect), label(i.Version))
}

// label is s as far as Prometheus can carry it.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
