package workers

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// crew is the goroutines and the queue of a pool, for tasks of type T.
//
// Everything but the hand of a worker is under one lock, and every decision that
// depends on a count is made under the lock that made the count: ants #374 and
// gopool #231 exceeded their cap between the two, pond #115 lost a wake-up there.
//
// A worker is working, coming or idle. Coming is one that has been woken or
// started, or is about to look at the queue once more before it rests. While tasks
// are queued and a worker is idle or could be started, one is coming, so no task
// waits for nothing.
type crew[T any] struct {
	// What every task changes is one cache line, which goes from one processor to
	// the other.
	mu      sync.Mutex
	queued  int   // in all queues
	started int64 // tasks, with those in hand
	queues  [mostLevels]ring[entry[T]]

	held    int        // tasks in hand at most, which queued does not count
	hand    *hand[T]   // that has tasks, if held is not zero
	visitor *worker[T] // the last that took a task from the queue
	coming  int
	workers int // working, coming and idle
	limit   int
	idle    []*worker[T] // longest idle first
	count   counters

	// Never changed:
	do         func(s *shift, job T)
	fail       func(job T, err error) // a job that was accepted will not be done, or was not done to its end
	panicked   func(value any, stack []byte)
	pilot      *pilot // nil: the limit is fixed
	queueLimit int
	levels     int
	tick       time.Duration // a quarter of the time that a worker may be idle; zero: for ever
	overflow   Overflow

	ended    bool
	observed bool // the pilot looks at this busy period
	ticking  bool // somebody is idle, and timer counts ticks
	ticks    int
	timer    *time.Timer
	turns    turns
	waiting  line[T] // callers that wait for room

	watches    map[<-chan struct{}]*watch[T]
	lastWatch  *watch[T]
	sweepWatch int // drop those that watch nothing when there are so many

	running int           // goroutines of ours, and timers and contexts that may call us
	gone    chan struct{} // closed when ended and nothing runs

	inlined atomic.Int64
	spare   sync.Pool // of *waiter[T]
}

// entry is a queued task.
type entry[T any] struct {
	job   T
	watch *watch[T] // of its context, or nil
}

// worker is one goroutine. Working, job and shift are its own, the rest the lock's.
type worker[T any] struct {
	crew    *crew[T]
	wake    chan struct{} // one place
	coming  bool
	sent    bool // home: it was idle, and counts no more
	idleAt  int  // tick at which it went idle
	working bool // a job is being done
	job     T
	shift   shift
	hand    hand[T]
}

func newCrew[T any](o Options, do func(*shift, T), fail func(T, error)) *crew[T] {
	o = o.resolved()
	c := &crew[T]{
		do: do, fail: fail,
		queueLimit: o.Queue, overflow: o.Overflow, panicked: o.Panic, levels: o.Priorities,
		limit: o.Limit.fixed, tick: max(0, o.IdleTimeout) / 4,
		watches: map[<-chan struct{}]*watch[T]{}, sweepWatch: fewWatches,
		gone: make(chan struct{}),
	}
	if o.IdleTimeout > 0 {
		c.tick = max(c.tick, time.Millisecond)
	}
	if o.Limit.auto != nil {
		c.pilot = newPilot(*o.Limit.auto)
		c.limit = c.pilot.climb.limit
	}
	return c
}

// submit hands a job over.
func (c *crew[T]) submit(ctx context.Context, job T) error {
	done := ctx.Done()
	if done != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	level := 0
	if c.levels > 1 {
		level = c.level(ctx)
	}
	inside := c.isInside(ctx)
	c.mu.Lock()
	if c.ended || !c.room() || inside && !c.served() {
		return c.crowded(ctx, done, level, inside, job) // unlocks
	}
	return c.enqueue(ctx, done, level, job) // unlocks
}

// enqueue queues a job for which there is room; mu is held, and released.
func (c *crew[T]) enqueue(ctx context.Context, done <-chan struct{}, level int, job T) error {
	w := c.watch(ctx, done)
	c.push(level, entry[T]{job, w})
	c.staff()
	c.mu.Unlock()
	w.begin(ctx)
	return nil
}

// try is submit that never waits, drops or runs anything.
func (c *crew[T]) try(job T) bool {
	c.mu.Lock()
	if c.ended || !c.room() {
		c.mu.Unlock()
		return false
	}
	c.push(0, entry[T]{job: job})
	c.staff()
	c.mu.Unlock()
	return true
}

func (c *crew[T]) level(ctx context.Context) int {
	level, _ := ctx.Value(levelKey{}).(int)
	return min(level, c.levels-1)
}

// free is for how many tasks there is a worker, or could be; mu is held.
func (c *crew[T]) free() int {
	return c.coming + len(c.idle) + max(0, c.limit-c.workers)
}

// room reports whether one more task may be queued; mu is held.
func (c *crew[T]) room() bool {
	if c.queued+c.held < c.queueLimit {
		return true
	}
	c.recall()
	return c.queued < c.queueLimit+c.free()
}

// served reports whether a worker is or could be free for one more task; mu is held.
func (c *crew[T]) served() bool {
	c.recall()
	return c.queued < c.free()
}

// push queues a task; mu is held, and staff has to follow.
func (c *crew[T]) push(level int, e entry[T]) {
	c.queues[level].push(e)
	c.queued++
	if c.pilot != nil && !c.observed {
		c.observed = true
		c.running++
		c.pilot.begin(c.observe)
	}
}

