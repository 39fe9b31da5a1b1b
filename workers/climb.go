package workers

import (
	"math"
	"strconv"
	"time"
)

// Reason is why the limit of an Auto pool moved.
type Reason uint8

// The reasons.
const (
	Hold      Reason = iota // it did not move
	Backlog                 // tasks waited and processors were idle: grow
	NoGain                  // growing has not paid: back
	Contended               // goroutines queued for processors: shrink
	Costly                  // shrinking has cost throughput: back
	Probe                   // do fewer do as well?
)

var reasonNames = [...]string{"hold", "backlog", "no gain", "contended", "costly", "probe"}

// String is the reason in a word or two, as for a log or a metric's label.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// window is what was seen of a pool during some time. Means are over the time.
type window struct {
	took     time.Duration
	done     int     // tasks that have ended
	busy     float64 // tasks that ran
	waiting  float64 // tasks that waited
	procs    int
	cpu      float64 // used part of the processors; negative: not known
	runnable float64 // goroutines that waited for a processor
}

func (w window) throughput() float64 { return float64(w.done) / w.took.Seconds() }

// The figures that climb goes by.
const (
	full       = 0.95          // of the processors: growing would only make tasks wait for them
	crowd      = 2.0           // goroutines waiting for each processor that are too many
	hardlyBusy = 0.3           // of the processors: with less, nobody waits long for one
	worth      = 0.1           // what growing has to bring: so much of its proportion
	sameRate   = 0.98          // of the throughput is as good as all of it
	precise    = 0.02          // relative error that settles a trial
	patience   = 2.0           // seconds that settle it too
	remembered = 3.0           // seconds of throughput that a trial is compared with
	firstRest  = 30            // windows after a trial that failed; each time twice as long
	longRest   = 4 * firstRest // soon enough to see that more pays again
)

// climb finds a limit. It is fed with windows and does nothing but answer: no
// clock, no pool.
//
// Every change is a trial: it is kept if the throughput says so, and else taken
// back. No latency is remembered as the good one, so none can be remembered
// wrongly (gradient2's drift, Netflix #134; Vegas's baseline, Netflix #165; one
// that learns the incident, failsafe-go #127).
type climb struct {
	min, max int
	limit    int

	trial  Reason // Backlog, Contended or Probe; Hold: none
	before int    // limit that the trial is compared with
	base   tally  // what was seen there; without a trial, at limit
	seen   tally  // what has been seen at limit, when there is a trial
	settle bool   // the next window still has tasks of the limit before

	stride int // growing goes by strides[stride]
	rest   [Probe + 1]rest
}

var strides = [...]float64{1.25, 1.5, 2}

// rest is how long a kind of trial is not tried again.
type rest struct{ left, last int }

func (r *rest) begin() {
	r.last = min(max(firstRest, 2*r.last), longRest)
	r.left = r.last
}

// tally is several windows together; busy and cpu are integrals over time.
type tally struct{ done, seconds, busy, cpu float64 }

func (t *tally) add(w window) {
	took := w.took.Seconds()
	t.done += float64(w.done)
	t.seconds += took
	t.busy += w.busy * took
	t.cpu += w.cpu * took
	if over := t.seconds / remembered; over > 1 {
		t.done /= over
		t.seconds /= over
		t.busy /= over
		t.cpu /= over
	}
}

// load is the used part of the processors.
func (t tally) load() float64 { return t.cpu / max(t.seconds, 1e-9) }

// gain is how much better t is than base, and how far that may be wrong: tasks
// that end at random vary by the root of their number.
func (t tally) gain(base tally) (ratio, doubt float64) {
	if base.done == 0 {
		return 2, 0
	}
	ratio = t.done / t.seconds / (base.done / base.seconds)
	return ratio, ratio * math.Sqrt(1/max(t.done, 1)+1/base.done)
}

// next is the limit from now on, and why.
func (c *climb) next(w window) (limit int, why Reason) {
	for i := range c.rest {
		c.rest[i].left = max(0, c.rest[i].left-1)
	}
	if w.cpu >= 0 && w.cpu < hardlyBusy {
		w.runnable = 0 // they woke up together with who counts them
	}
	switch {
	case w.busy < float64(c.limit)/2 && w.waiting < 1: // the load is the limit
		c.trial, c.base, c.settle = Hold, tally{}, false
		return c.limit, Hold
	case c.settle: // some of these tasks began under another limit
		c.settle = w.busy > 1.1*float64(c.limit)+1
		return c.limit, Hold
	case c.trial != Hold:
		return c.judge(w)
	case c.changed(w):
		return c.limit, Hold
	}
	c.base.add(w)
	return c.propose(w)
}

