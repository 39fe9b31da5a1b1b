package workers

import (
	"context"
	"errors"
	"runtime"
	"time"
)

var (
	// ErrClosed is the answer of a pool that has been closed.
	ErrClosed = errors.New("workers: pool closed")
	// ErrFull means that the pool took no further task and did not wait.
	ErrFull = errors.New("workers: queue full")
	// ErrDropped is the result of a queued task that made room for a newer one.
	ErrDropped = errors.New("workers: task dropped for a newer one")
	// ErrPanicked is in the result of a task that panicked.
	ErrPanicked = errors.New("workers: task panicked")
	// ErrExited is the result of a task that called runtime.Goexit.
	ErrExited = errors.New("workers: task ended its goroutine")
)

// Options are how a Pool or Func works. The zero value works.
type Options struct {
	// Limit is how many goroutines the pool has at most. Zero:
	// Fixed(runtime.GOMAXPROCS(0)), which suits tasks that compute; for tasks
	// that wait it is far too low.
	Limit Limit
	// Queue is how many tasks may wait for a goroutine. Zero: 1024. Negative:
	// none, a task is taken only when a goroutine is free for it.
	Queue int
	// Overflow is what happens to a task when the queue is full. Zero: Block.
	Overflow Overflow
	// Priorities is how many levels of priority there are, at most 4; Priority
	// puts a level into a context. Zero: 1, first come, first served.
	Priorities int
	// IdleTimeout is after how long without a task a goroutine ends; it may be a
	// quarter longer. Zero: 10 s. Negative: never.
	IdleTimeout time.Duration
	// Panic is told of a task's panic, on the goroutine of the task, which lives
	// on. Zero: the panic crashes the program, with the stack of the task, as in
	// any goroutine.
	Panic func(value any, stack []byte)
}

// Overflow is what happens to a task for which the queue has no room.
type Overflow uint8

const (
	// Block makes the caller wait for room, first come, first served within a
	// priority.
	Block Overflow = iota
	// Reject refuses the task with ErrFull.
	Reject
	// CallerRuns runs the task on the goroutine that brought it, which is not
	// counted against the limit.
	CallerRuns
	// DropOldest drops the oldest task of the lowest priority in the queue, or
	// refuses the new one with ErrFull if it would be lower still.
	DropOldest
)

const (
	defaultQueue = 1024
	defaultIdle  = 10 * time.Second
	mostLevels   = 4
)

// Limit is how many goroutines a pool may have: Fixed or Auto.
type Limit struct {
	fixed int
	auto  *AutoOptions
}

// Fixed is a limit of n goroutines, at least one, which only Resize changes.
func Fixed(n int) Limit { return Limit{fixed: max(1, n)} }

// Auto is a limit that finds itself: see AutoOptions.
func Auto(o AutoOptions) Limit { return Limit{auto: &o} }

// Priority puts a level of priority into a context, for the tasks that are
// handed over with it and for theirs: 0 is served first and is what a context
// without a level has; Options.Priorities-1 is the last. A lower level with tasks
// is passed over 16 times at most, plus once for each other level.
func Priority(ctx context.Context, level int) context.Context {
	return context.WithValue(ctx, levelKey{}, max(0, level))
}

type levelKey struct{}

// resolved is o with its zeros replaced.
func (o Options) resolved() Options {
	if o.Limit.fixed == 0 && o.Limit.auto == nil {
		o.Limit = Fixed(runtime.GOMAXPROCS(0))
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	o.Queue = max(0, o.Queue)
	o.Priorities = min(max(1, o.Priorities), mostLevels)
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdle
	}
	if o.Overflow > DropOldest {
		panic("workers: Options.Overflow is none of the four")
	}
	return o
}
