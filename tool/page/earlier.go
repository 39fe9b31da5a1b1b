package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// earlier is an earlier run: its medians per second and over the whole run.
type earlier struct {
	Name    string            `json:"name"`
	Figures map[string]number `json:"figures"`
	Seconds []point           `json:"seconds"`
	Curve   *curves           `json:"curve,omitempty"`
}

// earlierOf converts a run; nil for nil.
func earlierOf(r *record.Run) *earlier {
	if r == nil {
		return nil
	}
	g := &earlier{Name: r.Title(), Figures: numbers(medians(r)), Seconds: []point{}}
	bySecond := map[time.Duration][]map[string]float64{}
	var all perSecond
	for i := range r.Samples {
		if !r.Samples[i].Valid {
			continue
		}
		c := perSecondOf(&r.Samples[i])
		for _, s := range c.seconds {
			at := s.end.Round(time.Second)
			bySecond[at] = append(bySecond[at], s.values)
		}
		all.merge(c)
	}
	for _, at := range slices.Sorted(maps.Keys(bySecond)) {
		values := map[string]float64{}
		for _, key := range []string{"rate", "p50", "p99", "max", "sp50", "sp99"} {
			values[key] = medianOf(bySecond[at], key)
		}
		g.Seconds = append(g.Seconds, point{T: number(at.Seconds()), Values: numbers(values)})
	}
	g.Curve = all.curves()
	return g
}

// perSecond is a sample's time series.
type perSecond struct {
	seconds          []stored
	latency, service spread
	lasts            time.Duration
}

// stored is one interval of a sample.
type stored struct {
	end              time.Duration
	values           map[string]float64
	latency, service *spread // service is nil if identical
}

// perSecondOf reads a sample's histograms and rates. What cannot be read is absent.
func perSecondOf(s *record.Sample) *perSecond {
	c := &perSecond{}
	at := map[time.Duration]*stored{}
	for _, h := range s.Histograms {
		read, err := hdrhistogram.Decode(h.Data)
		if err != nil || h.Name != "latency" && h.Name != "service" {
			continue
		}
		whole := h.Start == 0 && h.End == 0
		into := new(spread)
		into.take(read)
		switch {
		case whole && h.Name == "latency":
			c.latency.add(into)
		case whole:
			c.service.add(into)
		default:
			if at[h.End] == nil {
				at[h.End] = &stored{end: h.End, values: map[string]float64{}}
			}
			if h.Name == "latency" {
				at[h.End].latency = into
				addTimes(at[h.End].values, "", into)
			} else {
				at[h.End].service = into
				addTimes(at[h.End].values, "s", into)
			}
		}
	}
	for _, one := range at {
		c.seconds = append(c.seconds, *one)
		c.lasts = max(c.lasts, one.end)
	}
	slices.SortFunc(c.seconds, func(a, b stored) int { return cmp.Compare(a.end, b.end) })
	c.addRates(s)
	return c
}

// addRates adds the series "rate" to the intervals, in order.
func (c *perSecond) addRates(s *record.Sample) {
	for _, series := range s.Series {
		if series.Name != "rate" {
			continue
		}
		for i, v := range series.Values {
			if i == len(c.seconds) {
				end := series.Start + time.Duration(i+1)*series.Step
				c.seconds = append(c.seconds, stored{end: end, values: map[string]float64{}})
				c.lasts = max(c.lasts, end)
			}
			c.seconds[i].values["rate"] = v
		}
	}
}

func (c *perSecond) merge(other *perSecond) {
	c.latency.add(&other.latency)
	c.service.add(&other.service)
}

// curves is nil without a distribution.
func (c *perSecond) curves() *curves {
	if c.latency.total == 0 {
		return nil
	}
	k := &curves{Latency: c.latency.curve()}
	if c.service.total > 0 {
		k.Service = c.service.curve()
	}
	return k
}

// medians returns a run's figures under the page's keys.
func medians(r *record.Run) map[string]float64 {
	var samples []map[string]float64
	for i := range r.Samples {
		if r.Samples[i].Valid {
			samples = append(samples, figuresOf(&r.Samples[i]))
		}
	}
	all := map[string]float64{}
	for _, key := range []string{"rate", "p50", "p99", "p999", "errors", "cpu"} {
		all[key] = medianOf(samples, key)
	}
	return all
}

// keyOf returns the page's key of a metric; empty if it has none.
func keyOf(metric string) string {
	switch metric {
	case "rate", "p50", "p99", "p999":
		return metric
	case "server CPU":
		return "cpu"
	}
	return ""
}

// figuresOf returns a sample's figures.
func figuresOf(s *record.Sample) map[string]float64 {
	figures := map[string]float64{}
	for _, m := range s.Metrics {
		if key := keyOf(m.Name); key != "" {
			figures[key] = m.Value
		}
	}
	if _, known := figures["rate"]; !known && s.Rate != nil { // in an open loop the rate is not a metric
		figures["rate"] = *s.Rate
	}
	if s.Errors != nil {
		figures["errors"] = float64(*s.Errors)
	}
	return figures
}

// medianOf returns the median over those that have the figure; NaN if none has.
func medianOf(all []map[string]float64, key string) float64 {
	var values []float64
	for _, one := range all {
		if v, ok := one[key]; ok && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return figure.Median(values)
}