// moved tells of a limit that somebody else has set.
func (c *climb) moved(limit int) {
	if limit != c.limit {
		c.limit, c.settle, c.trial, c.base = limit, true, Hold, tally{}
	}
}

// propose begins a trial, if there is reason for one.
func (c *climb) propose(w window) (int, Reason) {
	n, procs := float64(c.limit), float64(w.procs)
	switch {
	case w.runnable > crowd*procs && c.limit > w.procs && c.rest[Contended].left == 0:
		return c.try(Contended, max(w.procs, c.limit-int(w.runnable-procs)))
	case w.waiting >= 1 && w.cpu < full && w.runnable < procs && c.rest[Backlog].left == 0:
		return c.try(Backlog, int(math.Ceil(n*min(strides[c.stride], 1.1/max(w.cpu, 0.1)))))
	case c.rest[Probe].left == 0 && c.base.seconds >= 0.5 && w.runnable >= 1:
		return c.try(Probe, c.limit-int(w.runnable))
	case c.rest[Probe].left == 0 && c.base.seconds >= 0.5:
		return c.try(Probe, min(c.limit-1, int(n*0.85)))
	}
	return c.limit, Hold
}

func (c *climb) try(why Reason, limit int) (int, Reason) {
	limit = min(max(c.min, limit), c.max)
	if limit == c.limit {
		c.rest[why].begin()
		return c.limit, Hold
	}
	c.trial, c.before, c.seen = why, c.limit, tally{}
	return c.move(limit, why)
}

func (c *climb) move(limit int, why Reason) (int, Reason) {
	c.limit, c.settle = limit, true
	return limit, why
}

// judge settles the trial, or waits for one more window.
func (c *climb) judge(w window) (int, Reason) {
	c.seen.add(w)
	ratio, doubt := c.seen.gain(c.base)
	enough := doubt < precise || c.seen.seconds >= patience
	if c.trial == Backlog {
		return c.judgeGrowth(ratio, doubt, enough, w.runnable > crowd*float64(w.procs))
	}
	far := c.limit < c.before*4/5
	switch {
	case !far && c.base.load() >= full && c.seen.load() < full && c.seen.seconds >= 0.3:
		// Processors are idle now, and tasks wait.
	case ratio-2*doubt >= sameRate || enough && ratio >= sameRate+max(0, doubt-precise):
		c.rest[c.trial].left = 3
		return c.keep()
	case !enough && ratio+2*doubt >= sameRate:
		return c.limit, Hold
	}
	if far && c.trial == Contended { // half as far, then
		c.before, c.base = (c.limit+c.before)/2, tally{}
	} else {
		c.rest[c.trial].begin()
	}
	return c.back(Costly)
}

// judgeGrowth goes by throughput, and where processors are the limit by how many
// of them work, which is known sooner.
func (c *climb) judgeGrowth(ratio, doubt float64, enough, crowded bool) (int, Reason) {
	needed := 1 + worth*(float64(c.limit)/float64(c.before)-1)
	busier := c.base.load() > 0.5 && c.seen.load() >= needed*c.base.load()
	switch {
	case ratio-2*doubt >= needed, enough && ratio-doubt >= needed, enough && ratio >= needed && busier:
		c.stride = min(c.stride+1, len(strides)-1)
		return c.keep()
	case !enough && (ratio >= needed || ratio+2*doubt >= needed && !crowded):
		return c.limit, Hold
	case c.stride > 0:
		c.stride--
	default:
		c.rest[Backlog].begin()
	}
	return c.back(NoGain)
}

// keep ends a trial that was right.
func (c *climb) keep() (int, Reason) {
	c.rest[c.trial].last = 0
	c.trial, c.base = Hold, c.seen
	return c.limit, Hold
}

// back ends a trial that was not.
func (c *climb) back(why Reason) (int, Reason) {
	c.trial = Hold
	return c.move(c.before, why)
}

// changed reports whether the tasks have become others, and then forgets what was
// learnt: they take much longer or much less than before at the same limit, or
// much more or less processor.
func (c *climb) changed(w window) bool {
	if c.base.done == 0 {
		return false
	}
	task, before := w.busy/max(w.throughput(), 1e-9), c.base.busy/c.base.done
	if task < 1.5*before && task > before/1.5 && math.Abs(w.cpu-c.base.load()) < 0.3 {
		return false
	}
	c.base, c.rest, c.stride = tally{}, [Probe + 1]rest{}, len(strides)-1
	return true
}
