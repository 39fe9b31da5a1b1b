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
	wall    int64            // the previous readings
	mono    int64
	off     int // 1: the wall clock is too far ahead; -1: it is behind
	steps   uint64
	notices []string // changes that an operator has to know about
}

const (
	longPause    = 31 * 24 * 60 * 60 * 1000 // believed at a start, also of a wall clock that is not trusted
	backwardStep = 10 * 1000                // a wall clock that is further behind is reported
	unloggedSkip = 1000                     // a larger skip is stored before the next record
	shortPause   = 60 * 1000                // a shorter one makes records older
	mostMoments  = 32
	unlogged     = -1 << 62 // of clock.logged
)

// learn takes a Clock from the log: of the past, or of another server.
func (c *clock) learn(e journal.Clock) {
	if e.Since < c.since {
		return // another server had not read that a stretch began
	}
	if e.Since > c.since {
		c.since, c.time = e.Since, 0
	}
	c.time, c.running = max(c.time, e.Time), max(c.running, e.Running)
	c.logged, c.moments = e.Time-e.Running, e.Moments
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
			c.begin(0, wall)
		}
	}
	passed := max(mono-c.mono, 0)
	c.mono, c.wall = mono, wall
	c.running += passed
	off, what := 0, "the wall clock and log time agree again"
	switch ahead := wall - c.time - passed; {
	case ahead > c.gap && !c.trusted() && (!pause || ahead > max(c.gap, longPause)):
		c.time += passed
		off, what = 1, "the wall clock is far ahead of log time, and the kernel does not say that it is synchronised; if it is right, run honed clock accept"
	case wall < c.time-backwardStep:
		off, what = -1, "the wall clock is behind log time, which stands still until then; if the clock is right, run honed clock accept"
	default:
		if ahead > c.gap {
			c.note("log time has followed the wall clock over a pause or a step forward")
		}
		c.skip(ahead)
	}
	if off != c.off {
		c.note(what)
		if off != 0 {
			c.steps++
		}
	}
	c.off = off
}

// skip moves log time to the wall clock, which is by so much more than has passed.
func (c *clock) skip(by int64) {
	before := journal.Moment{Time: c.time, Running: c.running}
	if c.time = max(c.time, c.wall); by < shortPause {
		return
	}
	all := append(slices.Clone(c.moments), before)
	if len(all) > mostMoments { // join two, rather old ones: records between them count as stored later
		two, closest := 1, math.Inf(1)
		for i := range all[2:] {
			if ratio := float64(c.running-all[i].Running) / float64(c.running-all[i+2].Running); ratio < closest {
				two, closest = i+1, ratio
			}
		}
		all[two].Running = all[two+1].Running
		all = slices.Delete(all, two+1, two+2)
	}
	c.moments = all
}

// begin begins a stretch of log time with the envelope at a position.
func (c *clock) begin(since uint64, time int64) {
	c.since, c.time, c.logged = since, max(time, 1), unlogged
	c.moments = []journal.Moment{{Time: c.time, Running: c.running}}
}

// due reports whether the next record needs a Clock before it.
func (c *clock) due() bool { return c.time-c.running-c.logged >= unloggedSkip }

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

func (c *clock) note(what string) {
	if len(c.notices) < 16 {
		c.notices = append(c.notices, what)
	}
}
