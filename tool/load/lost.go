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
// because a signal, the host or a quota had stopped them. Which program had the processor is known for
// the whole window only (Plan.Rivals): waiting for the server's is a closed loop's nature.
type lost struct {
	threads         sys.Threads
	found           int64 // when they were listed
	stopped, waited atomic.Int64
}

const (
	leastDelay = int64(time.Millisecond) // a shorter one is a turn of the generator
	oldList    = int64(time.Second)
	mostLost   = 0.02                  // of the window
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

// notRun returns the share of the window in which the generator did not run, and how much of that
// other programs than the server had its processor.
func (m *Measured) notRun() (all, rivals float64) {
	if m.Span <= 0 {
		return 0, 0
	}
	if m.Rivals != nil {
		rivals = *m.Rivals * m.Waited.Seconds() / m.Span.Seconds()
	}
	return m.Stopped.Seconds()/m.Span.Seconds() + rivals, rivals
}

// loss says that the generator did not run for so much of the time that the rate is not the server's.
func (m *Measured) loss() string {
	all, rivals := m.notRun()
	if all <= mostLost || all*m.Span.Seconds() < leastLost.Seconds() {
		return ""
	}
	why := ""
	if rivals > all/2 {
		why = fmt.Sprintf(", in %.1f %% because other programs had its CPU", 100*rivals)
	}
	least := ""
	if rate := m.perSecond(m.Good); rate != nil {
		least = fmt.Sprintf("; the rate is at least %.0f/s", *rate)
	}
	return fmt.Sprintf("the generator itself did not run in %.1f %% of the time%s (the limit is %.0f %%)%s", 100*all, why, 100*mostLost, least)
}

// lossy fails for a loss, unless the generator may be late: then only the rate is withheld.
func (m *Measured) lossy() string {
	loss := m.loss()
	if loss == "" || m.plan.MaxLag > UsualMaxLag {
		return ""
	}
	if all, rivals := m.notRun(); rivals > all/2 {
		return loss + "; stop those, or give --most-others 100% if they belong to the server"
	}
	return loss + "; give it CPUs of its own, and do not stop it"
}

// bounds fills in what the result was judged by.
func (m *Measured) bounds(r *Result) {
	if m.Lag.Histogram != nil {
		r.Client.DelayLimit = new(float64(m.plan.MaxLag) / 1e3)
	} else if _, most := m.late(m.Delay, judged()[2]); most > 0 {
		all, _ := m.notRun()
		r.Client.DelayLimit, r.Client.NotRun, r.Client.Waited = new(float64(most)/1e3), &all, new(m.Waited.Seconds()/m.Span.Seconds())
	}
}

// judgedBy says how much of the generator may be in the figures of a valid result.
func (r *Result) judgedBy() string {
	own := cmp.Or(r.Client.DelayP99, r.Lag.P99)
	if own == nil || r.Client.DelayLimit == nil {
		return ""
	}
	text := fmt.Sprintf("%s of p99 at most, limit %s", figure.Micros(*own), figure.Micros(*r.Client.DelayLimit))
	switch lost := r.Client.NotRun; {
	case lost == nil:
	case r.Rate == nil:
		text += fmt.Sprintf("; it did not run in %.1f %% of the time: the rate is a lower bound", 100**lost)
	default:
		text += fmt.Sprintf("; it did not run in %.1f %% of the time, limit %.0f %%", 100**lost, 100*mostLost)
	}
	return text
}
