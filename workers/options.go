package workers

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("workers: pool closed")
	// ErrFull means that the pool did not accept the task: the queue is full.
	ErrFull = errors.New("workers: queue full")
	// ErrDropped is the result of a queued task that was dropped in favour of a newer
	// one.
	ErrDropped = errors.New("workers: task dropped for a newer one")
	// ErrPanicked is wrapped by the result of a task that panicked.
	ErrPanicked = errors.New("workers: task panicked")
	// ErrExited is the result of a task that called runtime.Goexit.
	ErrExited = errors.New("workers: task ended its goroutine")
)

// Options configure a Pool or Func. The zero value works.
type Options struct {
	// Limit is the maximum number of goroutines. Zero: Fixed(runtime.GOMAXPROCS(0)),
	// which suits CPU-bound tasks; for tasks that wait it is far too low.
	Limit Limit
	// Queue is the maximum number of queued tasks. Zero: 1024. Negative: a panic.
	Queue int
	// NoQueue queues no tasks: one is accepted only when a goroutine is free for it. Queue is
	// ignored.
	NoQueue bool
	// Overflow is the policy for a full queue. Zero: Block.
	Overflow Overflow
	// Priorities is the number of priority levels, at most 4; Priority sets the level in
	// a context. Zero: 1, which is FIFO.
	Priorities int
	// IdleTimeout is how long an idle goroutine waits for a task before it ends; it may
	// be a quarter longer. Zero: 10 s. Negative: off.
	IdleTimeout time.Duration
	// Panic is called when a task panics, on the goroutine of the task, which survives.
	// Zero: the panic crashes the program with the stack of the task, as in any
	// goroutine.
	Panic func(value any, stack []byte)
}

// Overflow is the policy for a task when the queue is full.
type Overflow uint8

const (
	// Block makes the caller wait for room, in FIFO order within a priority.
	Block Overflow = iota
	// Reject refuses the task with ErrFull.
	Reject
	// CallerRuns runs the task on the caller's goroutine, which does not count against
	// the limit.
	CallerRuns
	// DropOldest drops the oldest task of the lowest priority in the queue, or refuses
	// the new task with ErrFull if its priority is lower still.
	DropOldest
)

const (
	defaultQueue = 1024
	defaultIdle  = 10 * time.Second
	mostLevels   = 4
)

// Limit is the maximum number of goroutines of a pool: Fixed or Auto.
type Limit struct {
	fixed int
	auto  *AutoOptions
}

// Fixed returns a limit of n goroutines, at least one, which only Resize changes.
func Fixed(n int) Limit { return Limit{fixed: max(1, n)} }

// Auto returns an adaptive limit: see AutoOptions.
func Auto(o AutoOptions) Limit { return Limit{auto: &o} }

// Priority returns a context with a priority level, for the tasks submitted with it and
// for theirs. Level 0, the default, is served first; Options.Priorities-1 is the lowest.
// To avoid starvation, a lower level with tasks is passed over 16 times at most, plus
// once for each other level.
func Priority(ctx context.Context, level int) context.Context {
	return context.WithValue(ctx, levelKey{}, max(0, level))
}

type levelKey struct{}

// resolved returns o with zeros replaced by defaults.
func (o Options) resolved() Options {
	if o.Limit.fixed == 0 && o.Limit.auto == nil {
		o.Limit = Fixed(runtime.GOMAXPROCS(0))
	}
	if o.Queue < 0 {
		panic("workers: Options.Queue is negative; for no queue, set NoQueue")
	}
	if o.Queue = cmp.Or(o.Queue, defaultQueue); o.NoQueue {
		o.Queue = 0
	}
	o.Priorities = min(max(1, o.Priorities), mostLevels)
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdle
	}
	if o.Overflow > DropOldest {
		panic("workers: Options.Overflow is invalid; use Block, Reject, CallerRuns or DropOldest")
	}
	return o
}
