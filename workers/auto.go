package workers

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// AutoOptions bound an adaptive limit. The zero value works.
//
// The pool samples itself about 45 times a second while it has tasks. When tasks wait
// only because of the limit, it tries a higher limit, and from time to time a lower one:
// it alternates between the two and keeps the higher one if the gain in throughput is
// worth the additional workers. A limit that is not reached is not evaluated and does not
// grow; after half a minute it falls to the number of workers in use.
type AutoOptions struct {
	// Min is the lowest limit. Zero: 1.
	Min int
	// Max is the highest limit. Zero: 1024 per processor. Negative: no limit.
	Max int
	// Start is the initial limit. Zero: two per processor.
	Start int
}

// Decision is one step of an Auto pool's limit: a trial of another limit, or the return
// from one, with the measurements just before it. The alternation of the limit during a
// trial is not recorded.
type Decision struct {
	At       time.Time
	From, To int
	Reason   Reason
	// Measurements: tasks per second, mean numbers of running and of waiting tasks, CPU
	// utilisation (0 to 1; negative: unknown), and runnable goroutines (scheduler
	// backlog).
	Throughput, Running, Waiting, CPU, Runnable float64
}

const (
	look          = 20 * time.Millisecond // sampling interval
	again         = 2 * time.Millisecond  // until a sample is repeated
	shortest      = 100 * time.Millisecond
	longest       = time.Second
	fewest        = 50  // tasks that complete a window before its maximum length
	keptDecisions = 128 // length of the log
)

// census is a sample of the crew's counters.
type census struct {
	limit, busy, waiting, inUse int
	bound                       bool // tasks wait, and only because of the limit
	done                        int64
}

// machine is a sample of the machine's state.
type machine struct {
	cpu      time.Duration // CPU time of the process; negative: unknown
	procs    int
	runnable int // goroutines that wait for a processor
}

// pilot samples a crew and sets its limit.
type pilot struct {
	climb   climb
	machine func() machine
	epoch   time.Time
	due     atomic.Int64 // when the next sample is due, in nanoseconds since epoch

	// Guarded by the crew's lock:
	timer        *time.Timer
	last         time.Time // when the last sample was taken
	fresh        bool      // the next sample starts a window
	began        time.Time
	done         int64
	cpu          time.Duration
	looks        int // negative: the next window starts when the change of the limit has taken effect
	inUse, crowd int
	doubt        bool // the next sample confirms or corrects the last one
	sum          struct{ busy, waiting, runnable, bound int }

	mu  sync.Mutex
	log []Decision // ring buffer once it is full
	at  int
}

func newPilot(o AutoOptions) *pilot {
	procs := runtime.GOMAXPROCS(0)
	o.Min = max(1, o.Min)
	if o.Max == 0 {
		o.Max = 1024 * procs
	} else if o.Max < 0 {
		o.Max = math.MaxInt
	}
	o.Max = max(o.Min, o.Max)
	if o.Start <= 0 {
		o.Start = 2 * procs
	}
	p := &pilot{epoch: time.Now(), climb: climb{
		min: o.Min, max: o.Max, limit: min(max(o.Min, o.Start), o.Max), stride: widest,
	}}
	p.machine = p.look
	return p
}

// look samples the state of the machine.
func (p *pilot) look() machine {
	m := machine{cpu: -1, procs: runtime.GOMAXPROCS(0)}
	if cpu, known := processTime(); known {
		m.cpu = cpu
	}
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(samples)
	if v := samples[0].Value; v.Kind() == metrics.KindUint64 {
		m.runnable = int(v.Uint64())
	}
	return m
}

// claim returns the time and the state of the machine, if a sample has been due for at least late
// and nobody else takes it. A claim lapses, because its goroutine may have to wait for a processor.
func (p *pilot) claim(late time.Duration) (at time.Time, m machine) {
	due, now := p.due.Load(), int64(time.Since(p.epoch))
	if now-int64(late) < due || !p.due.CompareAndSwap(due, now+int64(look)) {
		return at, m
	}
	return time.Now(), p.machine()
}

// census samples the counters; mu is held.
func (c *crew[T]) census() census {
	c.recall()
	busy := c.busy()
	waiting := max(0, c.queued-c.coming) + c.waiting.len
	return census{
		limit: c.limit, busy: busy, waiting: waiting, inUse: c.workers - len(c.idle),
		bound: waiting > 0 && c.free() == 0, done: c.started - int64(busy),
	}
}

// observe is the timer's function.
func (c *crew[T]) observe() {
	at, m := c.pilot.claim(0)
	c.mu.Lock()
	c.sample(at, m)
	c.exit() // unlocks
}

// sample takes one sample, of a claim; mu is held. If many goroutines wait for processors, the same
// tick may have woken them, and it samples again when they have had time to run. It does not yield
// instead: the queue behind which Gosched waits is hardly served while hundreds of tasks compute.
func (c *crew[T]) sample(at time.Time, m machine) {
	p := c.pilot
	if !c.observed || at.Before(p.last) {
		return // not claimed, or too late
	}
	if time.Since(at) > look { // it has waited for the lock
		c.sampleIn(again)
		return
	}
	p.last = at
	now, wait := c.census(), again
	if p.doubt = !p.doubt && now.inUse > m.procs && 4*m.runnable > now.inUse; !p.doubt {
		if limit := p.see(at, now, m, p.fresh); limit != c.limit {
			c.setLimit(limit)
		}
		p.fresh = false
		wait = look + rand.N(look/4) // jitter: avoids lockstep with tasks that use timers
	}
	if c.ended || now.busy+now.waiting == 0 && c.started == now.done && c.queued == 0 {
		c.stopSampling()
		return
	}
	c.sampleIn(wait)
}

// sampleIn sets the timer; mu is held.
func (c *crew[T]) sampleIn(wait time.Duration) {
	p := c.pilot
	p.due.Store(int64(time.Since(p.epoch) + wait))
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, c.observe)
	} else if p.timer.Reset(wait) {
		return // is counted
	}
	c.running++
}

// stopSampling ends sampling until there are tasks; mu is held.
func (c *crew[T]) stopSampling() {
	c.observed = false
	c.pilot.due.Store(math.MaxInt64)
	if c.pilot.timer.Stop() {
		c.running--
	}
}

// see adds one sample to the window, and returns the new limit.
func (p *pilot) see(at time.Time, now census, m machine, fresh bool) (limit int) {
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

// open starts a window.
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
