package load

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// pacer sends the requests of an open loop when they are due, on its share of the run's
// connections. It never waits for a server.
type pacer struct {
	run      *run
	offering *offering
	conns    []*conn // its share, in order

	asked  int64     // how many of its own requests have been sent
	next   arrival   // the next request
	due    []arrival // requests that are due now
	alarm  alarm
	usedUp bool      // the data has no more rows
	lag    histogram // sent − intended, of the window's requests

	offered atomic.Int64 // how many requests lag has, for the supervisor
}

const (
	busiestPacer = 50_000 // requests a second of one pacer, while there are processors for more pacers
	mostDue      = 1024   // requests of one turn
)

// pacersFor returns how many pacers share the work.
func pacersFor(p Plan, processors int) int {
	peak, own := p.Rate, p.Partition.count(p.Conns)
	if timeline := p.timeline(); timeline != nil {
		peak = timeline.Peak()
	}
	return max(1, min(processors, own, int(min(peak/float64(p.Partition.of())/busiestPacer, 1<<16))+1))
}

func newPacer(r *run, number, pacers int) (*pacer, error) {
	timer, err := r.newTimer()
	if err != nil {
		return nil, err
	}
	p := &pacer{
		run:      r,
		offering: newOffering(r.plan, r.timeline),
		due:      make([]arrival, 0, mostDue),
		alarm:    alarm{timer: timer, now: r.now, early: int64(defaultEarly)},
		lag:      newHistogram(),
	}
	for i := number; i < len(r.conns); i += pacers {
		p.conns = append(p.conns, r.conns[i])
	}
	p.next = p.arrival(0)
	return p, nil
}

// newTimer opens a timer, which the end of the run closes.
func (r *run) newTimer() (*sys.Timer, error) {
	timer, err := sys.NewTimer()
	if err != nil {
		return nil, &Error{Kind: Unreachable, Err: err, What: "no timer: " + err.Error(), Try: "raise the limit of descriptors (ulimit -n)"}
	}
	r.timers = append(r.timers, timer)
	return timer, nil
}

// arrival returns the pacer's own m-th request, or the window's end when there is none. Request n
// of the plan belongs to connection n modulo all connections.
func (p *pacer) arrival(m int64) arrival {
	own := int64(len(p.conns))
	n := m/own*int64(p.run.plan.Conns) + int64(p.conns[m%own].number)
	if most := p.run.plan.Requests; most > 0 && n >= most {
		return arrival{moment: p.run.window.till}
	}
	a, ok := p.offering.at(n)
	if a.moment += p.run.origin; !ok {
		p.usedUp = true
		a.moment = p.run.window.till
	}
	return a
}

// pace sends everything that is due before the window's end, however late.
func (p *pacer) pace() {
	defer p.run.pacing.Add(-1)
	for p.next.moment < p.run.window.till && !p.run.stopping.Load() {
		now, err := p.alarm.until(p.next.moment)
		if err != nil {
			return // Run has closed the timer
		}
		first := p.asked
		p.collect(now)
		for i := range min(len(p.due), len(p.conns)) {
			c := p.conns[(first+int64(i))%int64(len(p.conns))]
			now = p.run.now()
			p.late(i, now)
			c.due(p.due[i:], len(p.conns), now)
		}
	}
	if p.usedUp {
		p.run.usedUp.Store(true)
	}
}

// collect gathers the requests that are due by now.
func (p *pacer) collect(now int64) {
	p.due = p.due[:0]
	for p.next.moment <= now && p.next.moment < p.run.window.till && len(p.due) < cap(p.due) {
		p.due = append(p.due, p.next)
		p.asked++
		p.next = p.arrival(p.asked)
	}
}

// late records how late requests are when they are handed to a connection: this delay is the
// generator's alone.
func (p *pacer) late(first int, now int64) {
	for i := first; i < len(p.due); i += len(p.conns) {
		if moment := p.due[i].moment; p.run.window.has(moment) {
			p.lag.record(now-moment, 1)
			p.run.lagged(now-moment, 1)
		}
	}
	p.offered.Store(p.lag.TotalCount())
}

// alarm waits with the kernel's timer. It sets a long wait to end early, by the timer's usual
// lateness, and spins for the rest while other goroutines run. It does not do so for short waits:
// at intervals of 50 µs that would double the wake-ups to save 20 µs of lag, and cost the target
// more on a shared machine (BenchmarkGenerator/open-20000).
type alarm struct {
	timer *sys.Timer
	now   func() int64
	early int64
}

const (
	defaultEarly = 20 * time.Microsecond
	mostEarly    = 50 * time.Microsecond // the longest spin
	earlyStep    = 250 * time.Nanosecond
	longWait     = 200 * time.Microsecond
	notWorthIt   = 5 * time.Microsecond // shorter waits only spin
)

// until waits for a moment and returns the time then; an error means that the timer was closed.
func (a *alarm) until(moment int64) (now int64, err error) {
	now = a.now()
	switch wait := time.Duration(moment - now); {
	case wait > longWait:
		ring := moment - a.early
		if now, err = a.sleep(now, ring); err == nil {
			a.learn(now - ring)
		}
	case wait > notWorthIt:
		now, err = a.sleep(now, moment)
	}
	for err == nil && now < moment {
		runtime.Gosched()
		now = a.now()
	}
	return now, err
}

func (a *alarm) sleep(now, ring int64) (int64, error) {
	if err := a.timer.WaitFor(time.Duration(ring - now)); err != nil {
		return now, err
	}
	return a.now(), nil
}

// learn adapts early to how late the timer fires: only one in ten is less late than early.
func (a *alarm) learn(late int64) {
	if late > a.early {
		a.early = min(a.early+int64(earlyStep), int64(mostEarly))
	} else {
		a.early = max(a.early-9*int64(earlyStep), 0)
	}
}
