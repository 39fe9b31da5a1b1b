package page

import (
	"fmt"
	"math"

	"github.com/hone-go/hone/tool/load"
)

// Segment names what is under load when several take turns: an engine of a race, a sample of
// a bench. Group is the load that they share.
type Segment struct{ Group, Name string }

// Second is what the generator measured since the previous one. Load reads its histograms, which may
// be nil, before it returns.
type Second struct {
	Segment Segment // zero: there is only one
	load.Progress
}

// point is a moment of some figures for the charts.
type point struct {
	T       number            `json:"t"` // seconds
	Values  map[string]number `json:"v"`
	Latency []int64           `json:"h,omitempty"` // see spread.wide
	Service []int64           `json:"s,omitempty"` // absent: identical
}

// mark is an event on the time axis.
type mark struct {
	T    number `json:"t"`
	Kind string `json:"kind"` // "segment", "measuring", "phase" or "end"
	Text string `json:"text"`
	// Doubtful marks the beginning of a sample that does not count.
	Doubtful bool `json:"doubtful,omitempty"`
}

// segmentCount accumulates the running segment.
type segmentCount struct {
	began            bool
	segment          Segment
	phase            string
	errors           int64
	latency, service spread
	same             bool // service times are identical
	seconds          int  // measured
	rate             float64
	share            float64
	shares           int
	doubt            string
	cpu, served      float64 // of the server, over the measured seconds
}

// Load adds a second of the generator's figures. It takes about a millisecond
// (BenchmarkSecond).
func (p *Page) Load(s Second) {
	defer p.change()()
	now := p.now()
	l := &p.segment
	if !l.began || s.Segment != l.segment {
		p.beginSegment(s.Segment, now)
	}
	if s.Phase != l.phase {
		kind := "phase"
		if s.Phase == load.Measuring {
			kind = load.Measuring
		}
		l.phase = s.Phase
		p.stream.add(encode("mark", mark{number(now), kind, s.Phase, false}))
	}
	pt := point{T: number(now)}
	values := map[string]float64{"rate": s.Rate, "errors": float64(s.Errors - l.errors), "conns": float64(s.Conns)}
	l.errors = s.Errors
	if s.CPUShare != nil {
		values["share"] = *s.CPUShare
	}
	if s.Lag > 0 {
		values["lag"] = float64(s.Lag) / 1e3
	}
	l.doubt = s.Doubt
	var latency, service spread
	latency.take(s.Latency)
	same := s.Service == nil || s.Service == s.Latency
	addTimes(values, "", &latency)
	pt.Latency = latency.wide()
	if !same {
		service.take(s.Service)
		addTimes(values, "s", &service)
		pt.Service = service.wide()
	}
	pt.Values = numbers(values)
	if s.Phase == load.Measuring {
		l.measure(s, &latency, &service, same)
	}
	p.stream.add(encode("point", pt))
	p.state.Status, p.state.Phase = Running, s.Phase
	p.judge()
}

// addTimes adds a spread's figures under keys with this prefix.
func addTimes(values map[string]float64, prefix string, s *spread) {
	values[prefix+"p50"], values[prefix+"p99"], values[prefix+"max"] = s.quantile(0.5), s.quantile(0.99), s.quantile(1)
}

// beginSegment starts a segment and keeps only the table row of the previous one.
func (p *Page) beginSegment(segment Segment, now float64) {
	p.segment = segmentCount{began: true, segment: segment}
	if segment != (Segment{}) {
		p.stream.add(encode("mark", mark{number(now), "segment", segment.text(), false}))
		if len(p.state.Segments) > 0 {
			p.state.Segments[len(p.state.Segments)-1].Done = true
		}
		p.state.Segments = append(p.state.Segments, segmentLine{Group: segment.Group, Name: segment.Name})
		p.state.Segments = p.state.Segments[max(0, len(p.state.Segments)-keptSegments):]
	}
}

