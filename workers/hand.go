package workers

import "sync/atomic"

const (
	handful = 8           // most tasks in a hand
	deep    = 2 * handful // queued tasks that let a worker take more than one
)

// hand is tasks that a worker has taken from a deep queue in one visit, so that
// the lock and the queue need not travel between processors for each of them.
//
// Only one hand of a pool has tasks, and they are the oldest. Whoever visits the
// queue has them back first (recall), so no task begins before an older one, and
// none waits behind a long task while a worker is free. Tasks whose context can
// end stay in the queue.
type hand[T any] struct {
	span  atomic.Uint64 // next<<32 | end, of tasks; the worker and recall compete for it
	tasks [handful]T
}

// next takes a task without the lock.
func (h *hand[T]) next() (job T, ok bool) {
	s := h.span.Load()
	at := s >> 32
	if at == s&(1<<32-1) || !h.span.CompareAndSwap(s, s+1<<32) { // else recalled just now
		return job, false
	}
	job = h.tasks[at]
	var none T
	h.tasks[at] = none
	return job, true
}

// fill takes more tasks into the worker's hand if the queue is deep and no other
// worker has come to it since; mu is held.
func (c *crew[T]) fill(w *worker[T]) {
	alone := c.visitor == w
	c.visitor = w
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

// recall puts what is left in a hand back to the front of the queue; mu is held.
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
