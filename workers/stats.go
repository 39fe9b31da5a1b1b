package workers

// counters only grow; crew.mu is held.
type counters struct {
	removed int64 // taken from the queue without being started

	waits, rejected, cancelled, dropped, panicked int64
}

// Stats are the counters and gauges of a pool.
type Stats struct {
	Limit   int
	Workers int // goroutines; exceeds Limit only for a while after it shrank
	Idle    int // of these, without a task
	Queued  int // tasks that wait for a goroutine
	Waiting int // callers that wait for room in the queue

	Submitted int64 // tasks queued
	Started   int64
	Done      int64 // returned, panicked or exited
	Inlined   int64 // run by their caller, and counted nowhere else
	Waits     int64 // callers that had to wait
	Rejected  int64 // ErrFull
	Cancelled int64 // cancelled by their context, or by the end of Close's context, before they started
	Dropped   int64 // ErrDropped
	Panicked  int64
}

func (c *crew[T]) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recall()
	n := &c.count
	return Stats{
		Limit: c.limit, Workers: c.workers, Idle: len(c.idle) + c.coming,
		Queued: c.queued, Waiting: c.waiting.len,
		Submitted: c.started + n.removed + int64(c.queued), Started: c.started, Done: c.started - int64(c.busy()), Inlined: c.inlined.Load(),
		Waits: n.waits, Rejected: n.rejected, Cancelled: n.cancelled, Dropped: n.dropped, Panicked: n.panicked,
	}
}

// decisions returns nil for a fixed limit.
func (c *crew[T]) decisions() []Decision {
	if c.pilot == nil {
		return nil
	}
	return c.pilot.decisions()
}
