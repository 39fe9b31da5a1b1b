package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load"
)

// series merges the agents' intervals second by second.
type series struct {
	open   []*merging // in order of time, at most mostOpen
	closed []load.Interval
	fresh  *load.Measured // what was closed since the last report
}

// merging is a second for which not all agents have reported.
type merging struct {
	load.Measured
	agents int
}

// mostOpen is how many seconds the agents' intervals may be apart before they are merged into one.
const mostOpen = 8

func (m *merging) second() int64 { return second(&m.Measured) }

func second(m *load.Measured) int64 { return int64(math.Round(m.Start.Seconds())) }

// add adds an agent's interval to the same second, and closes the second when all agents have
// reported.
func (s *series) add(m *load.Measured, agents int) {
	i := slices.IndexFunc(s.open, func(o *merging) bool { return o.second() >= second(m) })
	switch {
	case i < 0:
		i = len(s.open)
		s.open = append(s.open, new(merging))
	case s.open[i].second() > second(m) && (i > 0 || len(s.closed) == 0):
		s.open = slices.Insert(s.open, i, new(merging))
	}
	s.open[i].Add(m)
	s.open[i].agents++
	for len(s.open) > mostOpen || len(s.open) > 0 && s.open[0].agents >= agents {
		s.close()
	}
}

// close closes the first open second.
func (s *series) close() {
	m := &s.open[0].Measured
	s.open = s.open[1:]
	next := m.Interval()
	if n := len(s.closed); n > 0 {
		next.Start = s.closed[n-1].End
		next.End = max(next.End, next.Start)
	}
	s.closed = append(s.closed, next)
	if s.fresh == nil {
		s.fresh = m
	} else {
		s.fresh.Add(m)
	}
}

func (s *series) all() []load.Interval {
	for len(s.open) > 0 {
		s.close()
	}
	return s.closed
}

// report calls Progress and Told.
func (c *coordinator) report(now time.Time) {
	passed := now.Sub(c.reported).Seconds()
	first := c.reported.IsZero()
	c.reported = now
	p := load.Progress{Phase: load.Draining, Elapsed: now.Sub(c.began)}
	shares := make(map[string]float64)
	known := len(c.members) > 0
	var told []Now
	for _, m := range c.members {
		s := m.seen
		rate := float64(s.Answered-m.before) / passed
		if first {
			rate = 0
		}
		m.before = s.Answered
		p.Conns += s.Conns
		p.Answered += s.Answered
		p.Errors += s.Errors
		p.Rate += rate
		p.Lag = max(p.Lag, s.Lag)
		if p.Doubt == "" && s.Doubt != "" {
			p.Doubt = "agent " + m.hello.Name + ": " + s.Doubt
		}
		if s.CPUShare == nil {
			known = false
		} else {
			shares[m.hello.Machine] += *s.CPUShare
		}
		if phase(s.Phase) < phase(p.Phase) {
			p.Phase = s.Phase
		}
		told = append(told, Now{m.hello.Name, m.hello.Machine, s.Phase, rate, m.times.P50, m.times.P99, m.fault})
	}
	if p.Phase == "" || c.step < running {
		p.Phase = load.Connecting
	}
	if known {
		most := 0.0
		for _, share := range shares {
			most = max(most, share)
		}
		p.CPUShare = &most
	}
	p.Latency, p.Service = c.series.taken()
	q := load.QuantilesOf(p.Latency)
	p.P50, p.P99 = q.P50, q.P99
	if c.Plan.Progress != nil {
		c.Plan.Progress(p)
	}
	if c.Told != nil {
		c.Told(told)
	}
}

// taken returns what was closed since the last report, once.
func (s *series) taken() (latency, service *hdrhistogram.Histogram) {
	fresh := s.fresh
	if s.fresh = nil; fresh == nil {
		none := load.NewHistogram()
		return none, none
	}
	return fresh.Times()
}

// phase returns the order of a phase.
func phase(name string) int {
	return slices.Index([]string{load.Connecting, load.WarmingUp, load.Measuring, load.Draining}, name)
}
