package exchange

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/record"
)

// WriteOpenMetrics writes runs as an OpenMetrics exposition, which parsers of Prometheus' older
// text format also accept, for example node_exporter's textfile collector. All metrics are gauges
// except the distribution of response times, because a file describes a finished run. A value is
// the median of the run's valid samples, in base units, and is left out if no sample is valid. The
// label run is the run's name, or its ID if it has none; of several runs with one label, the last
// counts.
func WriteOpenMetrics(w io.Writer, runs ...*record.Run) error {
	m := &metrics{families: map[string]*family{}}
	byLabel := map[string]*record.Run{}
	for _, r := range runs {
		byLabel[title(r)] = r
	}
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		if err := m.run(label, byLabel[label]); err != nil {
			return fmt.Errorf("exchange: run %s: %w", label, err)
		}
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(m.families)) {
		f := m.families[name]
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", name, f.help, name, f.kind)
		text.WriteString(f.lines.String())
	}
	text.WriteString("# EOF\n")
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("exchange: writing OpenMetrics: %w", err)
	}
	return nil
}

// metrics are metric families by name.
type metrics struct{ families map[string]*family }

// family is a metric family with the lines of all runs.
type family struct {
	kind, help string
	lines      strings.Builder
}

// in returns the family with that name, and writes its header once.
func (m *metrics) in(name, kind, help string) *family {
	f := m.families[name]
	if f == nil {
		f = &family{kind: kind, help: help}
		m.families[name] = f
	}
	return f
}

func (m *metrics) gauge(name, help, labels string, value float64) {
	fmt.Fprintf(&m.in(name, "gauge", help).lines, "%s{%s} %s\n", name, labels, decimal(value))
}

func (m *metrics) run(label string, r *record.Run) error {
	run := labelled("run", label)
	m.gauge("hone_run_info", "What the run was; always 1.", run+","+labelled("id", r.ID)+","+labelled("made", r.Made)+","+labelled("scenario", r.Scenario.Name), 1)
	m.gauge("hone_run_start_time_seconds", "When the run began, since the epoch.", run, float64(r.At.UnixMilli())/1e3)
	var valid, invalid float64
	var times *hdrhistogram.Histogram
	for i := range r.Samples {
		s := &r.Samples[i]
		if !s.Valid {
			invalid++
			continue
		}
		valid++
		if err := addTimes(&times, s); err != nil {
			return err
		}
	}
	const samples = "Samples of the run, by whether their figures can be believed."
	m.gauge("hone_run_samples", samples, run+`,valid="false"`, invalid)
	m.gauge("hone_run_samples", samples, run+`,valid="true"`, valid)
	taken := map[string]bool{}
	for _, f := range slices.SortedFunc(slices.Values(r.Spreads()), func(a, b record.Spread) int { return strings.Compare(a.Name+a.Unit, b.Name+b.Unit) }) {
		name, parts := metricName(f.Metric)
		if taken[name] { // two metrics whose names differ only in invalid characters
			continue
		}
		taken[name] = true
		m.gauge(name, fmt.Sprintf("%s of the run, the median of its valid samples.", oneLine(f.Name)), run, f.Value/parts)
	}
	m.distribution(run, times)
	return nil
}

// addTimes adds a sample's response times to all.
func addTimes(all **hdrhistogram.Histogram, s *record.Sample) error {
	pieces, err := piecesOf(s, latencyName)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if *all == nil {
			*all = p.times
		} else if dropped := (*all).Merge(p.times); dropped > 0 {
			return fmt.Errorf("histograms of different ranges cannot be added: %d values do not fit", dropped)
		}
	}
	return nil
}

// distribution writes response times with bucket bounds at 1, 2 and 5 of each power of ten, from
// 10 µs to 50 s.
func (m *metrics) distribution(run string, times *hdrhistogram.Histogram) {
	if times == nil || times.TotalCount() == 0 {
		return
	}
	const name = "hone_response_time_seconds"
	lines := &m.in(name, "histogram", "Response times of all valid samples.").lines
	bars := times.Distribution()
	below, next := int64(0), 0
	for power := -5; power <= 1; power++ {
		for _, digit := range []float64{1, 2, 5} {
			bound := digit * math.Pow10(power)
			for next < len(bars) && float64(bars[next].From) <= bound*1e9 {
				below += bars[next].Count
				next++
			}
			fmt.Fprintf(lines, "%s_bucket{%s,le=\"%s\"} %d\n", name, run, decimal(round(bound)), below)
		}
	}
	count := times.TotalCount()
	fmt.Fprintf(lines, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, run, count)
	fmt.Fprintf(lines, "%s_sum{%s} %s\n%s_count{%s} %d\n", name, run, decimal(times.Mean()*float64(count)/1e9), name, run, count)
}

// round removes the rounding error of multiplying by a power of ten.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// baseUnits maps units to Prometheus' base units, with the number of units in a base unit.
var baseUnits = []struct {
	unit, suffix string
	parts        float64
}{
	{"µs/req", "_seconds_per_request", 1e6}, {"µs", "_seconds", 1e6}, {"sec/op", "_seconds_per_operation", 1}, {"sec", "_seconds", 1},
	{"req/s", "_requests_per_second", 1}, {"B/op", "_bytes_per_operation", 1}, {"B/s", "_bytes_per_second", 1}, {"B", "_bytes", 1},
	{"allocs/op", "_allocations_per_operation", 1}, {"", "", 1},
}

// metricName returns a metric's name for Prometheus, and how many of its units are one unit of
// that name.
func metricName(f record.Metric) (string, float64) {
	name, suffix, parts := "hone_"+word(f.Name), "_"+word(f.Unit), 1.0
	if f.Name == f.Unit { // a metric of go test has no other name
		name = "hone_benchmark"
	}
	for _, u := range baseUnits {
		if u.unit == f.Unit {
			suffix, parts = u.suffix, u.parts
		}
	}
	return name + suffix, parts
}

// word reduces a text to lower case letters, digits and single underscores.
func word(text string) string {
	parts := strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "/", " per ")), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return strings.Join(parts, "_")
}

// labelled formats a label with its value.
func labelled(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}
