package load

import (
	"context"
	"runtime"
	"time"

	"github.com/hone-go/hone/tool/load/codec"

	"github.com/hone-go/hone/internal/sys"
)

// supervision is the state of the supervising goroutine alone.
type supervision struct {
	phase    string
	total    *tally // the whole run, without recent
	recent   *tally // since the last interval was closed
	interval *tally // since the last progress
	fresh    *tally // a counter's counts, on their way to the others
	reported int64  // when the last progress was
	cut      int64  // when the last interval was closed
	offered  int64  // requests of the schedule until then
	stored   []Interval
	storing  int // size of stored in bytes

	lately     cpuReading    // at the last report
	longestLag time.Duration // until then

	wondered bool // whether the server was asked if it speaks HTTP

	unheard int64 // when the first request was sent that has timed out since the last answer; 0: none has

	interrupted bool
	cause       *Error // the failure that ended the load; later failures are ignored
	end         int64  // when the load ended
	opened      cpuReading
	closed      cpuReading
}

// cpuReading is the CPU time of the process at a moment.
type cpuReading struct {
	at    int64
	used  time.Duration
	known bool
	taken bool
}

// The phases of a run, as in Progress.Phase.
const (
	Connecting = "connecting"
	WarmingUp  = "warming up"
	Measuring  = "measuring"
	Draining   = "draining"
)

// watch supervises until the run is over, failed or interrupted.
func (r *run) watch(ctx context.Context) {
	r.phase = Connecting
	r.lately = r.readCPU(r.now())
	connected, start := r.connected, (<-chan time.Time)(nil)
	timer := time.NewTimer(r.step())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.interrupted = true
		case <-r.failed:
		case <-connected:
			connected = nil
			if start = r.plan.Partition.ready(); start == nil {
				r.origin = r.now()
			}
		case at := <-start:
			start, r.origin = nil, max(int64(at.Sub(r.start)), 1)
		case <-timer.C:
		}
		now := r.now()
		if r.phase == Connecting && r.origin > 0 && (r.paced || now >= r.origin) {
			r.phase = WarmingUp
			if err := r.begin(); err != nil {
				r.fail(codec.Explain(err))
			}
		}
		if r.phase == WarmingUp && now >= r.window.from {
			r.openWindow(now) // also for a run that has just failed: its window counts the failure
		}
		if r.over(ctx, now) {
			r.closeWindow(now)
			r.end = max(now, r.lastAnswer()) // a run may have failed since now
			if r.complete() {
				r.end = max(r.cut, r.lastAnswer())
			}
			return
		}
		r.advance(now)
		timer.Reset(r.wait(now))
	}
}

// over reports whether the run has ended.
func (r *run) over(ctx context.Context, now int64) bool {
	if ctx.Err() != nil {
		r.interrupted = true
		return true
	}
	if r.phase != Connecting {
		if e := r.silence(now); e != nil {
			r.fail(e)
		}
	}
	select {
	case <-r.failed:
		r.cause = r.failure
		return true
	default:
	}
	if !r.complete() && (r.phase != Draining || !r.drained() && now < r.window.till+int64(r.plan.Timeout)) {
		return false
	}
	if e := r.deserted(); e != nil {
		r.fail(e)
		r.cause = r.failure
	}
	return true
}

// advance moves from phase to phase and reports once a second.
func (r *run) advance(now int64) {
	if r.phase == Measuring && now >= r.window.till {
		r.closeWindow(now)
		r.phase = Draining
	}
	if r.phase != Connecting {
		r.expire(now)
		r.wonder(now)
	}
	if r.phase == Measuring && now >= r.nextCut() {
		r.gather()
		r.closeInterval(now)
	}
	if now-r.reported >= int64(time.Second) {
		r.report(now)
	}
}

// expire gives up the requests that have timed out.
func (r *run) expire(now int64) {
	for _, c := range r.conns {
		if now >= c.look {
			c.look = c.expire(now)
		}
	}
}

// nextCut returns when the open interval ends.
func (r *run) nextCut() int64 {
	length := int64(r.plan.intervalLength()) << (r.storing / doublingStore)
	return r.window.from + ((r.cut-r.window.from)/length+1)*length
}

// closeInterval ends an interval with the gathered counts, and begins the next.
func (r *run) closeInterval(now int64) {
	closed := newInterval(r.recent, r.cut-r.window.from, now-r.window.from)
	r.stored = append(r.stored, closed)
	if told := r.plan.Partition.Closed; told != nil {
		before := r.offered
		r.offered = 0
		for _, p := range r.pacers {
			r.offered += p.offered.Load()
		}
		told(&Measured{tally: *r.recent, plan: r.plan, Start: closed.Start, End: closed.End, Offered: r.offered - before})
	}
	r.storing += closed.size()
	r.cut = now
	r.total.take(r.recent)
}

// gather collects the counts since the last call.
func (r *run) gather() {
	for _, s := range r.counters {
		s.collect(r.fresh)
	}
	r.interval.add(r.fresh)
	r.recent.take(r.fresh)
}

func (r *run) openWindow(now int64) {
	r.phase = Measuring
	r.cut = r.window.from
	r.opened = r.readCPU(now)
	if r.plan.WindowOpens != nil {
		r.plan.WindowOpens()
	}
}

// closeWindow reads the clocks at the window's end, once, if the window was opened.
func (r *run) closeWindow(now int64) {
	if !r.opened.taken || r.closed.taken {
		return
	}
	r.closed = r.readCPU(now)
	if r.plan.WindowCloses != nil {
		r.plan.WindowCloses()
	}
}

