package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/offer"
)

// Partition is one part of a plan, each run by a separate process. Together they send what one process
// would: connection c, of all that the plan has, belongs to part c modulo Of, and its requests
// keep their numbers, moments and sizes. Idle and churn connections, and the number of requests in
// a closed loop, are split in the same way.
type Partition struct {
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
func (p Partition) of() int { return max(p.Of, 1) }

// share returns how many of the numbers below all belong to this part.
func (p Partition) share(all int64) int64 {
	return (all - int64(p.Index) + int64(p.of()) - 1) / int64(p.of())
}

func (p Partition) count(all int) int { return int(p.share(int64(all))) }

// number returns the plan's number of the part's i-th connection.
func (p Partition) number(i int) int { return p.Index + i*p.of() }

// ready calls Ready, and returns the channel that delivers the start.
func (p Partition) ready() <-chan time.Time {
	if p.Ready != nil {
		p.Ready()
	}
	return p.Start
}

// Measured is what results are computed from: the counts of one interval, of several, or of a
// whole part. Its JSON form is what agents send: it has all fields with a capital letter.
type Measured struct {
	tally
	Start, End time.Duration // of an interval, since the measured time began; Add does not change them
	Late       time.Duration // how late the load began
	// Failure is why the part ended early; nil: it did not.
	Failure     *Error        `json:",omitempty"`
	Interrupted bool          `json:",omitempty"`
	Span        time.Duration `json:",omitempty"` // how much of the window has passed
	Lag         histogram     `json:",omitzero"`  // nil in a closed loop
	Delay       histogram     `json:",omitzero"`  // of answers; nil in an open loop
	Stop        time.Duration `json:",omitempty"` // the longest time in which a closed loop's generator did not run
	// In a closed loop: how long the generator was stopped, and waited for a processor, and Plan.Rivals.
	Stopped      time.Duration `json:",omitempty"`
	Waited       time.Duration `json:",omitempty"`
	Rivals       *float64      `json:",omitempty"`
	ServerWaited time.Duration `json:",omitempty"`
	Offered      int64         `json:",omitempty"` // requests, or sessions, of the schedule within the window
	Followed     int64         `json:",omitempty"` // requests within the window that are later steps of sessions
	Steps        []counts      `json:",omitempty"` // of the plan's Traffic
	CPU          time.Duration `json:",omitempty"`
	CPUSpan      time.Duration `json:",omitempty"`
	CPUKnown     bool          `json:",omitempty"`
	Procs        int           `json:",omitempty"`
	Reconnects   int64         `json:",omitempty"`
	Retries      int64         `json:",omitempty"`
	Drains       int64         `json:",omitempty"`
	Outage       time.Duration `json:",omitempty"`
	Sizes        sizeSum       `json:",omitzero"`
	Idle         *idleCounts   `json:",omitempty"` // nil: there were none
	Churned      *churned      `json:",omitempty"` // nil: there was no churn

	// What the coordinator knows itself.
	plan      Plan
	timeline  *offer.Timeline // a changing rate; else nil
	intervals []Interval
	broken    bool // an agent is missing or has failed
}

var errNoTimes = errors.New("load: an agent's result has no response times; run the same version of hone everywhere")

// UnmarshalJSON decodes the counts of an agent.
func (m *Measured) UnmarshalJSON(text []byte) error {
	type plain Measured // without this method
	if err := json.Unmarshal(text, (*plain)(m)); err != nil {
		return err
	}
	if m.Latency.Histogram == nil || slices.ContainsFunc(m.Steps, func(c counts) bool { return c.Latency.Histogram == nil }) {
		return errNoTimes
	}
	return nil
}

// Times returns the response times and the service times; in a closed loop they are the same
// histogram.
func (m *Measured) Times() (latency, service *hdrhistogram.Histogram) {
	return m.Latency.Histogram, cmp.Or(m.Service, m.Latency).Histogram
}

// Add adds the counts of another interval.
func (m *Measured) Add(other *Measured) {
	if m.Latency.Histogram == nil {
		m.Start, m.End = other.Start, other.End
	}
	m.tally.add(&other.tally)
	m.Offered += other.Offered
}

// Interval returns the interval of the counts.
func (m *Measured) Interval() Interval {
	return newInterval(&m.tally, int64(m.Start), int64(m.End))
}

// Same reports whether both have the same counts, bucket by bucket; examples of errors may differ.
func (m *Measured) Same(other *Measured) bool {
	text := func(t tally) string {
		t.Example = nil
		all, _ := json.Marshal(t) // it has numbers only
		return string(all)
	}
	return text(m.tally) == text(other.tally)
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
	m := &Measured{tally: *newTally(p.paced()), plan: p, timeline: p.timeline(), intervals: intervals}
	if p.paced() {
		m.Lag = newHistogram()
	}
	agents = slices.Clone(agents)
	for i := range agents {
		a := &agents[i]
		a.Conns = Partition{Index: i, Of: len(agents)}.count(p.Conns)
		if a.broken() {
			m.broken = true
		}
		if a.Measured == nil || a.Measured.Latency.Histogram == nil {
			a.Measured = nil
			continue
		}
		a.Measured.plan, a.Measured.timeline = p, m.timeline
		a.Measured.plan.Partition = Partition{Index: i, Of: len(agents)}
		m.merge(a.Measured)
		a.figures()
	}
	m.shareCPUs(agents)
	m.Interrupted = m.Interrupted && !m.broken
	r := m.result()
	r.Agents = agents
	r.InvalidReasons = append(faults(agents), said(m.ended, m.behind, m.faulty, m.churnFaulty, m.tooFew)...)
	r.Valid = len(r.InvalidReasons) == 0
	return r, nil
}

// broken reports whether an agent failed or is missing.
func (a *Agent) broken() bool {
	return a.Fault != "" || a.Measured == nil || a.Measured.Failure != nil
}

// figures fills in the agent's own figures.
func (a *Agent) figures() {
	r := a.Measured.result()
	a.Requests, a.Errors, a.Rate, a.Latency = r.Requests, r.Errors["total"], r.Rate, r.Latency
	a.LagP99, a.CPUShare = r.Lag.P99, r.Client.CPUShare
}

// merge adds the counts of a part, except for its CPU time.
func (m *Measured) merge(part *Measured) {
	m.tally.add(&part.tally)
	m.Interrupted = m.Interrupted || part.Interrupted
	m.Span = max(m.Span, part.Span)
	m.Offered += part.Offered
	m.Followed += part.Followed
	m.Steps = addSteps(m.Steps, part.Steps)
	m.Reconnects += part.Reconnects
	m.Retries += part.Retries
	m.Drains += part.Drains
	m.Outage = max(m.Outage, part.Outage)
	m.Sizes.take(part.Sizes)
	m.Lag.add(part.Lag)
	m.Delay.add(part.Delay)
	m.Stop, m.Stopped, m.Waited = max(m.Stop, part.Stop), max(m.Stopped, part.Stopped), max(m.Waited, part.Waited)
	if part.Idle != nil {
		if m.Idle == nil {
			m.Idle = new(idleCounts)
		}
		m.Idle.add(part.Idle)
	}
	if part.Churned != nil {
		if m.Churned == nil {
			m.Churned = new(churned)
		}
		m.Churned.add(part.Churned)
	}
}

// shareCPUs adds the CPU time. Agents on one machine share its CPUs.
func (m *Measured) shareCPUs(agents []Agent) {
	m.CPUKnown = len(agents) > 0
	processors := make(map[string]int)
	for _, a := range agents {
		if a.Measured == nil || !a.Measured.CPUKnown {
			m.CPUKnown = false
			continue
		}
		m.CPU += a.Measured.CPU
		m.CPUSpan = max(m.CPUSpan, a.Measured.CPUSpan)
		processors[a.Machine] = max(processors[a.Machine], a.Measured.Procs)
	}
	for _, n := range processors {
		m.Procs += n
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
		m := &Measured{}
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
	case a.Measured.Failure != nil:
		reasons = append(reasons, fmt.Sprintf("agent %s: %v", a.Name, a.Measured.Failure))
	}
	if a.Measured == nil {
		return reasons
	}
	for _, reason := range said(a.Measured.lagging, a.Measured.stopped, a.Measured.lossy, a.Measured.slow, a.Measured.churnLagging) {
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
