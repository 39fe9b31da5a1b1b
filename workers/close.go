package workers

import (
	"context"
	"fmt"
	"math"
)

// close refuses new tasks, completes the queued ones, and joins every goroutine.
func (c *crew[T]) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.ended {
		c.ended = true
		for c.waiting.len > 0 {
			w := c.waiting.pop()
			if w.entry.watch != nil {
				w.entry.watch.tasks--
			}
			w.told <- ErrClosed
		}
		c.dismiss(len(c.idle))
		if c.ticking && c.timer.Stop() {
			c.ticking = false
			c.running--
		}
		if c.observed {
			c.stopSampling()
		}
		c.staff() // idle workers have ended, and one may have been about to wake
		c.settleEnd()
	}
	c.mu.Unlock()
	select {
	case <-c.gone:
		return nil
	default:
	}
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
	}
	return c.abandon(ctx)
}

// abandon fails the queued tasks: the context of Close has ended.
func (c *crew[T]) abandon(ctx context.Context) error {
	c.mu.Lock()
	left := c.extract(math.MaxInt, func(entry[T]) bool { return true })
	c.count.cancelled += int64(len(left))
	c.settleEnd()
	working := c.workers
	c.mu.Unlock()
	for _, e := range left {
		c.fail(e.job, ErrClosed)
	}
	select {
	case <-c.gone:
		return nil
	default:
		return fmt.Errorf("workers: %d goroutines still run tasks: %w", working, context.Cause(ctx))
	}
}

// settleEnd stops what only waits for tasks once none can come, and closes gone when the
// pool has ended; mu is held.
func (c *crew[T]) settleEnd() {
	if !c.ended || c.workers > 0 {
		return
	}
	if len(c.watches) > 0 && c.queued == 0 {
		c.sweepWatches()
	}
	if c.running == 0 {
		select {
		case <-c.gone:
		default:
			close(c.gone)
		}
	}
}
