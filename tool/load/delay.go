package load

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/figure"
)

// heartbeat measures the generator's own delay in a closed loop, whose requests have no moment
// from which they could be late: a timer rings every beatTime where answers are waited for. While
// it is overdue, the answers that are read are late, too. What counts is how many those are, not
// for how long: at full speed a processor that is taken away for a hundredth of the time delays
// far fewer than a hundredth of the answers.
type heartbeat struct {
	run      *run
	timer    *sys.Timer
	due      atomic.Int64
	counters []*counter // whose answers it measures
	longest  int64      // delay within the window
	lost
}

const (
	beatTime  = 2 * time.Millisecond
	leastLate = int64(250 * time.Microsecond) // a timer's usual lateness is below it
	leastStop = 100 * time.Millisecond        // a single delay that makes any result invalid
)

// delays are those of a counter's answers. Each is an upper limit: that of an answer that arrived
// when the delay began, and no more than it took longer than the quickest of all.
type delays struct {
	beat     *heartbeat // nil in an open loop
	delayed  histogram  // of the window's late answers; the others were in time
	late     [8]delay   // the last ones, in a ring
	newest   int
	caught   int64 // until when answers are read that had to wait for the newest
	quickest int64 // response time
}

// delay is a time in which the generator did not run: between two readings of the clock.
type delay struct{ due, from, till, length int64 }

// noticed notes a delay that is still going on, or has just ended. The counter's lock is held.
func (s *counter) noticed(due, now int64) {
	if s.late[s.newest].due != due {
		s.newest = (s.newest + 1) % len(s.late)
		s.late[s.newest] = delay{due: due, from: s.last, till: now}
	}
	s.late[s.newest].length = now - due
	s.caught = now + min(now-due, int64(beatTime))
}

// lateness returns how late an answer is that was read at now. The counter's lock is held.
func (s *counter) lateness(now int64) int64 {
	if s.beat == nil {
		return 0
	}
	if due := s.beat.due.Load(); due > 0 && now-due > leastLate {
		s.noticed(due, now)
	} else if now > s.caught {
		return 0
	}
	return s.late[s.newest].length
}

// heldUp records what the generator added to answers that were read late, or whose request was
// about to be written when a delay began. The counter's lock is held.
func (s *counter) heldUp(a *answers, late, now int64) {
	for i := range s.late {
		if d := &s.late[i]; a.written >= d.from && a.written < d.till {
			late += d.length
		}
	}
	if late = min(late, now-a.written-s.quickest); late > 0 && s.window.has(a.intended) {
		s.delayed.record(late, a.count)
		s.beat.run.lagged(late, a.count)
	}
}

func (r *run) newHeartbeat(counters ...*counter) (*heartbeat, error) {
	timer, err := r.newTimer()
	if err != nil {
		return nil, err
	}
	h := &heartbeat{run: r, timer: timer, counters: counters}
	h.threads.Find()
	r.heartbeats = append(r.heartbeats, h)
	for _, s := range counters {
		s.mu.Lock()
		s.beat, s.delayed, s.quickest = h, newHistogram(), longest
		s.mu.Unlock()
	}
	return h, nil
}

