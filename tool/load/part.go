package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/offer"
)

// Part is one part of a plan, each run by a separate process. Together they send what one process
// would: connection c, of all that the plan has, belongs to part c modulo Of, and its requests
// keep their numbers, moments and sizes. Idle and churn connections, and the number of requests in
// a closed loop, are split in the same way.
type Part struct {
	Index int
	Of    int // number of parts; zero: 1
	// Ready is called once all connections are open. It may be nil.
	Ready func()
	// Start delivers the moment at which all parts begin. Nil: the part begins when it is ready.
	Start <-chan time.Time
	// Closed is called with the counts of each Interval when it ends, to be merged with those of
	// other parts. The argument is valid until Closed returns. It may be nil.
	Closed func(*Measured)
}

// of returns the number of parts.
func (p Part) of() int { return max(p.Of, 1) }

// share returns how many of the numbers below all belong to this part.
func (p Part) share(all int64) int64 {
	return (all - int64(p.Index) + int64(p.of()) - 1) / int64(p.of())
}

func (p Part) count(all int) int { return int(p.share(int64(all))) }

// number returns the plan's number of the part's i-th connection.
func (p Part) number(i int) int { return p.Index + i*p.of() }

// ready calls Ready, and returns the channel that delivers the start.
func (p Part) ready() <-chan time.Time {
	if p.Ready != nil {
		p.Ready()
	}
	return p.Start
}

// Measured is what results are computed from: the counts of one interval, of several, or of a
// whole part. Its JSON form keeps its histograms exactly, so that agents can send it.
type Measured struct {
	measurement
	start, end time.Duration // of an interval; Add does not change them
	late       time.Duration // how late the load began
}

// Start returns when the interval began, relative to the beginning of the measured time.
func (m *Measured) Start() time.Duration { return m.start }

// Times returns the response times and the service times; in a closed loop they are the same
// histogram.
func (m *Measured) Times() (latency, service *hdrhistogram.Histogram) {
	if m.service == nil {
		return m.latency, m.latency
	}
	return m.latency, m.service
}

// Late returns how late the load began.
func (m *Measured) Late() time.Duration { return m.late }

// Failure returns why the part ended early; nil if it did not.
func (m *Measured) Failure() *Error { return m.failure }

// Add adds the counts of another interval.
func (m *Measured) Add(other *Measured) {
	if m.tally == nil {
		m.tally = newTally(other.service != nil)
		m.start, m.end = other.start, other.end
	}
	m.tally.add(other.tally)
}

// Interval returns the interval of the counts.
func (m *Measured) Interval() Interval {
	return newInterval(m.tally, int64(m.start), int64(m.end))
}

// Same reports whether both have the same counts, bucket by bucket.
func (m *Measured) Same(other *Measured) bool {
	return m.tally != nil && other.tally != nil && m.tally.same(other.tally)
}

// same reports whether both have the same counts; it ignores example errors.
func (t *tally) same(other *tally) bool {
	if t.latency.TotalCount() != other.latency.TotalCount() || !t.latency.Equals(other.latency) ||
		(t.service == nil) != (other.service == nil) || t.service != nil && !t.service.Equals(other.service) {
		return false
	}
	for code := range mostCodes {
		if t.codeCount(code) != other.codeCount(code) {
			return false
		}
	}
	return t.errors == other.errors && t.lost == other.lost && t.untimed == other.untimed && t.unsent == other.unsent &&
		t.answered == other.answered && t.during == other.during && t.good == other.good
}

func (t *tally) codeCount(code int) int64 {
	if t.codes == nil {
		return 0
	}
	return t.codes[code]
}

