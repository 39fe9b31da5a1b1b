package load

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/figure"
)

// lost adds up the time in which the generator of a closed loop did not run, which lowers the rate
// however short its parts are. A heartbeat's delay has three: the generator was busy with other
// answers, on whatever thread; it waited for a processor; or none of its threads had anything to do,
// because a signal, the host or a quota had stopped them. Waiting for a processor that the server has is
// a closed loop's nature. Which program had it is known for the whole window only (Plan.Rivals), as is how
// long the server waited, which lowers the rate likewise.
type lost struct {
	threads         sys.Threads
	found           int64 // when they were listed
	stopped, waited atomic.Int64
}

const (
	leastDelay = int64(time.Millisecond) // a shorter one is a turn of the generator
	oldList    = int64(time.Second)
	mostLost   = 0.02                  // of the window, in which the generator was stopped
	mostRivals = 0.05                  // and in which it was, or it or the server waited for other programs
	leastLost  = 10 * time.Millisecond // in a short run
)

// beat takes the delay from due to now, of the window. What the threads did in the beat before due may
// hide as much of a stop, and the kernel counts a running thread's time only with each of its ticks: so
// stops come out some milliseconds short, and nothing is called a stop that was none. In particular a
// goroutine that waits for another, or for the Go scheduler, waits as long as that one's thread does.
func (l *lost) beat(due, now int64) {
	late := now - due
	own, others := l.threads.Since(late > leastDelay) // at each beat, to have only what belongs to it
	if late > leastDelay && l.threads.Known() {
		rest := max(0, late-int64(own.Sum()))
		l.waited.Add(min(int64(own.Waited), late) + min(int64(others.Waited), rest))
		l.stopped.Add(max(0, rest-int64(others.Sum())))
	}
	if now-l.found > oldList {
		l.found = now
		l.threads.Find()
	}
}

// lose adds what the heartbeats have lost, on average.
func (m *Measured) lose(heartbeats []*heartbeat) {
	for _, h := range heartbeats {
		m.Stopped += time.Duration(h.stopped.Load()) / time.Duration(len(heartbeats))
		m.Waited += time.Duration(h.waited.Load()) / time.Duration(len(heartbeats))
	}
}

// notRun returns the share of the window in which the generator was stopped, and that in which other
// programs had the processor that it or the server waited for. No more requests wait at a time than are in
// flight, or than there are processors.
func (m *Measured) notRun() (stopped, rivals float64) {
	if m.Span <= 0 || m.Lag.Histogram != nil || m.unloaded() { // at a rate, as of the churn, who was late has its own limit
		return 0, 0
	}
	if m.Rivals != nil {
		waited := m.Waited + m.ServerWaited/time.Duration(max(1, min(m.plan.Conns*m.plan.Depth, m.Procs)))
		rivals = *m.Rivals * waited.Seconds() / m.Span.Seconds()
	}
	return m.Stopped.Seconds() / m.Span.Seconds(), min(rivals, 1)
}

// loss says that for so much of the time the generator did not run, or other programs had the processors,
// that the rate is not the server's.
func (m *Measured) loss() string {
	stopped, rivals := m.notRun()
	all := stopped + rivals
	if stopped <= mostLost && all <= mostRivals || all*m.Span.Seconds() < leastLost.Seconds() {
		return ""
	}
	text := fmt.Sprintf("the generator itself did not run in %.1f %% of the time (the limit is %.0f %%)", 100*stopped, 100*mostLost)
	if stopped <= mostLost {
		text = fmt.Sprintf("other programs kept the server or the generator waiting for a CPU in %.1f %% of the time (the limit is %.0f %%)", 100*all, 100*mostRivals)
	}
	if rate := m.perSecond(m.Good); rate != nil {
		text += fmt.Sprintf("; the rate is at least %.0f/s", *rate)
	}
	return text
}

// lossy fails for a loss, unless the generator may be late: then only the rate is withheld.
func (m *Measured) lossy() string {
	loss := m.loss()
	if loss == "" || m.plan.MaxLag > DefaultMaxLag {
		return ""
	}
	if stopped, _ := m.notRun(); stopped <= mostLost {
		return loss + "; stop them, or give --max-others 100% if they belong to the server"
	}
	return loss + "; give it CPUs of its own, and do not stop it"
}

// bounds fills in what the result was judged by.
func (m *Measured) bounds(r *Result) {
	if m.Lag.Histogram != nil {
		r.Client.DelayLimit = new(float64(m.plan.MaxLag) / 1e3)
	} else if _, most := m.late(m.Delay, judged()[2]); most > 0 {
		stopped, rivals := m.notRun()
		r.Client.DelayLimit, r.Client.NotRun, r.Client.Rivals = new(float64(most)/1e3), &stopped, &rivals
	}
}

// judgedBy says how much of the generator may be in the figures of a valid result.
func (r *Result) judgedBy() string {
	own := cmp.Or(r.Client.DelayP99, r.Lag.P99)
	if own == nil || r.Client.DelayLimit == nil {
		return ""
	}
	text := fmt.Sprintf("%s of p99 at most, limit %s", figure.Micros(*own), figure.Micros(*r.Client.DelayLimit))
	if r.Client.NotRun == nil {
		return text
	}
	stopped, rivals := 100**r.Client.NotRun, 100**r.Client.Rivals
	switch {
	case r.Rate != nil:
	case *r.Client.NotRun > mostLost:
		return text + fmt.Sprintf("; it did not run in %.1f %% of the time: the rate is a lower bound", stopped)
	default:
		return text + fmt.Sprintf("; other programs kept it or the server waiting in %.1f %% of the time: the rate is a lower bound", rivals)
	}
	text += fmt.Sprintf("; it did not run in %.1f %% of the time, limit %.0f %%", stopped, 100*mostLost)
	if rivals > 0 {
		text += fmt.Sprintf("; other programs kept it or the server waiting in %.1f %%, limit %.0f %%", rivals, 100*mostRivals)
	}
	return text
}
