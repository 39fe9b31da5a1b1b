package workers

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// AutoOptions bound a limit that finds itself. The zero value works.
//
// The pool looks at itself about 45 times a second while it has tasks. When
// tasks wait and only the limit keeps them waiting, it tries a higher limit, and
// from time to time a lower one: it alternates between the two and keeps the
// higher one if its throughput is worth the additional workers. A limit that
// tasks do not reach is not judged and does not grow; after half a minute it
// sinks to the number of workers in use.
type AutoOptions struct {
	// Min is the lowest limit. Zero: 1.
	Min int
	// Max is the highest limit. Zero: 1024 for each processor.
	Max int
	// Start is the first limit. Zero: two for each processor.
	Start int
}

// Decision is one step of an Auto pool's limit: a trial of another limit, or the
// way back from one. It carries what was measured just before. That the limit
// alternates during a trial is not logged.
type Decision struct {
	At       time.Time
	From, To int
	Reason   Reason
	// Measured: tasks a second, mean numbers of tasks running and waiting,
	// the used part of the processors (negative: not known), and goroutines that
	// waited for a processor.
	Throughput, Running, Waiting, CPU, Runnable float64
}

const (
	look          = 20 * time.Millisecond // between two looks at the pool
	shortest      = 100 * time.Millisecond
	longest       = time.Second
	fewest        = 50  // tasks that make a window before it is longest
	keptDecisions = 128 // in the log
)

// census is what the crew counts at one moment.
type census struct {
	limit, busy, waiting, inUse int
	bound                       bool // tasks wait, and only for the limit
	done                        int64
}

// machine is the state of the machine at one moment.
type machine struct {
	cpu      time.Duration // used by the process; negative: not known
	procs    int
	runnable int // goroutines that wait for a processor
}

// pilot looks at a crew and steers its limit.
type pilot struct {
	climb   climb
	machine func() machine
	timer   *time.Timer
	fresh   bool // the next look begins a window; the crew's lock

	// Of the timer's function alone:
	began        time.Time
	done         int64
	cpu          time.Duration
	looks        int // negative: the next window begins when the change of the limit shows
	inUse, crowd int
	sum          struct{ busy, waiting, runnable, bound int }
	samples      [1]metrics.Sample

	mu  sync.Mutex
	log []Decision // a circle once it is full
	at  int
}

func newPilot(o AutoOptions) *pilot {
	procs := runtime.GOMAXPROCS(0)
	o.Min = max(1, o.Min)
	if o.Max <= 0 {
		o.Max = 1024 * procs
	}
	o.Max = max(o.Min, o.Max)
	if o.Start <= 0 {
		o.Start = 2 * procs
	}
	p := &pilot{climb: climb{
		min: o.Min, max: o.Max, limit: min(max(o.Min, o.Start), o.Max), stride: widest,
	}}
	p.samples[0].Name = "/sched/goroutines/runnable:goroutines"
	p.machine = p.look
	return p
}

// look reads the state of the machine.
func (p *pilot) look() machine {
	m := machine{cpu: -1, procs: runtime.GOMAXPROCS(0)}
	if cpu, known := processTime(); known {
		m.cpu = cpu
	}
	metrics.Read(p.samples[:])
	if v := p.samples[0].Value; v.Kind() == metrics.KindUint64 {
		m.runnable = int(v.Uint64())
	}
	return m
}

// begin has the crew looked at until it is quiet; the crew's lock is held.
func (p *pilot) begin(observe func()) {
	p.fresh = true
	if p.timer == nil {
		p.timer = time.AfterFunc(look, observe)
	} else {
		p.timer.Reset(look)
	}
}

// end reports whether nobody will look any more; the crew's lock is held.
func (p *pilot) end() bool { return p.timer.Stop() }

// census counts; mu is held.
func (c *crew[T]) census() census {
	c.recall()
	busy := c.busy()
	waiting := max(0, c.queued-c.coming) + c.waiting.len
	return census{
		limit: c.limit, busy: busy, waiting: waiting, inUse: c.workers - len(c.idle),
		bound: waiting > 0 && c.free() == 0, done: c.started - int64(busy),
	}
}

// observe is one look at the crew.
func (c *crew[T]) observe() {
	p := c.pilot
	runtime.Gosched() // goroutines that the same tick woke run first: they are no sign of busy processors
	c.mu.Lock()
	now := c.census()
	fresh := p.fresh
	p.fresh = false
	c.mu.Unlock()
	limit := p.see(time.Now(), now, fresh)
	c.mu.Lock()
	if limit != now.limit && c.limit == now.limit { // else Resize was called just now
		c.setLimit(limit)
	}
	if c.ended || now.busy+now.waiting == 0 && c.started == now.done && c.queued == 0 {
		c.observed = false
		c.exit() // unlocks
		return
	}
	p.timer.Reset(look + rand.N(look/4)) // out of step with tasks that use timers
	c.mu.Unlock()
}

// see adds one look to the window, and is the limit from now on.
func (p *pilot) see(at time.Time, now census, fresh bool) (limit int) {
	m := p.machine()
	if p.climb.moved(now.limit) || fresh || p.looks < 0 {
		if fresh || !at.Before(p.began) {
			p.open(at, now, m.cpu)
		}
		return now.limit
	}
	p.looks++
	p.inUse, p.crowd = max(p.inUse, now.inUse), min(p.crowd, m.runnable)
	p.sum.busy += now.busy
	p.sum.waiting += now.waiting
	p.sum.runnable += m.runnable
	if now.bound {
		p.sum.bound++
	}
	took, done := at.Sub(p.began), now.done-p.done
	if took < shortest || done < fewest && took < longest {
		return now.limit
	}
	looks := float64(p.looks)
	w := window{
		took: took, done: int(done), procs: m.procs, cpu: -1, inUse: p.inUse, crowd: p.crowd,
		bound:    float64(p.sum.bound) >= 0.9*looks,
		busy:     float64(p.sum.busy) / looks,
		waiting:  float64(p.sum.waiting) / looks,
		runnable: float64(p.sum.runnable) / looks,
	}
	if m.cpu >= 0 {
		w.cpu = float64(m.cpu-p.cpu) / float64(took) / float64(m.procs)
	}
	if d := p.climb.next(w); d.why != Hold {
		p.note(Decision{at, d.from, d.to, d.why, w.throughput(), w.busy, w.waiting, w.cpu, w.runnable})
	}
	p.open(at, now, m.cpu)
	if p.climb.limit != now.limit {
		p.looks, p.began = -1, at.Add(w.settle())
	}
	return p.climb.limit
}

// open begins a window.
func (p *pilot) open(at time.Time, now census, cpu time.Duration) {
	p.began, p.done, p.cpu, p.looks, p.inUse, p.crowd = at, now.done, cpu, 0, 0, math.MaxInt
	p.sum.busy, p.sum.waiting, p.sum.runnable, p.sum.bound = 0, 0, 0, 0
}

func (p *pilot) note(d Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.log) < keptDecisions {
		p.log = append(p.log, d)
		return
	}
	p.log[p.at] = d
	p.at = (p.at + 1) % keptDecisions
}

func (p *pilot) decisions() []Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(append([]Decision(nil), p.log[p.at:]...), p.log[:p.at]...)
}
