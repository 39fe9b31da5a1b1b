package load

import (
	"fmt"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// heartbeat measures the generator's own delay in a closed loop, whose requests have no moment
// from which they could be late: a timer rings every beatTime where answers are waited for, and how
// late it is noticed is how late an answer of that moment would be read.
type heartbeat struct {
	run   *run
	timer *sys.Timer
	due   int64
	delay histogram // of the window's moments, one for each beatTime
}

const (
	beatTime  = 2 * time.Millisecond
	leastStop = 100 * time.Millisecond // a single delay that makes any result invalid
)

func (r *run) newHeartbeat() (*heartbeat, error) {
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	h := &heartbeat{run: r, timer: timer, delay: newHistogram()}
	r.heartbeats = append(r.heartbeats, h)
	return h, nil
}

// startHeartbeats measures each reader, or one goroutine where connections have goroutines.
func (r *run) startHeartbeats() error {
	if r.paced || len(r.conns) == 0 {
		return nil
	}
	if r.conns[0].reader == nil {
		h, err := r.newHeartbeat()
		if err == nil {
			r.goroutines.Go(h.waits)
		}
		return err
	}
	for _, rd := range r.readers {
		h, err := r.newHeartbeat()
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
	h.due = h.run.now() + int64(beatTime)
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
	h.due = now + int64(beatTime)
	// If it fails, the timer is closed because the run is over.
	_ = h.timer.Set(beatTime)
}

// waits is the goroutine that measures goroutines.
func (h *heartbeat) waits() {
	for now := h.run.now(); now < h.run.window.till; {
		h.due = now + int64(beatTime)
		if h.timer.WaitFor(beatTime) != nil {
			return // the run has closed the timer
		}
		now = h.run.now()
		h.beat(now)
	}
}

// beat records a delay. What would have arrived in a long one would have waited for the rest of it.
func (h *heartbeat) beat(now int64) {
	for moment := h.due; moment <= now; moment += int64(beatTime) {
		if h.run.window.has(moment) {
			h.delay.record(now-moment, 1)
		}
	}
}

// stopped fails when the generator did not run for so long that nothing excuses it.
func (m *Measured) stopped() string {
	longest, most := time.Duration(0), max(leastStop, m.plan.MaxLag)
	for _, h := range []histogram{m.Lag, m.Delay} {
		if h.Histogram != nil {
			longest = max(longest, time.Duration(h.Max()))
		}
	}
	if longest < most {
		return ""
	}
	return fmt.Sprintf("the generator itself did not run for %v (the limit is %v); give it CPUs of its own, and do not stop it", longest.Round(time.Millisecond), most)
}