// startHeartbeats measures each reader, or one goroutine where connections have goroutines.
func (r *run) startHeartbeats() error {
	if r.paced || len(r.conns) == 0 {
		return nil
	}
	if r.conns[0].reader == nil {
		h, err := r.newHeartbeat(r.counters...)
		if err == nil {
			r.goroutines.Go(h.waits)
		}
		return err
	}
	for i, rd := range r.readers {
		h, err := r.newHeartbeat(r.counters[i]) // connections go to readers and to counters by their number
		if err == nil {
			err = h.ringsIn(rd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ringsIn has a reader notice the timer, among the answers that it reads.
func (h *heartbeat) ringsIn(rd *reader) error {
	h.due.Store(h.run.now() + int64(beatTime))
	if err := h.timer.Set(beatTime); err != nil {
		return err
	}
	rd.heartbeat.Store(h)
	return h.timer.Watch(rd.poll, beatKey)
}

// beatKey is no connection's number.
const beatKey = sys.WakeKey - 1

// rang is called by the reader.
func (h *heartbeat) rang() {
	now := h.run.now()
	h.beat(now)
	h.due.Store(now + int64(beatTime))
	// If it fails, the timer is closed because the run is over.
	_ = h.timer.Set(beatTime)
}

// waits is the goroutine that measures goroutines.
func (h *heartbeat) waits() {
	for now := h.run.now(); now < h.run.window.till; {
		h.due.Store(now + int64(beatTime))
		if h.timer.WaitFor(beatTime) != nil {
			return // the run has closed the timer
		}
		now = h.run.now()
		h.beat(now)
	}
}

// beat notes a delay for the answers to come.
func (h *heartbeat) beat(now int64) {
	due := h.due.Load()
	if w := h.run.window; due < w.till && now >= w.from {
		h.longest = max(h.longest, now-max(due, w.from))
		h.run.lagged(now-max(due, w.from), 0)
		h.lost.beat(max(due, w.from), min(now, w.till))
	}
	if now-due <= leastLate {
		return
	}
	for _, s := range h.counters {
		s.mu.Lock()
		s.noticed(due, now)
		s.mu.Unlock()
	}
}

// lagged notes for Progress that the generator was late with n requests.
func (r *run) lagged(by, n int64) {
	if by > int64(r.plan.MaxLag) {
		r.tardy.Add(n)
	}
	for was := r.lag.Load(); by > was && !r.lag.CompareAndSwap(was, by); was = r.lag.Load() {
	}
}

// doubt returns Progress.Doubt. Whether a closed loop's p99 has too much delay in it is known before
// the end only while the limit is Plan.MaxLag.
func (r *run) doubt() string {
	m := Measured{tally: *r.total, plan: r.plan, Stop: r.longestLag, Span: r.plan.For}
	m.lose(r.heartbeats)
	tardy, all := r.tardy.Load(), r.total.requests()+r.recent.requests()
	most := r.plan.MaxLag
	if reason := cmp.Or(m.stopped(), m.lossy()); reason != "" || r.plan.AllowLate || 100*tardy <= all {
		return reason
	}
	if p99 := quantile(m.Latency.Histogram, 99, 100); !r.paced && (p99 == nil || *p99*microsecond > 4*float64(most)) {
		return ""
	}
	return fmt.Sprintf("the generator itself was more than %s late with %.1f %% of the requests (the limit is 1 %%)", figure.Time(most), 100*float64(tardy)/float64(all))
}

// delays adds what the heartbeats have measured.
func (m *Measured) delays(heartbeats []*heartbeat, counters []*counter) {
	if len(heartbeats) == 0 {
		return
	}
	m.Delay = newHistogram()
	for _, h := range heartbeats {
		m.Stop = max(m.Stop, time.Duration(h.longest))
	}
	m.lose(heartbeats)
	for _, s := range counters {
		m.Delay.add(s.delayed)
	}
	m.Delay.record(0, m.Latency.TotalCount()-m.Delay.TotalCount())
}

// stopped fails when the generator did not run for so long that nothing excuses it.
func (m *Measured) stopped() string {
	longest, most := m.Stop, max(leastStop, m.plan.MaxLag)
	if m.Lag.Histogram != nil {
		longest = max(longest, time.Duration(m.Lag.Max()))
	}
	if longest < most {
		return ""
	}
	return fmt.Sprintf("the generator itself did not run for %s (the limit is %s); give it CPUs of its own, and do not stop it", figure.Time(longest), figure.Time(most))
}

// slow fails when a percentile of a closed loop has too much of the generator's own delay in it.
func (m *Measured) slow() string {
	if m.plan.AllowLate {
		return ""
	}
	for _, p := range judged() {
		if late, most := m.late(m.Delay, p); late > 0 {
			return fmt.Sprintf("the generator itself read %s of the answers %s or more after they had come (the limit for %s is %s); give it CPUs of its own, or use fewer connections",
				p.share, figure.Time(late), p.name, figure.Time(most))
		}
	}
	return ""
}

// withhold removes the percentiles that slow would fail for, and those above them.
func (m *Measured) withhold(q *Quantiles) {
	late := false
	for i, p := range judged() {
		if own, _ := m.late(m.Delay, p); own > 0 || late {
			late = true
			*[]**float64{&q.P50, &q.P90, &q.P99}[i] = nil
		}
	}
	if late {
		q.P95, q.P999 = nil, nil
	}
}

// judged are the percentiles for which a closed loop can be invalid.
func judged() []percentile {
	return []percentile{{"p50", "half", 1, 2}, {"p90", "10 %", 9, 10}, {"p99", "1 %", 99, 100}}
}

// percentile is the value that parts/whole of the answers do not exceed.
type percentile struct {
	name, share  string
	parts, whole int64
}

// late returns by how much the generator was late with the answers of a percentile, and how much
// it may be: a quarter of the percentile, or Plan.MaxLag. It returns 0 if it is within that.
func (m *Measured) late(delay histogram, p percentile) (late, most time.Duration) {
	if delay.Histogram == nil {
		return 0, 0
	}
	own, shown := quantile(delay.Histogram, p.parts, p.whole), quantile(m.Latency.Histogram, p.parts, p.whole)
	if own == nil || shown == nil {
		return 0, 0
	}
	late, most = time.Duration(*own*microsecond), max(m.plan.MaxLag, time.Duration(*shown*microsecond/4))
	if late <= most {
		return 0, most
	}
	return late.Round(time.Microsecond), most.Round(time.Microsecond)
}
