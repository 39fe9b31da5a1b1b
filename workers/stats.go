package workers

// counters only grow; crew.mu is held.
type counters struct {
	helped, inlined, cancelled, dropped  int64
	waits, withdrawn, rejected, panicked int64
}

// Stats are the counters and gauges of a pool.
type Stats struct {
	Limit   int
	Workers int // goroutines; exceeds Limit only for a while after it shrank
	Idle    int // of these, without a task
	Queued  int // tasks that wait for a goroutine
	Waiting int // callers that wait for room in the queue

	// At any moment, Submitted = Started + Helped + Cancelled + Dropped + Queued.
	Submitted int64 // tasks queued
	Started   int64 // by a goroutine of the pool
	Done      int64 // of these, returned, panicked or exited
	Helped    int64 // run by the task that waits for them, instead of a goroutine of their own
	Cancelled int64 // by their context, or by the end of Close's context, while queued
	Dropped   int64 // ErrDropped

	Inlined   int64 // run by their caller, and counted nowhere else
	Waits     int64 // callers that had to wait
	Withdrawn int64 // of these, callers whose context ended while they waited
	Rejected  int64 // ErrFull
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
		Submitted: c.started + n.helped + n.cancelled + n.dropped + int64(c.queued),
		Started:   c.started, Done: c.started - int64(c.busy()), Helped: n.helped, Cancelled: n.cancelled, Dropped: n.dropped,
		Inlined: n.inlined, Waits: n.waits, Withdrawn: n.withdrawn, Rejected: n.rejected, Panicked: n.panicked,
	}
}

// decisions returns nil for a fixed limit.
func (c *crew[T]) decisions() []Decision {
	if c.pilot == nil {
		return nil
	}
	return c.pilot.decisions()
}