// Agent is one process that runs a part of a plan. The fields up to Measured are input for
// Plan.Merge, those below are its results.
type Agent struct {
	Name string `json:"name"`
	// Machine is where the agent ran: agents of one machine share its CPUs.
	Machine string `json:"machine,omitempty"`
	// Clock is how far the agent's clock was ahead of the coordinator's, in microseconds; the
	// start was corrected by it. ClockError is the largest possible error of Clock.
	Clock      *float64 `json:"clock_us,omitempty"`
	ClockError *float64 `json:"clock_error_us,omitempty"`
	// Fault is why the agent's figures, and so all figures, are not valid. It ends with what to
	// try next. Empty: no fault is known.
	Fault string `json:"fault,omitempty"`
	// Measured holds the agent's counts; nil: they are missing.
	Measured *Measured `json:"-"`

	Conns    int       `json:"conns"`
	Requests int64     `json:"requests"`
	Errors   int64     `json:"errors"`
	Rate     *float64  `json:"rate"`
	Latency  Quantiles `json:"latency_us"`
	LagP99   *float64  `json:"lag_p99_us"` // nil in a closed loop
	CPUShare *float64  `json:"cpu_share"`  // of the CPUs that its GOMAXPROCS allows
}

// Merge returns the result of a plan whose parts were run by agents, in the order of their index.
// It sums their counts and computes all figures from the sums. An agent that is missing, or has a
// fault, makes the result invalid; Merge does not scale figures up for it.
func (p Plan) Merge(agents []Agent, intervals []Interval) (*Result, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	m := &measurement{tally: newTally(p.paced()), plan: p, course: p.course(), intervals: intervals}
	if p.paced() {
		m.lag = NewHistogram()
	}
	agents = slices.Clone(agents)
	for i := range agents {
		a := &agents[i]
		a.Conns = Part{Index: i, Of: len(agents)}.count(p.Conns)
		if a.broken() {
			m.broken = true
		}
		if a.Measured == nil || a.Measured.tally == nil {
			a.Measured = nil
			continue
		}
		a.Measured.plan, a.Measured.course = p, m.course
		a.Measured.plan.Part = Part{Index: i, Of: len(agents)}
		m.merge(&a.Measured.measurement)
		a.figures()
	}
	m.shareCPUs(agents)
	if m.interrupted && !m.broken {
		m.missed = p.missed(m.tally, m.course)
	}
	m.interrupted = m.interrupted && !m.broken && m.missed == ""
	r := m.result()
	r.Agents = agents
	r.InvalidReasons = append(faults(agents), said(m.ended, m.behind, m.faulty, m.churnFaulty, m.scarce)...)
	r.Valid = len(r.InvalidReasons) == 0
	return r, nil
}

// Missed returns the first goal of AbortOn that is certain to be missed given the counts in m;
// empty: none.
func (p Plan) Missed(m *Measured) string {
	if p, err := p.complete(); err == nil && m.tally != nil {
		return p.missed(m.tally, p.course())
	}
	return ""
}

func (p Plan) missed(t *tally, course *offer.Course) string {
	none := newTally(p.paced())
	for _, g := range p.AbortOn {
		if g.missed(t, none, p.most(course)) {
			return g.String()
		}
	}
	return ""
}

// broken reports whether an agent failed or is missing.
func (a *Agent) broken() bool {
	return a.Fault != "" || a.Measured == nil || a.Measured.failure != nil
}

// figures fills in the agent's own figures.
func (a *Agent) figures() {
	r := a.Measured.result()
	a.Requests, a.Errors, a.Rate, a.Latency = r.Requests, r.Errors["total"], r.Rate, r.Latency
	a.LagP99, a.CPUShare = r.Lag.P99, r.Client.CPUShare
}