func (r *run) readCPU(now int64) cpuReading {
	used, known := sys.ProcessTime()
	return cpuReading{now, used, known, true}
}

// step returns how often to check for silence.
func (r *run) step() time.Duration {
	return max(time.Millisecond, min(r.shortest/8, 100*time.Millisecond))
}

// wait returns the time until the next thing to do.
func (r *run) wait(now int64) time.Duration {
	wait := min(r.step(), time.Duration(r.reported+int64(time.Second)-now))
	switch r.phase {
	case Connecting:
		if r.origin > 0 {
			wait = min(wait, time.Duration(r.origin-now))
		}
	case WarmingUp:
		wait = min(wait, time.Duration(r.window.from-now))
	case Measuring:
		if r.plan.Requests > 0 {
			wait = min(wait, 5*time.Millisecond) // the drain may end at any time
		}
		wait = min(wait, time.Duration(r.window.till-now), time.Duration(r.nextCut()-now))
	case Draining:
		wait = min(wait, time.Millisecond)
	}
	return max(wait, time.Microsecond)
}

// report calls Progress with the counts since the last report.
func (r *run) report(now int64) {
	r.gather()
	p := Progress{
		Phase: r.phase, Elapsed: time.Duration(now), Conns: int(r.open.Load()),
		Answered: r.total.Answered + r.recent.Answered,
		Rate:     float64(r.interval.Answered) / time.Duration(now-r.reported).Seconds(),
		Errors:   r.total.failures() + r.recent.failures(),
		P50:      quantile(r.interval.Latency.Histogram, 50, 100),
		P99:      quantile(r.interval.Latency.Histogram, 99, 100),
		Latency:  r.interval.Latency.Histogram, Service: r.interval.Service.Histogram,
		CPUShare: r.shareSince(now), Lag: time.Duration(r.lag.Swap(0)),
	}
	r.longestLag = max(r.longestLag, p.Lag)
	p.Doubt = r.doubt()
	if p.Service == nil {
		p.Service = p.Latency
	}
	if r.plan.Progress != nil {
		r.plan.Progress(p)
	}
	r.interval.reset()
	r.reported = now
}

// shareSince returns the CPU share since the last call.
func (r *run) shareSince(now int64) *float64 {
	before := r.lately
	r.lately = r.readCPU(now)
	if !before.known || !r.lately.known || now <= before.at {
		return nil
	}
	return new((r.lately.used - before.used).Seconds() / time.Duration(now-before.at).Seconds() / float64(runtime.GOMAXPROCS(0)))
}

// result returns the run's result. All goroutines have ended.
func (r *run) result() (*Result, error) {
	if r.cause == nil && !r.interrupted {
		for _, c := range r.conns {
			c.abandon(r.end)
		}
	}
	r.gather()
	if r.cause != nil && r.cause.Kind != Closed { // Closed errors are counted with their requests
		r.recent.Errors[r.cause.Kind]++
	}
	if r.opened.taken {
		r.closeInterval(min(r.end, r.window.till))
	}
	r.total.take(r.recent)
	m := r.measured()
	result := m.result()
	result.Measured = m
	switch {
	case r.cause == nil:
		return result, nil
	case !r.opened.taken:
		return nil, r.cause
	}
	return result, r.cause
}

// measured gathers what the verdict and the figures are computed from.
func (r *run) measured() *Measured {
	m := &Measured{
		Late: time.Duration(r.late), tally: *r.total, plan: r.plan, Failure: r.cause, Interrupted: r.interrupted,
		Reconnects: r.reopened.Load(), Retries: r.retried.Load(), Drains: r.drains.Load(),
		Outage: r.connections.total(r.end), intervals: r.stored, timeline: r.timeline,
		Span:  time.Duration(max(0, min(r.end, r.window.till)-r.window.from)),
		Procs: runtime.GOMAXPROCS(0),
	}
	if r.window.till == 0 {
		m.Span = 0 // the load never began
	}
	if r.opened.known && r.closed.known && r.closed.at > r.opened.at {
		m.CPUKnown, m.CPU, m.CPUSpan = true, r.closed.used-r.opened.used, time.Duration(r.closed.at-r.opened.at)
	}
	m.delays(r.heartbeats, r.counters)
	if r.plan.Rivals != nil && r.closed.taken {
		m.Rivals, m.ServerWaited = r.plan.Rivals()
	}
	if r.paced {
		m.Lag = newHistogram()
		for _, p := range r.pacers {
			m.Lag.add(p.lag)
		}
		m.Offered = m.Lag.TotalCount()
		m.Followed = r.followed.Load()
		if r.thoughts != nil {
			m.Lag.add(r.thoughts.lag)
		}
	}
	for _, c := range r.conns {
		if c != nil {
			m.Sizes.take(c.left)
		}
	}
	for _, s := range r.counters {
		m.Steps = addSteps(m.Steps, s.steps)
	}
	if r.idle != nil {
		m.Idle = r.idle.result()
	}
	if r.churn != nil {
		m.Churned = &r.churn.churned
	}
	return m
}

// wonderTime is how long a server may say nothing at all before it is asked what it speaks.
const wonderTime = 700 * time.Millisecond

// wonder asks a silent server what it speaks, once.
func (r *run) wonder(now int64) {
	ask := r.plan.route.Wonder
	if ask == nil || r.wondered || r.phase == Connecting || len(r.conns) == 0 || now-r.origin < int64(wonderTime) || r.lastAnswer() > 0 {
		return
	}
	r.wondered = true
	r.goroutines.Go(func() {
		ctx, cancel := context.WithTimeout(r.dialing, wonderTime)
		defer cancel()
		if why := ask(ctx); why != nil {
			r.fail(why)
		}
	})
}
