package load

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// carried is the JSON form of a Measured.
type carried struct {
	Start, End, Late time.Duration
	Tally            carriedTally

	Failure     *carriedError    `json:",omitempty"`
	Interrupted bool             `json:",omitempty"`
	Missed      string           `json:",omitempty"`
	Span        time.Duration    `json:",omitempty"`
	Lag         carriedHistogram `json:",omitempty"`
	Delay       carriedHistogram `json:",omitempty"`
	Offered     int64            `json:",omitempty"`
	Followed    int64            `json:",omitempty"`
	Steps       []carriedStep    `json:",omitempty"`
	CPU         time.Duration    `json:",omitempty"`
	CPUSpan     time.Duration    `json:",omitempty"`
	CPUKnown    bool             `json:",omitempty"`
	Procs       int              `json:",omitempty"`
	Reconnects  int64            `json:",omitempty"`
	Retries     int64            `json:",omitempty"`
	Drains      int64            `json:",omitempty"`
	Outage      time.Duration    `json:",omitempty"`
	Sizes       carriedSizes     `json:",omitzero"`
	Idle        *carriedIdle     `json:",omitempty"`
	Churned     *carriedChurn    `json:",omitempty"`
}

type carriedTally struct {
	Latency, Service       carriedHistogram // no Service in a closed loop
	Errors                 [kinds]int64
	Lost, Untimed, Unsent  int64
	Answered, During, Good int64
	Example                string        `json:",omitempty"`
	Codes                  map[int]int64 `json:",omitempty"`
}

type carriedStep struct {
	Latency, Service      carriedHistogram // no Service: a closed loop
	Errors                [kinds]int64
	Untimed, Unsent, Good int64
}

type carriedSizes struct {
	Requests, Bytes, Counted uint64
	Most                     int
}

type carriedIdle struct {
	Idle  Idle
	After carriedHistogram
}

type carriedChurn struct {
	Dial, First, Lag carriedHistogram
	Conns            int64
	Errors           [kinds]int64
	Example, Own     *carriedError
}

// carriedError is an Error without its cause; it keeps the cause's text.
type carriedError struct {
	Kind      Kind
	Target    string
	What, Try string
}

// carriedHistogram is a histogram as encoded returns it.
type carriedHistogram string

// MarshalJSON encodes m so that agents can send it to the coordinator.
func (m *Measured) MarshalJSON() ([]byte, error) {
	c := carried{
		Start: m.start, End: m.end, Late: m.late, Tally: m.tally.carried(),
		Failure: m.failure.carried(), Interrupted: m.interrupted, Missed: m.missed, Span: m.span, Lag: carriedOf(m.lag), Delay: carriedOf(m.delay), Offered: m.offered, Followed: m.followed,
		CPU: m.cpu, CPUSpan: m.cpuSpan, CPUKnown: m.cpuKnown, Procs: m.procs,
		Reconnects: m.reconnects, Retries: m.retries, Drains: m.drains, Outage: m.outage,
		Sizes: carriedSizes{m.sizes.requests, m.sizes.bytes, m.sizes.counted, m.sizes.most},
	}
	for _, s := range m.steps {
		c.Steps = append(c.Steps, carriedStep{carriedOf(s.latency), carriedOf(s.service), s.errors, s.untimed, s.unsent, s.good})
	}
	if i := m.idle; i != nil {
		c.Idle = &carriedIdle{i.Idle, carriedOf(i.after)}
	}
	if ch := m.churned; ch != nil {
		c.Churned = &carriedChurn{
			Dial: carriedOf(ch.dial), First: carriedOf(ch.first), Lag: carriedOf(ch.lag),
			Conns: ch.conns, Errors: ch.errors, Example: ch.example.carried(), Own: ch.own.carried(),
		}
	}
	return json.Marshal(c)
}

