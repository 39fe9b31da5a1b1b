package gateway

import (
	"math"
	"slices"

	"github.com/hone-go/hone/gateway/journal"
)

// clock is the time of the log. It only computes: the caller reads the wall clock and the
// monotonic clock. All times are in milliseconds.
//
// Log time is the wall clock, but never goes back. It follows a step forward of more than gap only
// if the wall clock is trusted, or an operator accepts it; of the first reading, which comes after a
// pause, up to longPause. A step back that an operator accepts begins a new stretch of log time.
// Sessions, readers and retention age by running, which neither steps nor pauses move.
type clock struct {
	gap     int64
	trusted func() bool // the kernel or the operator vouches for the wall clock
	started bool
	time    int64            // log time in Unix milliseconds; 0: none yet
	running int64            // for how long servers of this log have run
	logged  int64            // time - running by the newest Clock in the log
	since   uint64           // position of the envelope with which this stretch begins; 0: it is the log's first
	moments []journal.Moment // as in journal.Clock; replaced, never changed
	again   bool             // a new stretch begins with the next Clock
	wall    int64            // the previous readings
	mono    int64
	off     int // 1: the wall clock is too far ahead; -1: it is behind
	steps   uint64
	notices []clockNotice
}

// clockNotice is a change that an operator has to know about.
type clockNotice struct {
	what      string
	log, wall int64
}

const (
	longPause    = 31 * 24 * 60 * 60 * 1000 // believed at a start, also of a wall clock that is not trusted
	backwardStep = 10 * 1000                // a wall clock that is further behind is reported
	unloggedSkip = 1000                     // a larger skip is stored before the next record
	shortPause   = 60 * 1000                // a shorter one makes records older
	mostMoments  = 32
)

// learn takes a Clock from the log: of the past, or of another server.
func (c *clock) learn(e journal.Clock) {
	if e.Since < c.since {
		return // another server had not read that a stretch began
	}
	if e.Since > c.since {
		c.since, c.time, c.again = e.Since, e.Time, false
	}
	c.time = max(c.time, e.Time)
	if c.logged = e.Time - c.running; !c.started {
		c.running, c.logged = max(c.running, e.Running), e.Time-e.Running
	}
	c.moments = e.Moments
	if moved := c.running - e.Running; moved != 0 { // another server has run for another time
		c.moments = slices.Clone(c.moments)
		for i := range c.moments {
			c.moments[i].Running += moved
		}
	}
}

// reach takes the time of a record from the log.
func (c *clock) reach(time int64) {
	if !c.started && c.logged != 0 {
		c.running = max(c.running, time-c.logged)
	}
	c.time = max(c.time, time)
}

// read moves the clock to new readings of the wall clock and the monotonic clock.
func (c *clock) read(wall, mono int64) {
	pause := !c.started
	if pause {
		c.started, c.mono = true, mono
		if c.time == 0 {
			c.begin(wall)
		}
	}
	passed := max(mono-c.mono, 0)
	c.mono, c.wall = mono, wall
	c.running += passed
	off, trusted := 0, true
	ahead := wall - c.time - passed
	if ahead > c.gap {
		trusted = c.trusted()
	}
	switch {
	case !trusted && (!pause || ahead > max(c.gap, longPause)):
		c.time += passed
		off = 1
	case wall < c.time:
		if wall < c.time-backwardStep {
			off = -1
		}
	default:
		c.skip(ahead)
	}
	switch {
	case ahead > c.gap && off == 0 && trusted:
		c.note("log time has followed the wall clock forward")
	case ahead > c.gap && off == 0:
		c.note("log time has followed the wall clock over a pause, although the kernel does not say that the clock is synchronised")
	case off == c.off:
	case off == 1:
		c.note("the wall clock is far ahead of log time, and the kernel does not say that it is synchronised; if the clock is right, run honed clock accept")
	case off == -1:
		c.note("the wall clock is behind log time, which stands still until then; if the clock is right, run honed clock accept")
	default:
		c.note("the wall clock and log time agree again")
	}
	if off != c.off && off != 0 {
		c.steps++
	}
	c.off = off
}

// skip moves log time to the wall clock, which is by so much more than has passed.
func (c *clock) skip(by int64) {
	before := journal.Moment{Time: c.time, Running: c.running}
	c.time = c.wall
	if by < shortPause {
		return
	}
	all := append(slices.Clone(c.moments), before)
	if len(all) > mostMoments { // two become one, as if all of both had happened after them; the older, the rougher
		two, close := 1, math.Inf(1)
		for i := range all[2:] {
			if ratio := float64(c.running-all[i].Running) / float64(c.running-all[i+2].Running); ratio < close {
				two, close = i+1, ratio
			}
		}
		all[two].Running = all[two+1].Running
		all = slices.Delete(all, two+1, two+2)
	}
	c.moments = all
}

// accept has log time follow the wall clock, because an operator says that it is right. A step back
// comes with the next Clock in the log.
func (c *clock) accept() {
	switch c.off {
	case 1:
		c.skip(c.wall - c.time)
		c.off = 0
		c.note("an operator has accepted the wall clock, and log time has followed it forward")
	case -1:
		c.again = true
	}
}

// anew forgets the time of a log without records.
func (c *clock) anew() {
	c.again = c.wall < c.time
	c.begin(c.wall)
	c.notices, c.off, c.steps = nil, 0, 0
}

// begin begins log time.
func (c *clock) begin(time int64) {
	c.time = max(time, 1)
	c.moments = []journal.Moment{{Time: c.time, Running: c.running}}
}

// entry returns the clock as the envelope at a position is to have it.
func (c *clock) entry(pos uint64) journal.Clock {
	e := journal.Clock{Time: c.time, Running: c.running, Since: c.since, Moments: c.moments}
	if c.again {
		e.Time, e.Since = max(c.wall, 1), pos
		e.Moments = []journal.Moment{{Time: e.Time, Running: e.Running}}
	}
	return e
}

// stored notes that the log has a clock, and reports whether a stretch begins with it.
func (c *clock) stored(e journal.Clock) (begins bool) {
	if begins = e.Since > c.since; begins {
		c.since, c.time, c.moments, c.again, c.off = e.Since, e.Time, e.Moments, false, 0
		c.note("log time starts again with the wall clock")
	}
	c.logged = e.Time - e.Running
	return begins
}

// due reports whether the next record needs a Clock before it.
func (c *clock) due() bool { return c.again || c.time-c.running-c.logged >= unloggedSkip }

// old reports whether a record of a time, at a position, was stored before so much running time; if in doubt,
// it was not. One of an earlier stretch counts as stored when this one began.
func (c *clock) old(pos uint64, time, age int64) bool {
	then := c.running - age
	if len(c.moments) == 0 || then < c.moments[0].Running {
		return false
	}
	after := journal.Moment{Time: c.time, Running: c.running}
	if i := slices.IndexFunc(c.moments[1:], func(m journal.Moment) bool { return m.Running >= then }); i >= 0 {
		after = c.moments[i+1]
	}
	return pos < c.since || time <= after.Time-(after.Running-then)
}

// counts returns when a record of a time, at a position, counts as stored.
func (c *clock) counts(pos uint64, time int64) int64 {
	if pos < c.since && len(c.moments) > 0 {
		return c.moments[0].Time
	}
	return time
}

// note notes a change.
func (c *clock) note(what string) {
	if len(c.notices) < 16 {
		c.notices = append(c.notices, clockNotice{what, c.time, c.wall})
	}
}