// staff has a worker come if tasks are queued and none is coming; mu is held. One
// at a time is enough: it calls staff when it has taken its task. Tasks so short
// that one worker keeps up wake no others.
func (c *crew[T]) staff() {
	if c.queued == 0 && c.free() > 0 {
		c.recall()
	}
	if c.queued > 0 && c.coming == 0 {
		c.summon()
	}
}

// summon makes one more worker come, if there can be one; mu is held.
func (c *crew[T]) summon() {
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1] // last in, first out: its stack is warm, others may expire
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		w.coming = true
		c.coming++
		w.wake <- struct{}{} // does not block: its place is empty while it is idle
	} else if c.workers < c.limit {
		w := &worker[T]{crew: c, wake: make(chan struct{}, 1), coming: true}
		w.shift.crew = c
		c.workers++
		c.coming++
		c.running++
		go w.work()
	}
}

// pop takes the next task; mu is held.
func (c *crew[T]) pop() entry[T] {
	level := 0
	if c.levels > 1 {
		level = c.turns.next(c.levels, func(l int) int { return c.queues[l].len })
	}
	e := c.queues[level].pop()
	c.queued--
	if e.watch != nil {
		e.watch.tasks--
	}
	return e
}

// busy is how many workers do a task; mu is held.
func (c *crew[T]) busy() int { return c.workers - c.coming - len(c.idle) }

// next is the worker's next task; none means that its goroutine shall end.
func (w *worker[T]) next() bool {
	c := w.crew
	if job, ok := w.hand.next(); ok {
		w.working, w.job = true, job
		return true
	}
	c.mu.Lock()
	w.working = false
	looked := false
	for !w.sent {
		c.recall()
		if w.coming {
			w.coming = false
			c.coming--
		}
		if c.queued == 0 && c.waiting.len > 0 && c.workers <= c.limit {
			c.coming++ // without a queue, this worker is the room
			c.admit()
			c.coming--
		}
		switch {
		case c.workers > c.limit:
			c.leave()
			return false
		case c.queued > 0:
			if w.take() {
				return true
			}
		case c.ended:
			c.leave()
			return false
		case !looked:
			// A task that comes in a moment is found without a sleep and a wake-up.
			looked, w.coming = true, true
			c.coming++
			c.mu.Unlock()
			runtime.Gosched()
			c.mu.Lock()
		default:
			looked = false
			c.rest(w)
			c.mu.Unlock()
			<-w.wake
			c.mu.Lock()
		}
	}
	c.exit()
	return false
}

// take takes a task from the queue, and reports whether it is to be done. mu is
// held, and released if so.
func (w *worker[T]) take() bool {
	c := w.crew
	e := c.pop()
	c.fill(w)
	if c.waiting.len > 0 {
		c.admit()
	} else {
		c.staff()
	}
	if e.watch != nil {
		select {
		case <-e.watch.done: // ended, and its own goroutine has not come by yet
			c.count.cancelled++
			c.count.removed++
			c.mu.Unlock()
			c.fail(e.job, context.Cause(e.watch.ctx))
			c.mu.Lock()
			return false
		default:
		}
	}
	w.working, w.job = true, e.job
	c.started++
	c.mu.Unlock()
	return true
}

// rest puts w among the idle; mu is held.
func (c *crew[T]) rest(w *worker[T]) {
	w.idleAt = c.ticks
	w.shift.forget()
	c.idle = append(c.idle, w)
	if !c.ticking && c.tick > 0 {
		c.ticking = true
		c.running++
		if c.timer == nil {
			c.timer = time.AfterFunc(c.tick, c.sweep)
		} else {
			c.timer.Reset(c.tick)
		}
	}
}

// sweep sends home who has been idle for too long.
func (c *crew[T]) sweep() {
	c.mu.Lock()
	c.ticks++
	n := 0
	for n < len(c.idle) && c.ticks-c.idle[n].idleAt > 4 {
		n++
	}
	c.dismiss(n)
	c.ticking = len(c.idle) > 0 && !c.ended
	if c.ticking {
		c.timer.Reset(c.tick)
		c.mu.Unlock()
		return
	}
	c.exit() // unlocks
}

// dismiss sends the n longest idle home; mu is held. They count no more from now.
func (c *crew[T]) dismiss(n int) {
	for _, w := range c.idle[:n] {
		w.sent = true
		w.wake <- struct{}{}
	}
	rest := copy(c.idle, c.idle[n:])
	clear(c.idle[rest:])
	c.idle = c.idle[:rest]
	c.workers -= n
}

// leave ends a worker; mu is held, and released.
func (c *crew[T]) leave() {
	c.workers--
	c.visitor = nil // what it remembers can go
	c.exit()
}

// exit says that one thing of ours runs no more; mu is held, and released.
func (c *crew[T]) exit() {
	c.running--
	c.settleEnd()
	c.mu.Unlock()
}

func (c *crew[T]) resize(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLimit(max(1, n))
}

// setLimit changes the limit; mu is held. No task begins while as many run as are
// allowed now.
func (c *crew[T]) setLimit(n int) {
	c.recall()
	c.limit = n
	if over := c.workers - n; over > 0 {
		c.dismiss(min(over, len(c.idle)))
	}
	c.admit()
}
