// Package workers is a goroutine pool with a bounded queue and a limit that is fixed or
// adaptive (Auto).
//
//	p := workers.New(workers.Options{Limit: workers.Fixed(8)})
//	defer p.Close(ctx)
//	err := p.Go(ctx, func() { work() })
//
// A plain goroutine per task is often the better choice: see docs/pools.md.
package workers

import "context"

// Pool runs tasks; New makes one and Close ends it. All methods are safe for concurrent
// use, and may be called from tasks.
//
// A task that submits another one to the same pool, with a context derived from its own
// (by Submit, Group or Func), cannot deadlock: if no goroutine is free and Overflow is
// Block or CallerRuns, the new task runs inside the old one.
//
// Cost: one mutex, taken once for up to nine tasks when many are queued whose context
// cannot be cancelled; no clock reads, and no allocation in Go and TryGo
// (BenchmarkBurst). A cancellable context costs one registration when it is first used,
// not one per task.
type Pool struct{ crew *crew[task] }

// task is what a Pool queues. Each is one pointer, so that Go need not allocate.
type task interface {
	do(s *shift)
	fail(err error) // the task will not run, or did not complete
}

// plain is the task of Go.
type plain func()

func (f plain) do(*shift)  { f() }
func (f plain) fail(error) {}

// New returns a Pool. It starts no goroutine until there is a task.
func New(o Options) *Pool {
	return &Pool{newCrew(o, func(s *shift, t task) { t.do(s) }, func(t task, err error) { t.fail(err) })}
}

// Go runs f once in the pool. When the queue is full, it applies Options.Overflow.
//
// When ctx ends before f is queued, Go returns its cause; when ctx ends while f is
// queued, f is dropped and never runs. To learn that, use Submit. Other errors are
// ErrClosed and ErrFull.
func (p *Pool) Go(ctx context.Context, f func()) error { return p.crew.submit(ctx, plain(f)) }

// TryGo is Go that never waits and ignores Options.Overflow: it reports whether f will
// run.
func (p *Pool) TryGo(f func()) bool { return p.crew.try(plain(f)) }

// Resize sets the limit, also of an Auto pool, which adapts from there. Idle goroutines
// over the limit end at once, the others after their task; until then no task starts. If
// the limit shrinks, a task that waits for tasks of its own pool other than through a
// Future or a Group may deadlock.
func (p *Pool) Resize(n int) { p.crew.resize(n) }

// Close refuses new tasks, completes the queued ones, and returns when all goroutines of
// the pool have ended. When ctx ends first, it drops the queued tasks and returns an
// error with the number of goroutines that still run tasks; call Close again to wait for
// them.
func (p *Pool) Close(ctx context.Context) error { return p.crew.close(ctx) }

// Stats returns the pool's counters and gauges.
func (p *Pool) Stats() Stats { return p.crew.stats() }

// Decisions returns the last changes of an Auto pool's limit, oldest first.
func (p *Pool) Decisions() []Decision { return p.crew.decisions() }

// Func is a pool for one function: it queues the arguments, so that a task needs neither
// a closure nor an allocation. NewFunc makes one.
type Func[A any] struct{ crew *crew[argument[A]] }

type argument[A any] struct {
	ctx   context.Context
	value A
}

// NewFunc returns a pool that calls f. The context of a call is derived from the one
// given to Go.
func NewFunc[A any](o Options, f func(context.Context, A)) *Func[A] {
	if f == nil {
		panic("workers: NewFunc without a function")
	}
	return &Func[A]{newCrew(o,
		func(s *shift, a argument[A]) { f(s.context(a.ctx), a.value) },
		func(argument[A], error) {})}
}

// Go queues a call of the function with a, as Pool.Go.
func (f *Func[A]) Go(ctx context.Context, a A) error { return f.crew.submit(ctx, argument[A]{ctx, a}) }

// TryGo queues a call of the function with a, as Pool.TryGo.
func (f *Func[A]) TryGo(a A) bool { return f.crew.try(argument[A]{context.Background(), a}) }

// Resize sets the limit, as Pool.Resize.
func (f *Func[A]) Resize(n int) { f.crew.resize(n) }

// Close ends the pool, as Pool.Close.
func (f *Func[A]) Close(ctx context.Context) error { return f.crew.close(ctx) }

// Stats returns the pool's counters and gauges.
func (f *Func[A]) Stats() Stats { return f.crew.stats() }

// Decisions returns the last changes of the limit, as Pool.Decisions.
func (f *Func[A]) Decisions() []Decision { return f.crew.decisions() }