// UnmarshalJSON decodes what MarshalJSON returned.
func (m *Measured) UnmarshalJSON(text []byte) (err error) {
	var c carried
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	var all unpacking
	*m = Measured{start: c.Start, end: c.End, late: c.Late, measurement: measurement{
		tally: c.Tally.tally(&all), failure: c.Failure.fault(), interrupted: c.Interrupted, missed: c.Missed, span: c.Span,
		lag: all.histogram(c.Lag), delay: all.histogram(c.Delay), offered: c.Offered, followed: c.Followed, cpu: c.CPU, cpuSpan: c.CPUSpan, cpuKnown: c.CPUKnown, procs: c.Procs,
		reconnects: c.Reconnects, retries: c.Retries, drains: c.Drains, outage: c.Outage,
		sizes: sizeSum{c.Sizes.Requests, c.Sizes.Bytes, c.Sizes.Counted, c.Sizes.Most},
	}}
	for _, s := range c.Steps {
		step := stepTally{all.histogram(s.Latency), all.histogram(s.Service), s.Errors, s.Untimed, s.Unsent, s.Good}
		if step.latency == nil {
			step.latency = NewHistogram()
			all.err = errors.Join(all.err, errNoTimes)
		}
		m.steps = append(m.steps, step)
	}
	if i := c.Idle; i != nil {
		m.idle = &soaked{i.Idle, all.histogram(i.After)}
	}
	if ch := c.Churned; ch != nil {
		m.churned = &churned{
			dial: all.histogram(ch.Dial), first: all.histogram(ch.First), lag: all.histogram(ch.Lag),
			conns: ch.Conns, errors: ch.Errors, example: ch.Example.fault(), own: ch.Own.fault(),
		}
	}
	return all.err
}

func (t *tally) carried() carriedTally {
	c := carriedTally{
		Latency: carriedOf(t.latency), Service: carriedOf(t.service), Errors: t.errors,
		Lost: t.lost, Untimed: t.untimed, Unsent: t.unsent, Answered: t.answered, During: t.during, Good: t.good,
	}
	if t.example != nil {
		c.Example = t.example.Error()
	}
	for code, n := range t.codes {
		if n > 0 {
			if c.Codes == nil {
				c.Codes = make(map[int]int64)
			}
			c.Codes[code] = n
		}
	}
	return c
}

func (c *carriedTally) tally(all *unpacking) *tally {
	t := &tally{
		latency: all.histogram(c.Latency), service: all.histogram(c.Service), errors: c.Errors,
		lost: c.Lost, untimed: c.Untimed, unsent: c.Unsent, answered: c.Answered, during: c.During, good: c.Good,
	}
	if t.latency == nil {
		t.latency = NewHistogram()
		all.err = errors.Join(all.err, errNoTimes)
	}
	if c.Example != "" {
		t.example = errors.New(c.Example)
	}
	for code, n := range c.Codes {
		if code < 0 || code >= mostCodes {
			all.err = errors.Join(all.err, errCode)
			break
		}
		t.count(code, n)
	}
	return t
}

var (
	errNoTimes   = errors.New("load: an agent's result has no response times; run the same version of hone everywhere")
	errCode      = errors.New("load: an agent's result has an impossible status code; run the same version of hone everywhere")
	errHistogram = errors.New("load: an agent's result has an incompatible histogram; run the same version of hone everywhere")
)

// carried returns the error without its cause; nil for nil.
func (e *Error) carried() *carriedError {
	if e == nil {
		return nil
	}
	c := &carriedError{e.Kind, e.Target, e.What, e.Try}
	if c.What == "" && e.Err != nil {
		c.What = e.Err.Error()
	}
	return c
}

func (c *carriedError) fault() *Error {
	if c == nil {
		return nil
	}
	return &Error{Kind: c.Kind, Target: c.Target, What: c.What, Try: c.Try}
}

func carriedOf(h *hdrhistogram.Histogram) carriedHistogram {
	if h == nil {
		return ""
	}
	return carriedHistogram(encoded(h))
}

// unpacking collects the first decoding error.
type unpacking struct{ err error }

// histogram decodes a histogram that can be merged with ours; nil if c is empty.
func (u *unpacking) histogram(c carriedHistogram) *hdrhistogram.Histogram {
	if c == "" {
		return nil
	}
	h, err := hdrhistogram.Decode([]byte(c))
	if err == nil && (h.LowestTrackableValue() != 1 || h.HighestTrackableValue() != longest || h.SignificantFigures() != 3) {
		err = errHistogram
	}
	if err != nil {
		u.err = errors.Join(u.err, err)
		return NewHistogram()
	}
	return h
}
