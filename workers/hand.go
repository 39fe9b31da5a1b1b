package workers

import "sync/atomic"

const (
	handful = 8           // maximum number of tasks in a hand
	deep    = 2 * handful // queue length from which a worker takes more than one
)

// hand is a batch of tasks that a worker has taken from a long queue at once, so that the
// lock and the queue do not move between processors for each task.
//
// Only one hand of a pool has tasks, and they are the oldest. Every access to the queue
// first puts them back (recall), so no task starts before an older one, and none waits
// behind a long task while a worker is free. Tasks with a cancellable context stay in the
// queue.
type hand[T any] struct {
	span  atomic.Uint64 // next<<32 | end, of tasks; the worker and recall compete for it with CAS
	tasks [handful]T
}

// next takes a task without the lock.
func (h *hand[T]) next() (job T, ok bool) {
	s := h.span.Load()
	at := s >> 32
	if at == s&(1<<32-1) || !h.span.CompareAndSwap(s, s+1<<32) { // otherwise recalled concurrently
		return job, false
	}
	job = h.tasks[at]
	var none T
	h.tasks[at] = none
	return job, true
}

// fill takes more tasks into the worker's hand if the queue is long and no other worker
// has accessed it since; mu is held.
func (c *crew[T]) fill(w *worker[T]) {
	alone := c.visitor == w
	c.visitor = w
	// A hand that is filled while callers wait is recalled when they are admitted.
	if !alone || c.queued < deep || c.levels > 1 || c.waiting.len > 0 || c.workers > c.limit {
		return
	}
	q, n := &c.queues[0], 0
	for n < min(handful, c.queued/handful) && q.first().watch == nil {
		w.hand.tasks[n] = q.pop().job
		n++
	}
	if n > 0 {
		c.queued -= n
		c.started += int64(n)
		c.hand, c.held = &w.hand, n
		w.hand.span.Store(uint64(n))
	}
}

// recall puts the rest of a hand back to the front of the queue; mu is held.
func (c *crew[T]) recall() {
	if c.held == 0 {
		return
	}
	s := c.hand.span.Swap(0)
	for at, end := s>>32, s&(1<<32-1); end > at; end-- {
		c.queues[0].pushFront(entry[T]{job: c.hand.tasks[end-1]})
		var none T
		c.hand.tasks[end-1] = none
		c.queued++
		c.started--
	}
	c.hand, c.held = nil, 0
}
