package workers

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// AutoOptions bound a limit that finds itself. The zero value works.
//
// Several times a second, while there are tasks, the pool looks at its
// throughput, at the processor time of the process, and at how many goroutines
// wait for a processor. It grows while tasks queue, processors are idle and more
// workers get more done; it shrinks while goroutines queue for processors; and it
// tries now and then whether fewer do as well. It holds while the load is modest.
// What it did and why is in Decisions.
type AutoOptions struct {
	// Min is the lowest limit. Zero: 1.
	Min int
	// Max is the highest limit. Zero: 1024 for each processor.
	Max int
	// Start is the first limit. Zero: two for each processor.
	Start int
}

// Decision is one change of an Auto pool's limit, and the window that made it.
type Decision struct {
	At       time.Time
	From, To int
	Reason   Reason
	// What was seen: tasks a second, mean numbers of tasks running and waiting,
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
	limit, busy, waiting int
	done                 int64
}

// pilot looks at a crew and steers its limit.
type pilot struct {
	climb   climb
	machine func() (cpu time.Duration, known bool, runnable int)
	timer   *time.Timer
	fresh   bool // the next look begins a window; the crew's lock

	// Of the timer's function alone:
	began   time.Time
	done    int64
	cpu     time.Duration
	looks   int
	sum     struct{ busy, waiting, runnable int }
	samples [1]metrics.Sample

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
		min: o.Min, max: o.Max, limit: min(max(o.Min, o.Start), o.Max), stride: len(strides) - 1,
	}}
	p.samples[0].Name = "/sched/goroutines/runnable:goroutines"
	p.machine = p.look
	return p
}

// look reads what the machine says.
func (p *pilot) look() (cpu time.Duration, known bool, runnable int) {
	cpu, known = processTime()
	metrics.Read(p.samples[:])
	if v := p.samples[0].Value; v.Kind() == metrics.KindUint64 {
		runnable = int(v.Uint64())
	}
	return cpu, known, runnable
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

// observe is one look at the crew.
func (c *crew[T]) observe() {
	p := c.pilot
	c.mu.Lock()
	now := census{
		limit: c.limit, busy: c.busy(),
		waiting: max(0, c.queued-c.coming) + c.waiting.len, done: c.started - int64(c.busy()),
	}
	fresh := p.fresh
	p.fresh = false
	c.mu.Unlock()
	limit := p.see(now, fresh)
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
func (p *pilot) see(now census, fresh bool) (limit int) {
	cpu, known, runnable := p.machine()
	if fresh {
		p.open(now, cpu)
		return now.limit
	}
	p.looks++
	p.sum.busy += now.busy
	p.sum.waiting += now.waiting
	p.sum.runnable += runnable
	took, done := time.Since(p.began), now.done-p.done
	if took < shortest || done < fewest && took < longest {
		return now.limit
	}
	looks, procs := float64(p.looks), runtime.GOMAXPROCS(0)
	w := window{
		took: took, done: int(done), procs: procs, cpu: -1,
		busy:     float64(p.sum.busy) / looks,
		waiting:  float64(p.sum.waiting) / looks,
		runnable: float64(p.sum.runnable) / looks,
	}
	if known {
		w.cpu = float64(cpu-p.cpu) / float64(took) / float64(procs)
	}
	p.climb.moved(now.limit) // by Resize
	limit, why := p.climb.next(w)
	if limit != now.limit {
		p.note(Decision{time.Now(), now.limit, limit, why, w.throughput(), w.busy, w.waiting, w.cpu, w.runnable})
	}
	p.open(now, cpu)
	return limit
}

// open begins a window.
func (p *pilot) open(now census, cpu time.Duration) {
	p.began, p.done, p.cpu, p.looks = time.Now(), now.done, cpu, 0
	p.sum.busy, p.sum.waiting, p.sum.runnable = 0, 0, 0
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
