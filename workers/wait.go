package workers

import (
	"context"
	"errors"

	"github.com/hone-go/hone/internal/fifo"
)

// waiter is a caller that waits for room.
type waiter[T any] struct {
	entry entry[T]
	level int
	told  chan error // capacity 1; nil: the job has been queued; errEnded: its context has ended
	place fifo.Member[*waiter[T]]
}

// errEnded stands for the cause of a context, which may be foreign code and is asked
// without the lock.
var errEnded = errors.New("workers: context ended")

// line holds the callers that wait for room, in a queue for each level.
type line[T any] struct {
	len    int
	turns  turns
	queues [mostLevels]fifo.Queue[*waiter[T]]
}

func (l *line[T]) push(w *waiter[T]) {
	l.queues[w.level].Push(&w.place)
	l.len++
}

// remove reports whether the caller was still in the line.
func (l *line[T]) remove(w *waiter[T]) bool {
	if !w.place.Leave() {
		return false
	}
	l.len--
	return true
}

// pop removes the caller whose turn it is.
func (l *line[T]) pop() *waiter[T] {
	w := l.queues[l.turns.next(mostLevels, func(i int) int { return l.queues[i].Len() })].First()
	l.remove(w)
	return w
}

// admit queues the jobs of waiting callers while there is room; mu is held. It is the only
// way from the line to the queue, and refuses callers whose context has ended: nobody
// would remove their jobs from the queue if the context's watch has done so already.
func (c *crew[T]) admit() {
	for c.waiting.len > 0 && c.room() {
		w := c.waiting.pop()
		if w.entry.watch.hasEnded() {
			c.forgo(w)
			w.told <- errEnded
			continue
		}
		c.push(w.level, w.entry)
		w.told <- nil
	}
	c.staff()
}

// crowded is submit without room, or without a free worker for a nested task. mu is held,
// and released.
func (c *crew[T]) crowded(ctx context.Context, done <-chan struct{}, level int, inside bool, job T) error {
	if c.ended {
		c.mu.Unlock()
		return ErrClosed
	}
	switch c.overflow {
	case Reject, DropOldest:
		if c.room() {
			return c.enqueue(ctx, done, level, job)
		}
		if c.overflow == DropOldest {
			return c.replace(ctx, done, level, job)
		}
		c.count.rejected++
		c.mu.Unlock()
		return ErrFull
	case CallerRuns:
		inside = true
	}
	if inside { // a task that waits here could be waiting for itself
		c.count.inlined++
		c.mu.Unlock()
		c.inline(job)
		return nil
	}
	c.mu.Unlock()
	return c.wait(ctx, done, level, job)
}

// replace drops the oldest job whose priority is not higher than this one's; mu is held,
// and released.
func (c *crew[T]) replace(ctx context.Context, done <-chan struct{}, level int, job T) error {
	victim := c.levels - 1
	for victim >= level && c.queues[victim].len == 0 {
		victim--
	}
	if victim < level {
		c.count.rejected++
		c.mu.Unlock()
		return ErrFull
	}
	old := c.queues[victim].pop()
	c.queued--
	c.count.dropped++
	if old.watch != nil {
		old.watch.tasks--
	}
	err := c.enqueue(ctx, done, level, job)
	c.fail(old.job, ErrDropped)
	return err
}

// wait waits for room, or for ctx.
func (c *crew[T]) wait(ctx context.Context, done <-chan struct{}, level int, job T) error {
	w, _ := c.spare.Get().(*waiter[T])
	if w == nil {
		w = &waiter[T]{told: make(chan error, 1)}
		w.place.Value = w
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return ErrClosed
	}
	watch := c.watch(ctx, done)
	w.entry, w.level = entry[T]{job, watch}, level
	c.waiting.push(w)
	c.count.waits++
	c.admit() // room may have appeared
	c.mu.Unlock()
	watch.begin(ctx)
	err := errEnded
	select {
	case err = <-w.told:
	case <-done:
		if !c.withdraw(w) {
			err = <-w.told // queued or refused concurrently
		}
	}
	if err == errEnded {
		err = context.Cause(ctx)
	}
	w.entry = entry[T]{}
	c.spare.Put(w)
	return err
}

// withdraw removes a caller from the line if it is still there.
func (c *crew[T]) withdraw(w *waiter[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waiting.remove(w) {
		return false
	}
	c.forgo(w)
	return true
}

// forgo counts a caller that has left the line because its context has ended; mu is held.
func (c *crew[T]) forgo(w *waiter[T]) {
	w.entry.watch.tasks--
	c.count.withdrawn++
}

// help runs a queued job on the caller's goroutine, unless the job's context has ended. It
// reports whether one was queued.
func (c *crew[T]) help(match func(T) bool) bool {
	c.mu.Lock()
	found := c.extract(1, func(e entry[T]) bool { return match(e.job) })
	if len(found) == 0 {
		c.mu.Unlock()
		return false
	}
	e := found[0]
	ended := e.watch.hasEnded()
	if ended {
		c.count.cancelled++
	} else {
		c.count.helped++
	}
	c.mu.Unlock()
	if ended {
		c.fail(e.job, context.Cause(e.watch.ctx))
	} else {
		c.inline(e.job)
	}
	return true
}

// extract removes entries from the queues; mu is held, and the caller counts them before it
// releases it.
func (c *crew[T]) extract(limit int, match func(entry[T]) bool) []entry[T] {
	c.recall()
	var found []entry[T]
	for l := range c.levels {
		found = c.queues[l].remove(found, limit-len(found), match)
	}
	c.queued -= len(found)
	for _, e := range found {
		if e.watch != nil {
			e.watch.tasks--
		}
	}
	if c.waiting.len > 0 {
		c.admit()
	}
	return found
}
