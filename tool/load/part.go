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

// Part is one of the parts of a plan, each run by a process of its own. Together they send
// what one process would: connection c, of all that the plan has, belongs to part c modulo
// Of, and keeps its requests with their numbers, moments and sizes. What comes beside the
// load, and a number of requests in a closed loop, is split in the same way.
type Part struct {
	Index int
	Of    int // zero: there is no other
	// Ready is called once all connections are open. Nil: nobody.
	Ready func()
	// Start brings the moment at which all parts begin. Nil: each begins when it is ready.
	Start <-chan time.Time
	// Closed is called with what was counted in each Interval when it ends, to be merged
	// with that of other parts. It is the receiver's until it returns. Nil: nobody.
	Closed func(*Measured)
}

// of is how many parts there are.
func (p Part) of() int { return max(p.Of, 1) }

// share is how many of so many numbers, from 0 up, are this part's.
func (p Part) share(all int64) int64 {
	return (all - int64(p.Index) + int64(p.of()) - 1) / int64(p.of())
}

func (p Part) count(all int) int { return int(p.share(int64(all))) }

// number is the one that the part's own i-th has in the whole.
func (p Part) number(i int) int { return p.Index + i*p.of() }

// ready says that all connections are open, and returns where the moment to begin comes.
func (p Part) ready() <-chan time.Time {
	if p.Ready != nil {
		p.Ready()
	}
	return p.Start
}

// Measured is what figures are made of: that of an interval, of several, or of a whole
// part. As JSON it crosses machines; its histograms lose nothing.
type Measured struct {
	measurement
	start, end time.Duration // of an interval; what was added takes no part in them
	late       time.Duration // how much after its moment the load began
}

// Start is when the interval began, since the measured time did.
func (m *Measured) Start() time.Duration { return m.start }

// Times are the response times, and the service times, which in a closed loop are the same
// histogram.
func (m *Measured) Times() (latency, service *hdrhistogram.Histogram) {
	if m.service == nil {
		return m.latency, m.latency
	}
	return m.latency, m.service
}

// Late is how much after its moment the load began.
func (m *Measured) Late() time.Duration { return m.late }

// Failure is why the part could not go on; nil: it could.
func (m *Measured) Failure() *Error { return m.failure }

// Add adds the counts of an interval to those of others.
func (m *Measured) Add(other *Measured) {
	if m.tally == nil {
		m.tally = newTally(other.service != nil)
		m.start, m.end = other.start, other.end
	}
	m.tally.add(other.tally)
}

// Interval is the piece of the measured time that was counted.
func (m *Measured) Interval() Interval {
	return newInterval(m.tally, int64(m.start), int64(m.end))
}

// Same reports whether both have counted the same, bucket by bucket.
func (m *Measured) Same(other *Measured) bool {
	return m.tally != nil && other.tally != nil && m.tally.same(other.tally)
}

// same reports whether both have counted the same, but for examples.
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

// Agent is who ran a part of a plan. The fields down to Measured are for Plan.Merge to
// read, those below are its results.
type Agent struct {
	Name string `json:"name"`
	// Machine is where it ran: agents of one machine share its CPUs.
	Machine string `json:"machine,omitempty"`
	// Clock is how far its clock was ahead of the coordinator's, which the start was
	// corrected by, and ClockError the most by which that can be wrong, in microseconds.
	Clock      *float64 `json:"clock_us,omitempty"`
	ClockError *float64 `json:"clock_error_us,omitempty"`
	// Fault is why its figures, and so all, are not to be believed. It ends with the next
	// thing to try. Empty: nothing is known.
	Fault string `json:"fault,omitempty"`
	// Measured is what it has counted; nil: nothing is known of it.
	Measured *Measured `json:"-"`

	Conns    int       `json:"conns"`
	Requests int64     `json:"requests"`
	Errors   int64     `json:"errors"`
	Rate     *float64  `json:"rate"`
	Latency  Quantiles `json:"latency_us"`
	LagP99   *float64  `json:"lag_p99_us"` // nil in a closed loop
	CPUShare *float64  `json:"cpu_share"`  // of what its GOMAXPROCS allows
}

// Merge is the result of a plan whose parts were run by agents, in the order of their
// index. The figures are made of the sums of what they have counted, never of their
// figures. An agent that is missing, or has a fault, makes it not valid; nothing is scaled
// up for it.
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

// Missed is the first goal of AbortOn that is missed for certain when so much was counted;
// empty: none is.
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

// broken reports whether an agent has not come to its end as it should.
func (a *Agent) broken() bool {
	return a.Fault != "" || a.Measured == nil || a.Measured.failure != nil
}

// figures fills in the agent's own.
func (a *Agent) figures() {
	r := a.Measured.result()
	a.Requests, a.Errors, a.Rate, a.Latency = r.Requests, r.Errors["total"], r.Rate, r.Latency
	a.LagP99, a.CPUShare = r.Lag.P99, r.Client.CPUShare
}

// merge adds what a part has measured, but for its CPU time.
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

// shareCPUs adds the CPU time. Agents on one machine have its CPUs together.
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

// faults are the reasons that lie with single agents, or with one machine's.
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
		reasons = append(reasons, fmt.Sprintf("agent %s has not said what it measured; look into its log", a.Name))
	case a.Measured.failure != nil:
		reasons = append(reasons, fmt.Sprintf("agent %s: %v", a.Name, a.Measured.failure))
	}
	if a.Measured == nil {
		return reasons
	}
	for _, reason := range said(a.Measured.lagging, a.Measured.churnLagging) {
		reasons = append(reasons, fmt.Sprintf("agent %s: %s", a.Name, reason))
	}
	return reasons
}

// Measures is when the measured time begins and ends, since the load began. The error is
// that of a plan that cannot be.
func (p Plan) Measures() (from, till time.Duration, err error) {
	p, err = p.complete()
	return p.Warmup, p.Warmup + p.For, err
}
