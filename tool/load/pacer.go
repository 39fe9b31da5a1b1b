package load

import (
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/hone-go/hone/internal/sys"
)

// pacer sends the requests of an open loop at their moments, on the connections
// number, number+pacers, number+2·pacers and so on. It never waits for a server.
type pacer struct {
	run      *run
	schedule schedule
	conns    []*conn // its own, in their order
	number   int64
	pacers   int64

	asked int64   // how many of its own requests have been sent
	next  int64   // the moment of the one after, since Run began
	due   []int64 // moments of what goes out now
	alarm alarm
	lag   *hdrhistogram.Histogram // sent − intended, of the window's requests
}

const (
	busiestPacer = 50_000 // requests a second of one pacer, while processors last
	mostDue      = 1024   // requests of one turn
)

// pacersFor is how many pacers share the work.
func pacersFor(p Plan, processors int) int {
	peak := p.Rate
	if course := p.course(); course != nil {
		peak = course.Peak()
	}
	return max(1, min(processors, p.Conns, int(min(peak/busiestPacer, 1<<16))+1))
}

func newPacer(r *run, number, pacers int) (*pacer, error) {
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	p := &pacer{
		run: r, number: int64(number), pacers: int64(pacers),
		schedule: schedule{arrivals: r.plan.Arrivals, rate: r.plan.Rate, seed: r.plan.Seed, course: r.course},
		due:      make([]int64, 0, mostDue),
		alarm:    alarm{timer: timer, now: r.now, early: int64(usualEarly)},
		lag:      NewHistogram(),
	}
	for i := number; i < len(r.conns); i += pacers {
		p.conns = append(p.conns, r.conns[i])
	}
	p.next = p.moment(0)
	return p, nil
}

func newTimer() (*sys.Timer, error) {
	timer, err := sys.NewTimer()
	if err != nil {
		return nil, &Error{Kind: Unreachable, Err: err, What: "no timer: " + err.Error(), Try: "raise the limit of descriptors (ulimit -n)"}
	}
	return timer, nil
}

// moment is the intended moment of the pacer's own m-th request, or the window's end
// when there is none. Request n of the plan belongs to connection n modulo all
// connections.
func (p *pacer) moment(m int64) int64 {
	own := int64(len(p.conns))
	n := m/own*int64(len(p.run.conns)) + p.number + m%own*p.pacers
	if most := p.run.plan.Requests; most > 0 && n >= most {
		return p.run.window.till
	}
	return p.run.origin + int64(p.schedule.at(n))
}

// pace sends everything that is intended before the window's end, however late.
func (p *pacer) pace() {
	defer p.run.goroutines.Done()
	defer p.run.pacing.Add(-1)
	for p.next < p.run.window.till && !p.run.stopping.Load() {
		now, err := p.alarm.until(p.next)
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
}

// collect gathers the moments that have come by now.
func (p *pacer) collect(now int64) {
	p.due = p.due[:0]
	for p.next <= now && p.next < p.run.window.till && len(p.due) < cap(p.due) {
		p.due = append(p.due, p.next)
		p.asked++
		p.next = p.moment(p.asked)
	}
}

// late records how late the requests are that go to one connection now: the
// generator's own fault, before any of the target's.
func (p *pacer) late(first int, now int64) {
	for i := first; i < len(p.due); i += len(p.conns) {
		if p.run.window.has(p.due[i]) {
			record(p.lag, now-p.due[i], 1)
		}
	}
}

// alarm waits for moments with the kernel's timer. A long wait ends early, by
// what the timer is late at least as a rule, and the rest is spun while other
// goroutines run. A short one does not: at intervals of 50 µs that would double
// the wake-ups for 20 µs of lag, and cost the target more on a shared machine
// (BenchmarkGenerator/open-20000).
type alarm struct {
	timer *sys.Timer
	now   func() int64
	early int64
}

const (
	usualEarly = 20 * time.Microsecond
	mostEarly  = 50 * time.Microsecond // the longest spin
	earlyStep  = 250 * time.Nanosecond
	longWait   = 200 * time.Microsecond
	notWorthIt = 5 * time.Microsecond // a wait so short is spun
)

// until returns the time when the moment has come; an error means that the
// timer was closed.
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
	if err := a.timer.Wait(time.Duration(ring - now)); err != nil {
		return now, err
	}
	return a.now(), nil
}

// learn follows how late the timer rings: early goes to where one ring in ten is
// less late than that.
func (a *alarm) learn(late int64) {
	if late > a.early {
		a.early = min(a.early+int64(earlyStep), int64(mostEarly))
	} else {
		a.early = max(a.early-9*int64(earlyStep), 0)
	}
}
