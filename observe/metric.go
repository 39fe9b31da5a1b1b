package observe

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is a metric's type.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"   // only grows while the process lives; use its rate
	Gauge     Kind = "gauge"     // a current value
	Histogram Kind = "histogram" // with classic buckets
	Summary   Kind = "summary"   // with quantiles since the start
)

// Metric is an entry of the list from which /metrics, observe/metrics.md and the dashboards are
// made.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string   // of the values; empty: a count of what Help says
	Labels []string // in addition to job and instance, which Prometheus adds
	Help   string
	// From is the condition under which the metric exists: the field of Admin that must be
	// set, "Linux", or "Limits" (while the server serves, unless that limit is off). Empty:
	// it always exists.
	From string
	// Panel is the dashboard panel that shows it, DASHBOARD/TITLE.
	Panel string
}

// mostSeries limits the series per metric: with one label for the source, mostSources sources
// with a few reasons each stay below it.
const (
	mostSeries  = 200
	mostSources = 20
)

// Metrics lists everything that /metrics may return. An entry with an empty From is always
// there; for the others From says when.
func Metrics() []Metric {
	var all []Metric
	for _, e := range entries() {
		all = append(all, e.Metric)
	}
	return slices.Concat(all, runtimeMetrics(), processMetrics())
}

// entry is a metric of this package and how to read it.
type entry struct {
	Metric
	// read reports the samples: a value and the values of Labels.
	read func(r *reading, give func(v float64, labels ...string))
	// timed returns a histogram's data; nil for every other kind.
	timed func(r *reading) *times
}

// entries are all metrics of this package.
func entries() []entry {
	return slices.Concat(serverEntries(), httpEntries(), latencyEntries(), connsEntries(), workersEntries(), buffersEntries(), cacheEntries(), hostEntries())
}

// describe returns the entry in the registry's form.
func (e *entry) describe() *prometheus.Desc {
	return prometheus.NewDesc(e.Name, e.Help, e.Labels, nil)
}

// valueType returns the kind in the registry's form.
func (e *entry) valueType() prometheus.ValueType {
	if e.Kind == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