// Settle ends a segment with the figures that count, in place of its own: the page shows what its command does,
// and nothing else.
func (p *Page) Settle(segment Segment, rate, p50, p99, cpu *float64) {
	defer p.change()()
	if !p.segment.began || segment != p.segment.segment { // it took less than a second
		p.beginSegment(segment, p.now())
	}
	line := &p.state.Segments[len(p.state.Segments)-1]
	line.Rate, line.P50, line.P99, line.CPU, line.Doubtful = orNone(rate), orNone(p50), orNone(p99), orNone(cpu), rate == nil
	p.segment, p.state.Figures, p.state.Curve = segmentCount{}, nil, nil
}

// Agent is one of several agents that share a load, over the last second.
type Agent struct {
	Name     string
	Rate     float64  // answers per second
	P50, P99 *float64 // microseconds; nil: not known
	Doubtful bool     // its figures, and so the total, are not reliable
}

// Agents adds a second of all agents; Load receives their sum.
func (p *Page) Agents(all []Agent) {
	defer p.change()()
	p.state.Segments = nil
	for _, a := range all[:min(len(all), keptSegments)] {
		p.state.Segments = append(p.state.Segments, segmentLine{
			Group: "agents", Name: a.Name, Rate: number(a.Rate), P50: orNone(a.P50), P99: orNone(a.P99), CPU: orNone(nil), Done: true, Doubtful: a.Doubtful,
		})
	}
}

func (l Segment) text() string {
	if l.Group == "" {
		return l.Name
	}
	return l.Name + ", " + l.Group
}

// measure adds a measured second.
func (l *segmentCount) measure(s Second, latency, service *spread, same bool) {
	l.seconds++
	l.rate += s.Rate
	l.same = same
	l.latency.add(latency)
	if !same {
		l.service.add(service)
	}
	if s.CPUShare != nil {
		l.share += *s.CPUShare
		l.shares++
	}
}

// figures returns the segment's figures so far.
func (l *segmentCount) figures() map[string]float64 {
	return map[string]float64{
		"rate": l.rate / float64(l.seconds), "p50": l.latency.quantile(0.5), "p99": l.latency.quantile(0.99),
		"p999": l.latency.quantile(0.999), "errors": float64(l.errors), "cpu": l.cpu / l.served,
	}
}

// judge updates the state from the segment. A generator that is late, or has no spare CPU, distorts
// every figure, so the page reports it at once.
func (p *Page) judge() {
	l := &p.segment
	p.state.Reasons = []string{}
	if l.doubt != "" {
		p.state.Reasons = append(p.state.Reasons, l.doubt)
	}
	if l.shares > 0 && l.share/float64(l.shares) >= load.MostCPUShare {
		p.state.Reasons = append(p.state.Reasons, fmt.Sprintf(
			"the generator uses %.0f %% of its CPUs (limit %.0f %%); give it more CPUs, or offer less load",
			100*l.share/float64(l.shares), 100*load.MostCPUShare))
	}
	if l.seconds == 0 {
		p.state.Figures, p.state.Curve = map[string]number{}, nil
		return
	}
	figures := l.figures()
	p.state.Figures = numbers(figures)
	p.state.Curve = &curves{Latency: l.latency.curve()}
	if !l.same {
		p.state.Curve.Service = l.service.curve()
	}
	if n := len(p.state.Segments); n > 0 && l.segment != (Segment{}) {
		line := &p.state.Segments[n-1]
		line.Rate, line.P50, line.P99, line.CPU = number(figures["rate"]), number(figures["p50"]), number(figures["p99"]), number(figures["cpu"])
		line.Doubtful = len(p.state.Reasons) > 0
	}
}

// counted adds a source's second to the segment: the server's CPU per request.
func (l *segmentCount) counted(values map[string]float64) {
	cpu, known := values["s.cpu"]
	rate, also := values["s.rate"]
	if known && also && l.phase == load.Measuring && !math.IsNaN(cpu+rate) {
		l.cpu += cpu * 1e6
		l.served += rate
	}
}
