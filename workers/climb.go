package workers

import (
	"strconv"
	"time"
)

// Reason is why the limit of an Auto pool changed.
type Reason uint8

// The reasons for a Decision.
const (
	Hold      Reason = iota // the limit did not change
	Backlog                 // tasks wait and processors are idle: try more workers
	NoGain                  // more workers did not raise throughput enough: return
	Contended               // goroutines wait for processors: try fewer workers
	Costly                  // fewer workers lowered throughput: return
	Probe                   // try fewer workers, or drop unused ones
)

var reasonNames = [...]string{"hold", "backlog", "no gain", "contended", "costly", "probe"}

// String returns the reason in a word or two, for a log or a metric's label.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// window aggregates the samples of a period.
type window struct {
	took     time.Duration
	done     int     // tasks that ended
	bound    bool    // tasks waited, and only because of the limit
	inUse    int     // highest number of workers in use
	busy     float64 // mean number of running tasks
	waiting  float64 // mean number of waiting tasks
	procs    int
	cpu      float64 // CPU utilisation; negative: unknown
	runnable float64 // mean number of goroutines that waited for a processor
	crowd    int     // minimum of runnable
}

func (w window) throughput() float64 { return float64(w.done) / w.took.Seconds() }

// settle returns how long a change of the limit takes to show: the time of one task, by
// Little's law.
func (w window) settle() time.Duration {
	return min(longest, time.Duration(w.busy*float64(w.took))/time.Duration(max(1, w.done)))
}

const (
	full     = 0.95             // CPU utilisation above which more workers would only wait for processors
	most     = 0.5              // CPU utilisation above which not other programs are why workers wait for processors
	worth    = 0.3              // 10 % more workers must add 3 % of throughput
	single   = 0.05             // one more worker never needs to add more than this
	crowding = 0.6              // fraction of the added workers that wait for processors, above which a gain is noise
	pause    = 3 * time.Second  // before a failed direction is tried again
	memory   = 30 * time.Second // after which an unreached limit falls
)

// strides are the factors by which a trial changes the limit, and the lead in votes that
// decides the trial: a short step shows less above the noise.
var strides = [...]struct {
	factor float64
	lead   int
}{{1.1, 6}, {1.3, 4}, {2, 3}}

const widest = len(strides) - 1

// climb searches for the smallest limit with nearly the full throughput. It takes windows
// and sets a limit, without a clock and without a pool.
//
// Only comparisons move the limit. During a trial the pool alternates between two limits,
// and every pair of neighbouring windows votes: was the throughput at the higher limit
// worth its additional workers? Neighbouring windows share the noise of the machine,
// which can double or halve throughput for seconds. A remembered baseline does not, and
// may have been learnt at a bad moment (gradient2's drift, Netflix #134; Vegas's
// baseline, Netflix #165; a baseline that learns the incident, failsafe-go #127). Votes
// have no magnitude, so a stall counts once, however long it is. The same rule decides in
// both directions, so noise favours neither.
//
// A comparison counts only if tasks waited because of the lower limit. A limit that is
// not reached has no effect, and throughput reveals nothing about it: it never grows, and
// falls to the number of workers in use. If half of these wait for processors, a trial of
// about as many as do not wait begins, whether the limit is reached or not: hundreds of
// workers that compute leave too few tasks in the queue for any comparison near them.
type climb struct {
	min, max int
	limit    int // of the pool

	trial       Reason // Backlog, Contended or Probe; Hold: none
	base, other int    // the limits under comparison; the trial began at base
	before      window // the previous window, at the other of the two limits
	lead, votes int    // votes for the higher limit minus votes for the lower; total votes
	stride      int
	jams        int  // windows in a row in which half of the workers waited for processors
	wary        bool // the last trial of fewer because of waiting goroutines has failed

	growIn, shrinkIn time.Duration // time until the next trial in that direction
	slack            time.Duration // time since the limit was last reached
	peak             int           // maximum of workers in use in that time
}

// step is a change of the limit with its reason. With Hold, the limit stays or
// alternates.
type step struct {
	why      Reason
	from, to int
}