// merge adds the counts of a part, except for its CPU time.
func (m *measurement) merge(part *measurement) {
	m.tally.add(part.tally)
	m.interrupted = m.interrupted || part.interrupted
	m.span = max(m.span, part.span)
	m.offered += part.offered
	m.followed += part.followed
	if m.steps == nil {
		m.steps = part.steps
	} else if len(part.steps) == len(m.steps) {
		addSteps(m.steps, part.steps)
	}
	m.reconnects += part.reconnects
	m.retries += part.retries
	m.drains += part.drains
	m.outage = max(m.outage, part.outage)
	m.sizes.take(part.sizes)
	if part.lag != nil && m.lag != nil {
		m.lag.Merge(part.lag)
	}
	if part.delay != nil {
		if m.delay == nil {
			m.delay = NewHistogram()
		}
		m.delay.Merge(part.delay)
	}
	if part.idle != nil {
		if m.idle == nil {
			m.idle = &soaked{after: NewHistogram()}
		}
		m.idle.merge(part.idle)
	}
	if part.churned != nil {
		if m.churned == nil {
			m.churned = &churned{dial: NewHistogram(), first: NewHistogram(), lag: NewHistogram()}
		}
		m.churned.merge(part.churned)
	}
}

func (s *soaked) merge(part *soaked) {
	s.Conns += part.Conns
	s.Failed += part.Failed
	s.Open += part.Open
	s.Closed += part.Closed
	s.after.Merge(part.after)
}

func (c *churned) merge(part *churned) {
	c.dial.Merge(part.dial)
	c.first.Merge(part.first)
	c.lag.Merge(part.lag)
	c.conns += part.conns
	for k, n := range part.errors {
		c.errors[k] += n
	}
	c.example, c.own = cmp.Or(c.example, part.example), cmp.Or(c.own, part.own)
}

// shareCPUs adds the CPU time. Agents on one machine share its CPUs.
func (m *measurement) shareCPUs(agents []Agent) {
	m.cpuKnown = len(agents) > 0
	processors := make(map[string]int)
	for _, a := range agents {
		if a.Measured == nil || !a.Measured.cpuKnown {
			m.cpuKnown = false
			continue
		}
		m.cpu += a.Measured.cpu
		m.cpuSpan = max(m.cpuSpan, a.Measured.cpuSpan)
		processors[a.Machine] = max(processors[a.Machine], a.Measured.procs)
	}
	for _, n := range processors {
		m.procs += n
	}
}

// faults returns the reasons that concern single agents, or one machine.
func faults(agents []Agent) []string {
	reasons := []string{}
	machines := make(map[string][]Agent)
	for _, a := range agents {
		reasons = append(reasons, a.faults()...)
		machines[a.Machine] = append(machines[a.Machine], a)
	}
	for _, machine := range slices.Sorted(maps.Keys(machines)) {
		m := &measurement{}
		m.shareCPUs(machines[machine])
		if reason := m.starved(); reason != "" {
			var names []string
			for _, a := range machines[machine] {
				names = append(names, a.Name)
			}
			reasons = append(reasons, fmt.Sprintf("the machine of agent %s: %s", strings.Join(names, ", "), reason))
		}
	}
	return reasons
}

func (a *Agent) faults() []string {
	var reasons []string
	switch {
	case a.Fault != "":
		reasons = append(reasons, fmt.Sprintf("agent %s %s", a.Name, a.Fault))
	case a.Measured == nil:
		reasons = append(reasons, fmt.Sprintf("agent %s has not reported its counts; look into its log", a.Name))
	case a.Measured.failure != nil:
		reasons = append(reasons, fmt.Sprintf("agent %s: %v", a.Name, a.Measured.failure))
	}
	if a.Measured == nil {
		return reasons
	}
	for _, reason := range said(a.Measured.lagging, a.Measured.stopped, a.Measured.churnLagging) {
		reasons = append(reasons, fmt.Sprintf("agent %s: %s", a.Name, reason))
	}
	return reasons
}

// Measures returns when the measured time begins and ends, relative to the load's beginning. It
// returns an error if the plan is invalid.
func (p Plan) Measures() (from, till time.Duration, err error) {
	p, err = p.complete()
	return p.Warmup, p.Warmup + p.For, err
}
