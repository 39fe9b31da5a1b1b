package observe

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is how a metric's values are to be read.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // only grows while the process lives; take its rate
	Gauge     Kind = "gauge"     // a value of this moment
	Histogram Kind = "histogram" // with classic buckets
	Summary   Kind = "summary"   // with quantiles since the start
)

// Metric is one entry of the list that /metrics, docs/metrics.md and the
// dashboards are made from.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string   // of the values; empty: they count what Help says
	Labels []string // beside job and instance, which Prometheus adds
	Help   string
	// From is the field of Admin that has to be filled for the metric to be there, "Linux",
	// or "Limits": while the server serves with that limit on; empty: it always is.
	From string
	// Panel is where it is shown, DASHBOARD/TITLE.
	Panel string
}

// mostSeries bounds the series of one metric, whoever asks for what: with a
// label for a source, mostSources of them and a few reasons each stay below.
const (
	mostSeries  = 200
	mostSources = 20
)

// Metrics lists everything that /metrics may answer. An entry without From is
// always there; the others as it says.
func Metrics() []Metric {
	var all []Metric
	for _, e := range entries() {
		all = append(all, e.Metric)
	}
	return slices.Concat(all, runtimeMetrics(), processMetrics())
}

// entry is a metric of ours, with how it is read.
type entry struct {
	Metric
	// read gives the samples: a value and the values of Labels.
	read func(r *reading, give func(v float64, labels ...string))
	// timed gives what a histogram has counted; nil for every other kind.
	timed func(r *reading) *times
}

// entries are all metrics of ours.
func entries() []entry {
	return slices.Concat(serverEntries(), httpEntries(), latencyEntries(), connsEntries(), workersEntries(), buffersEntries(), cacheEntries(), hostEntries())
}

// describe is the entry as the registry wants it.
func (e *entry) describe() *prometheus.Desc {
	return prometheus.NewDesc(e.Name, e.Help, e.Labels, nil)
}

// valueType is the kind as the registry wants it.
func (e *entry) valueType() prometheus.ValueType {
	if e.Kind == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
