package load

import (
	"context"
	"runtime"
	"time"
)

// supervision is what the goroutine that called Run keeps to itself.
type supervision struct {
	phase    string
	total    *tally // of the whole run
	interval *tally // since the last progress
	reported int64  // when that was

	interrupted bool
	cause       *Error // the failure that ended the load; what fails later is of no interest
	end         int64  // when the load ended
	opened      cpuReading
	closed      cpuReading
}

// cpuReading is what the process had used at a moment.
type cpuReading struct {
	at    int64
	used  time.Duration
	known bool
	taken bool
}

// The phases of a run.
const (
	connecting = "connecting"
	warmingUp  = "warming up"
	measuring  = "measuring"
	draining   = "draining"
)

// watch supervises until the run is over, failed or interrupted.
func (r *run) watch(ctx context.Context) {
	r.phase = connecting
	connected := r.connected
	timer := time.NewTimer(r.step())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.interrupted = true
		case <-r.failed:
		case <-connected:
			connected = nil
			r.phase = warmingUp
			if err := r.begin(); err != nil {
				r.fail(decodeError(err))
			}
		case <-timer.C:
		}
		now := r.now()
		if r.over(ctx, now) {
			r.closeWindow(now)
			r.end = now
			return
		}
		r.advance(now)
		timer.Reset(r.wait(now))
	}
}

// over reports whether there is nothing left to watch.
func (r *run) over(ctx context.Context, now int64) bool {
	if ctx.Err() != nil {
		r.interrupted = true
		return true
	}
	if r.phase != connecting {
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
	return r.phase == draining && (r.drained() || now >= r.window.till+int64(r.plan.Timeout))
}

// advance goes from phase to phase and reports once a second.
func (r *run) advance(now int64) {
	if r.phase == warmingUp && now >= r.window.from {
		r.phase = measuring
		r.opened = r.readCPU(now)
		if r.plan.WindowOpens != nil {
			r.plan.WindowOpens()
		}
	}
	if r.phase == measuring && now >= r.window.till {
		r.closeWindow(now)
		r.phase = draining
	}
	if now-r.reported >= int64(time.Second) {
		r.report(now)
	}
}

// closeWindow reads the clocks at the window's end, once, if it was opened.
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
	used, known := processCPU()
	return cpuReading{now, used, known, true}
}

// step is how often silence is looked for.
func (r *run) step() time.Duration {
	return max(time.Millisecond, min(r.plan.Timeout/8, 100*time.Millisecond))
}

// wait is the time to the next moment at which something is to be done.
func (r *run) wait(now int64) time.Duration {
	wait := min(r.step(), time.Duration(r.reported+int64(time.Second)-now))
	switch r.phase {
	case warmingUp:
		wait = min(wait, time.Duration(r.window.from-now))
	case measuring:
		wait = min(wait, time.Duration(r.window.till-now))
	case draining:
		wait = min(wait, time.Millisecond)
	}
	return max(wait, time.Microsecond)
}

// report collects what was counted since the last report, and tells it.
func (r *run) report(now int64) {
	for _, s := range r.shards {
		s.collect(r.interval)
	}
	errors := r.total.failures() + r.interval.failures()
	p := Progress{
		Phase: r.phase, Elapsed: time.Duration(now), Conns: int(r.open.Load()),
		Answered: r.total.answered + r.interval.answered,
		Rate:     float64(r.interval.answered) / time.Duration(now-r.reported).Seconds(),
		Errors:   errors,
		P50:      quantile(r.interval.latency, 50, 100),
		P99:      quantile(r.interval.latency, 99, 100),
	}
	r.total.take(r.interval)
	r.reported = now
	if r.plan.Progress != nil {
		r.plan.Progress(p)
	}
}

// result is the run's report. Everything has ended.
func (r *run) result() (*Result, error) {
	if r.cause == nil && !r.interrupted {
		for _, c := range r.conns {
			c.abandon(r.end)
		}
	}
	for _, s := range r.shards {
		s.collect(r.total)
	}
	if r.cause != nil {
		r.total.errors[r.cause.Kind]++
	}
	m := r.measurement()
	result := m.result()
	switch {
	case r.cause == nil:
		return result, nil
	case !r.opened.taken:
		return nil, r.cause
	}
	return result, r.cause
}

// measurement gathers the figures that the verdict is made from.
func (r *run) measurement() measurement {
	m := measurement{
		tally: r.total, plan: r.plan, failure: r.cause, interrupted: r.interrupted,
		span:  time.Duration(max(0, min(r.end, r.window.till)-r.window.from)),
		procs: runtime.GOMAXPROCS(0),
	}
	if r.window.till == 0 {
		m.span = 0 // the load never began
	}
	if r.opened.known && r.closed.known && r.closed.at > r.opened.at {
		m.cpuKnown, m.cpu, m.cpuSpan = true, r.closed.used-r.opened.used, time.Duration(r.closed.at-r.opened.at)
	}
	if r.plan.Rate > 0 {
		m.lag = newHistogram()
		for _, p := range r.pacers {
			m.lag.Merge(p.lag)
		}
		m.offered = m.lag.TotalCount()
	}
	return m
}