// next takes a window and may change the limit.
func (c *climb) next(w window) step {
	c.growIn, c.shrinkIn = max(0, c.growIn-w.took), max(0, c.shrinkIn-w.took)
	crowded := w.inUse > w.procs && 4*w.crowd > w.inUse
	jammed := crowded && 2*w.crowd > w.inUse // half of the workers wait for processors
	if c.jams++; !jammed || w.cpu < most {
		c.jams = 0
	}
	jammed = jammed && (c.shrinkIn == 0 || !c.wary && c.jams > 1)
	if c.trial != Hold {
		at := c.limit
		if jammed && c.trial != Contended {
			c.end(c.base) // and begin a trial of fewer at once
			c.shrinkIn = 0
		} else if d := c.vote(w); d.why != Hold || c.trial != Hold || c.limit != at {
			return d
		}
	}
	if w.inUse < c.limit && !jammed {
		return c.sink(w)
	}
	c.slack, c.peak = 0, 0
	if jammed {
		c.stride = widest
	}
	factor := strides[c.stride].factor
	fewer, more := c.scaled(1/factor), c.scaled(factor)
	if jammed && !c.wary { // who waits for a processor is not needed
		fewer = max(c.min, min(fewer, max(w.procs, (w.inUse-w.crowd)*4/3)))
	}
	switch {
	case w.bound && !crowded && w.cpu < full && c.limit < c.max && c.growIn == 0:
		tasks := int(w.busy + w.waiting) // more workers than tasks would be idle
		return c.try(Backlog, min(more, max(tasks, c.scaled(strides[0].factor))), w)
	case c.limit <= c.min || c.shrinkIn > 0 && !jammed:
	case crowded:
		return c.try(Contended, fewer, w)
	case w.bound && (c.limit > w.procs || w.cpu*float64(w.procs) < 0.8*float64(c.limit)): // otherwise fewer would leave processors idle
		return c.try(Probe, fewer, w)
	}
	return step{}
}

// scaled returns the limit times a factor, and at least one worker more or less.
func (c *climb) scaled(factor float64) int {
	n := int(float64(c.limit)*factor + 0.5)
	if factor > 1 {
		return min(max(n, c.limit+1), c.max)
	}
	return max(min(n, c.limit-1), c.min)
}

// moved reports whether somebody else has changed the limit.
func (c *climb) moved(limit int) bool {
	if limit == c.limit {
		return false
	}
	c.limit, c.trial = limit, Hold
	return true
}

// sink lowers a limit that was not reached for long to the peak of workers in use.
func (c *climb) sink(w window) step {
	c.slack, c.peak = c.slack+w.took, max(c.peak, w.inUse)
	if c.slack < memory {
		return step{}
	}
	from := c.limit
	c.limit = max(c.min, c.peak)
	c.slack, c.peak = 0, 0
	return step{Probe, from, c.limit}
}

// try starts a trial.
func (c *climb) try(why Reason, other int, w window) step {
	c.trial, c.base, c.other, c.before, c.lead, c.votes = why, c.limit, other, w, 0, 0
	c.limit = other
	return step{why, c.base, other}
}

// vote compares a window of a trial with the previous one, and ends the trial when the
// lead is large enough.
func (c *climb) vote(w window) step {
	few, many := min(c.base, c.other), max(c.base, c.other)
	low, high := c.before, w
	if c.limit == few {
		if low, high = w, c.before; !w.bound {
			return c.end(c.base)
		}
	}
	added := float64(many - few)
	gain := worth * min(1, added/float64(few))
	if added == 1 { // otherwise with few workers each would have to add a large share of the throughput
		gain = min(gain, single)
	}
	c.votes++
	switch {
	case high.throughput() <= low.throughput()*(1+gain):
		c.lead--
	case many <= w.procs || float64(high.crowd-low.crowd) < crowding*added:
		c.lead++
	}
	switch needed := c.needed(); {
	case c.lead >= needed:
		return c.end(max(few, min(many, high.inUse)))
	case -c.lead >= needed:
		return c.end(few)
	}
	c.before, c.limit = w, few+many-c.limit
	return step{}
}

// needed returns the lead that decides the trial. A step of one worker counts as the
// shortest, whatever its share of the limit.
func (c *climb) needed() int {
	few, many := min(c.base, c.other), max(c.base, c.other)
	switch {
	case many-few == 1:
		return strides[0].lead
	case many > 2*few+1: // so far apart that the gain to be worth it exceeds most noise
		return 1
	}
	return strides[c.stride].lead
}

// end ends the trial with the better limit.
func (c *climb) end(limit int) step {
	grow, kept, narrow := c.trial == Backlog, limit != c.base, false
	c.wary = c.trial == Contended && !kept
	switch {
	case kept && c.votes == c.needed(): // unanimous: take a longer step next
		c.stride = min(c.stride+1, widest)
	case !kept && c.trial == Contended:
		c.stride = 0
	case !kept && c.stride > 0: // take a shorter step at once
		c.stride--
		narrow = true
	}
	switch {
	case narrow:
	case grow == kept: // more workers were worth it, so fewer would not be
		c.shrinkIn = pause
	default:
		c.growIn = pause
	}
	c.trial, c.limit = Hold, limit
	switch {
	case limit == c.other:
		return step{}
	case grow:
		return step{NoGain, c.other, limit}
	}
	return step{Costly, c.other, limit}
}
