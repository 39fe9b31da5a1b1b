package workers

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// crew is the goroutines and the queue of a pool, for tasks of type T.
//
// Everything but a worker's hand is under one lock, and every decision that depends on a
// count is made under the lock under which it was counted: ants #374 and gopool #231
// exceeded their limit between the two, pond #115 lost a wake-up there.
//
// A worker is working, coming or idle. A coming worker has been woken or started, or is
// about to check the queue once more before it idles. While tasks are queued and a worker
// is idle or could be started, one is coming, so no task is stranded.
type crew[T any] struct {
	// What every task changes shares one cache line, which moves between processors.
	mu      sync.Mutex
	queued  int   // in all queues
	started int64 // tasks, including those in hand
	queues  [mostLevels]ring[entry[T]]

	held    int        // upper bound of tasks in hand, which queued excludes
	hand    *hand[T]   // the hand with tasks, if held is not zero
	visitor *worker[T] // the last worker that took a task from the queue
	coming  int
	workers int // working, coming and idle
	limit   int
	idle    []*worker[T] // longest idle first
	count   counters

	// Immutable:
	do         func(s *shift, job T)
	fail       func(job T, err error) // an accepted job will not run, or did not complete
	panicked   func(value any, stack []byte)
	pilot      *pilot // nil: fixed limit
	queueLimit int
	levels     int
	tick       time.Duration // a quarter of the idle timeout; zero: none
	overflow   Overflow

	ended    bool
	observed bool // the pilot samples this busy period
	ticking  bool // workers are idle, and timer counts ticks
	ticks    int
	timer    *time.Timer
	turns    turns
	waiting  line[T] // callers that wait for room

	watches    map[<-chan struct{}]*watch[T]
	lastWatch  *watch[T]
	sweepWatch int // number of watches at which to drop unused ones

	running int           // goroutines of the pool, and timers and contexts that may call it
	gone    chan struct{} // closed when ended and nothing runs

	spare sync.Pool // free list of *waiter[T]
}

// entry is a queued task.
type entry[T any] struct {
	job   T
	watch *watch[T] // of its context, or nil
}

// worker is one goroutine. It owns turn, working, job and shift; the lock guards the rest.
type worker[T any] struct {
	crew    *crew[T]
	wake    chan struct{} // capacity 1
	coming  bool
	sent    bool // dismissed: it was idle, and no longer counts
	idleAt  int  // tick at which it became idle
	working bool // it runs a job
	turn    uint // how often it has asked for a task
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

// submit accepts a job.
func (c *crew[T]) submit(ctx context.Context, job T) error {
	done := ctx.Done()
	level := 0
	if c.levels > 1 {
		level = c.level(ctx)
	}
	inside := c.isInside(ctx)
	c.mu.Lock()
	if done != nil && hasEnded(done) { // under the lock, so that it has not ended before the job is queued
		c.mu.Unlock()
		return context.Cause(ctx)
	}
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

// free returns for how many tasks there is, or could be, a worker; mu is held.
func (c *crew[T]) free() int {
	return c.coming + len(c.idle) + max(0, c.limit-c.workers)
}

// room reports whether one more task may be queued; mu is held.
func (c *crew[T]) room() bool {
	if c.queued+c.held < c.queueLimit {
		return true
	}
	c.recall()
	return c.queued-c.free() < c.queueLimit // their sum may overflow
}

// served reports whether a worker is or could be free for one more task; mu is held.
func (c *crew[T]) served() bool {
	c.recall()
	return c.queued < c.free()
}

// push queues a task; mu is held, and the caller calls staff next.
func (c *crew[T]) push(level int, e entry[T]) {
	c.queues[level].push(e)
	c.queued++
	if c.pilot != nil && !c.observed {
		c.observed, c.pilot.fresh = true, true
		c.sampleIn(look)
	}
}

// staff wakes or starts a worker if tasks are queued and none is coming; mu is held. One
// at a time is enough: it calls staff after taking its task. So tasks short enough for
// one worker wake no others.
func (c *crew[T]) staff() {
	if c.queued == 0 && c.free() > 0 {
		c.recall()
	}
	if c.queued > 0 && c.coming == 0 {
		c.summon()
	}
}

// summon wakes or starts one more worker, if the limit allows; mu is held.
func (c *crew[T]) summon() {
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1] // LIFO: its stack is warm, and the others may time out
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		w.coming = true
		c.coming++
		w.wake <- struct{}{} // never blocks: the channel of an idle worker is empty
	} else if c.workers < c.limit {
		w := &worker[T]{crew: c, wake: make(chan struct{}, 1), coming: true}
		w.shift.crew = c
		c.workers++
		c.coming++
		c.running++
		go w.work()
	}
}

// pop removes the next task; mu is held.
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

// busy returns how many workers run a task; mu is held.
func (c *crew[T]) busy() int { return c.workers - c.coming - len(c.idle) }

// next fetches the worker's next task, and reports false when its goroutine should end.
func (w *worker[T]) next() bool {
	c := w.crew
	if job, ok := w.hand.next(); ok {
		w.working, w.job = true, job
		return true
	}
	var at time.Time
	var m machine
	if w.turn++; c.pilot != nil && w.turn%4 == 0 { // the clock is slow to read on some machines
		at, m = c.pilot.claim(look) // while hundreds of tasks compute, the timer's function waits seconds for a processor
	}
	c.mu.Lock()
	w.working = false
	if !at.IsZero() {
		c.sample(at, m)
	}
	looked := false
	for !w.sent {
		c.recall()
		if w.coming {
			w.coming = false
			c.coming--
		}
		if c.queued == 0 && c.waiting.len > 0 && c.workers <= c.limit {
			c.coming++ // without a queue, a coming worker is the room
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
			// Check once more, because a task that arrives soon then needs no sleep and
			// wake-up.
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

// take takes a task from the queue, and reports whether to run it. mu is held, and
// released if so.
func (w *worker[T]) take() bool {
	c := w.crew
	e := c.pop()
	c.fill(w)
	if c.waiting.len > 0 {
		c.admit()
	} else {
		c.staff()
	}
	if e.watch.hasEnded() {
		c.count.cancelled++
		c.mu.Unlock()
		c.fail(e.job, context.Cause(e.watch.ctx))
		c.mu.Lock()
		return false
	}
	w.working, w.job = true, e.job
	c.started++
	c.mu.Unlock()
	return true
}

// rest makes w idle; mu is held.
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

// sweep dismisses workers past the idle timeout.
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

// dismiss ends the n longest idle workers; mu is held. They no longer count from now on.
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
	c.visitor = nil // allow what it references to be freed
	c.exit()
}

// exit records that one goroutine or callback of the pool has ended; mu is held, and
// released.
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

// setLimit changes the limit; mu is held. No task starts while as many run as the limit
// allows.
func (c *crew[T]) setLimit(n int) {
	c.recall()
	c.limit = n
	if over := c.workers - n; over > 0 {
		c.dismiss(min(over, len(c.idle)))
	}
	c.admit()
}
