package load

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
)

// Churn describes the connections of Plan.Churn that were due in the measured time. Failed ones
// are in the quantiles with the time until they failed.
type Churn struct {
	Offered *float64 `json:"offered"` // connections a second that the schedule offered
	Conns   int64    `json:"conns"`   // connections that were begun
	// Errors counts the failures by Kind.String, with their sum under "total".
	Errors map[string]int64 `json:"errors"`
	// Dial is the time from the intended moment until the connection was open, including the TLS
	// handshake.
	Dial Quantiles `json:"dial_us"`
	// First is the time from the intended moment until the answer. It has no figures when the
	// connections send no request.
	First Quantiles `json:"first_us"`
}

// churner opens connections on schedule, uses and closes them.
type churner struct {
	run      *run
	schedule schedule
	alarm    alarm
	going    atomic.Int64 // goroutines

	mu    sync.Mutex
	quits bool // stop counting
	churned
}

// churned holds the counts.
type churned struct {
	Dial, First, Lag histogram
	Conns            int64
	Errors           [kinds]int64
	Example          *Error
	Own              *Error // the first failure that this machine caused
}

func (c *churned) add(other *churned) {
	c.Dial.add(other.Dial)
	c.First.add(other.First)
	c.Lag.add(other.Lag)
	c.Conns += other.Conns
	for k, n := range other.Errors {
		c.Errors[k] += n
	}
	c.Example, c.Own = cmp.Or(c.Example, other.Example), cmp.Or(c.Own, other.Own)
}

func newChurner(r *run) *churner {
	const apart = 1 << 63 // a different seed from that of the requests' Poisson arrivals
	return &churner{
		run:      r,
		schedule: schedule{arrivals: r.plan.Arrivals, rate: r.plan.Churn, seed: r.plan.Seed ^ apart},
		churned:  churned{Dial: newHistogram(), First: newHistogram(), Lag: newHistogram()},
	}
}

// begin starts the churn once the run's window is known.
func (c *churner) begin() error {
	timer, err := c.run.newTimer()
	if err != nil {
		return err
	}
	c.alarm = alarm{timer: timer, now: c.run.now, early: int64(defaultEarly)}
	c.going.Add(1)
	c.run.goroutines.Go(c.pace)
	return nil
}

// busy reports whether connections are still to be opened or closed.
func (c *churner) busy() bool { return c.going.Load() > 0 }

// pace starts a goroutine for each connection when it is due, and never waits for one.
func (c *churner) pace() {
	defer c.going.Add(-1)
	part := c.run.plan.Partition
	for n := int64(part.Index); !c.run.stopping.Load(); n += int64(part.of()) {
		moment := c.run.origin + int64(c.schedule.at(n))
		if moment >= c.run.window.till {
			return
		}
		if _, err := c.alarm.until(moment); err != nil {
			return // Run has closed the timer
		}
		c.going.Add(1)
		c.run.goroutines.Go(func() {
			defer c.going.Add(-1)
			c.oneShot(uint64(n), moment)
		})
	}
}

// oneShot opens one connection, uses it, and closes it.
func (c *churner) oneShot(n uint64, moment int64) {
	r := c.run
	begun := r.now()
	ctx, cancel := context.WithTimeout(r.dialing, r.plan.Timeout)
	defer cancel()
	nc, err := r.plan.Target.Dial(ctx)
	opened := r.now()
	if err != nil {
		c.count(moment, begun, opened, opened, c.dialError(err))
		return
	}
	defer nc.Close()
	_, wrong := r.use(ctx, nc, r.plan.Target.Codec(), r.sizedContent(n))
	c.count(moment, begun, opened, r.now(), wrong)
}

// dialError explains why a connection could not be opened; a time-out becomes Timeout.
func (c *churner) dialError(err error) *Error {
	c.mu.Lock()
	opened := c.run.open.Load() + c.Conns
	c.mu.Unlock()
	e := *dialError(err, opened, c.run.plan.Timeout)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		e.Kind = Timeout
	}
	return &e
}

func (c *churner) count(moment, begun, opened, answered int64, wrong *Error) {
	if !c.run.window.has(moment) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quits {
		return
	}
	c.Conns++
	c.Lag.record(begun-moment, 1)
	c.Dial.record(opened-moment, 1)
	c.First.record(answered-moment, 1)
	if wrong == nil {
		return
	}
	if c.run.dialing.Err() != nil {
		wrong.Kind = codec.Unanswered // the run ended first
	}
	c.Errors[wrong.Kind]++
	if c.Example == nil {
		c.Example = wrong
	}
	if c.Own == nil && (sys.Exhausted(wrong) || errors.Is(wrong, syscall.EADDRNOTAVAIL)) {
		c.Own = wrong
	}
}

// quit stops the counting.
func (c *churner) quit() {
	c.mu.Lock()
	c.quits = true
	c.mu.Unlock()
}

// churnOf computes the published figures.
func (m *Measured) churnOf() *Churn {
	c := m.Churned
	if c == nil {
		return nil
	}
	return &Churn{
		Offered: m.perSecond(c.Conns), Conns: c.Conns, Errors: namedErrors(&c.Errors),
		Dial: QuantilesOf(c.Dial.Histogram), First: QuantilesOf(c.First.Histogram),
	}
}
