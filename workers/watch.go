package workers

import (
	"context"
	"math"
	"sync/atomic"
)

// watch removes the tasks of one context from the queue when the context ends. Contexts
// with the same Done channel share a watch, so that tasks cost no registration each.
type watch[T any] struct {
	crew  *crew[T]
	ctx   context.Context
	done  <-chan struct{}
	begun atomic.Bool
	// Guarded by the lock:
	tasks   int // queued, and of waiting callers
	stop    func() bool
	dropped bool // no longer in crew.watches
}

// fewWatches is how many watches may stay without tasks.
const fewWatches = 32

// watch counts one more task of a context; mu is held. The caller calls begin after
// unlocking. It returns nil for a context that cannot end.
func (c *crew[T]) watch(ctx context.Context, done <-chan struct{}) *watch[T] {
	if done == nil {
		return nil
	}
	w := c.lastWatch
	if w == nil || w.done != done {
		if w = c.watches[done]; w == nil {
			if len(c.watches) >= c.sweepWatch {
				c.sweepWatches()
			}
			w = &watch[T]{crew: c, ctx: ctx, done: done}
			c.watches[done] = w
		}
		c.lastWatch = w
	}
	w.tasks++
	return w
}

// begin registers with the context, once, without the lock: a context may be foreign
// code.
func (w *watch[T]) begin(ctx context.Context) {
	if w == nil || w.begun.Load() || !w.begun.CompareAndSwap(false, true) {
		return
	}
	c := w.crew
	c.mu.Lock()
	if w.dropped {
		c.mu.Unlock()
		return
	}
	c.running++
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, w.fire)
	c.mu.Lock()
	w.stop = stop
	dropped := w.dropped
	c.mu.Unlock()
	if dropped {
		w.cancel()
	}
}

// cancel ends the registration.
func (w *watch[T]) cancel() {
	if w.stop() {
		w.crew.mu.Lock()
		w.crew.exit()
	}
}

// fire removes the tasks of a context that has ended.
func (w *watch[T]) fire() {
	c := w.crew
	c.mu.Lock()
	c.drop(w)
	var ended []entry[T]
	if w.tasks > 0 { // else a long queue is not searched: most contexts end after their tasks
		ended = c.extract(math.MaxInt, func(e entry[T]) bool { return e.watch == w })
	}
	c.count.cancelled += int64(len(ended))
	c.mu.Unlock()
	for _, e := range ended {
		c.fail(e.job, context.Cause(w.ctx))
	}
	c.mu.Lock()
	c.exit()
}

// hasEnded reports whether the context has ended. The lock may come to others between that
// and fire, so whoever moves or runs a task asks.
func (w *watch[T]) hasEnded() bool { return w != nil && hasEnded(w.done) }

func hasEnded(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// drop forgets a watch; mu is held.
func (c *crew[T]) drop(w *watch[T]) {
	w.dropped = true
	if c.watches[w.done] == w {
		delete(c.watches, w.done)
	}
	if c.lastWatch == w {
		c.lastWatch = nil
	}
}

// sweepWatches drops watches without tasks; mu is held. It ends their registrations on
// another goroutine, because a context may be foreign code.
func (c *crew[T]) sweepWatches() {
	var stop []*watch[T]
	for _, w := range c.watches {
		if w.tasks == 0 {
			c.drop(w)
			if w.stop != nil { // otherwise begin sees that it was dropped
				stop = append(stop, w)
			}
		}
	}
	c.sweepWatch = max(fewWatches, 2*len(c.watches))
	if len(stop) == 0 {
		return
	}
	c.running++
	go func() {
		for _, w := range stop {
			w.cancel()
		}
		c.mu.Lock()
		c.exit()
	}()
}
