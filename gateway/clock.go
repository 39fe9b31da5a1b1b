package gateway

// clock is the time of the log. It only computes: the caller reads the wall clock and the
// monotonic clock. All times are in milliseconds.
//
// Log time never goes back. It follows the wall clock, but a step forward of more than gap has
// to last a day of running time, or an operator accepts it. While the wall clock is behind, log
// time runs at half speed. Sessions age by running, which no clock step moves.
type clock struct {
	gap     int64
	started bool
	time    int64 // log time in Unix milliseconds; 0: none yet
	running int64 // for how long servers of this log have run
	skipped int64 // how far time moved beyond running since the last Clock in the log
	rest    int64 // of the time at half speed: 0 or 1 half of a millisecond
	wall    int64 // the previous readings
	mono    int64
	held    int64 // for how long the wall clock has been more than gap ahead
	accept  bool  // an operator accepts the step
	off     int   // 1: the wall clock is too far ahead; -1: it is behind
	steps   uint64
	notices []clockNotice
}

// clockNotice is a change that an operator has to know about.
type clockNotice struct {
	what      string
	log, wall int64
}

const (
	longStep     = 24 * 60 * 60 * 1000 // after this running time a step forward is believed
	backwardStep = 10 * 1000           // a wall clock that is further behind is reported
	unloggedSkip = 1000                // a larger skip is stored before the next record
)

// learn takes the time of an entry from the log. Before read has started the clock, it
// recovers the time and the running time; later it follows the clock of another server.
func (c *clock) learn(time, skipped int64) {
	switch {
	case !c.started:
		if c.time != 0 {
			c.running += max(time-skipped-c.time, 0)
		}
		c.time = max(c.time, time)
	case time > c.time && time-c.time <= c.gap:
		c.skipped += time - c.time
		c.time = time
	}
}

// read moves the clock to new readings of the wall clock and the monotonic clock.
func (c *clock) read(wall, mono int64) {
	if !c.started {
		c.started, c.mono, c.wall = true, mono, wall
		if c.time == 0 {
			c.time = max(wall, 1)
		}
	}
	passed := max(mono-c.mono, 0)
	if jump := wall - c.wall - passed; max(jump, -jump) > c.gap {
		c.held = 0 // another step
	}
	c.mono, c.wall = mono, wall
	c.running += passed
	before, off := c.time, 0
	switch ahead := wall - c.time - passed; {
	case ahead < 0:
		c.rest += passed
		c.time += c.rest / 2
		c.rest %= 2
		if ahead < -backwardStep {
			off = -1
		}
	case ahead > c.gap && !c.accept && c.held < longStep:
		c.time += passed
		c.held += passed
		off = 1
	default:
		c.time = wall
		c.held = 0
	}
	c.skipped += c.time - before - passed
	c.note(off, c.time-before-passed > c.gap)
}

// note notices a change.
func (c *clock) note(off int, believed bool) {
	what := ""
	switch {
	case believed:
		what = "log time follows the wall clock, which had been stepped forward"
	case off == c.off:
	case off == 1:
		what = "the wall clock is far ahead of log time; check the clock, and then run honed clock accept, or wait 24 h"
	case off == -1:
		what = "the wall clock is behind log time, which runs at half speed until then; check the clock"
	default:
		what = "the wall clock and log time agree again"
	}
	if off != c.off && off != 0 {
		c.steps++
	}
	c.off = off
	if off != 1 {
		c.accept = false
	}
	if what != "" && len(c.notices) < 16 {
		c.notices = append(c.notices, clockNotice{what, c.time, c.wall})
	}
}
