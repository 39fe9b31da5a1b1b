// Package workers runs tasks on goroutines that are used again: never more of
// them than a limit, with a bounded queue before them. The limit is a number, or
// finds itself (Auto).
//
//	p := workers.New(workers.Options{Limit: workers.Fixed(8)})
//	defer p.Close(ctx)
//	err := p.Go(ctx, func() { work() })
//
// A goroutine of its own is often the better choice for a task: see
// docs/workers.md.
package workers

import "context"

// Pool runs tasks; New makes one and Close ends it. All methods may be called at
// the same time, and from tasks.
//
// A task that hands over another one to the same pool, with a context that comes
// from the one it was given (by Submit, Group or Func), does not wait for a free
// goroutine: if there is none, the new task runs within the old one, where
// Overflow is Block or CallerRuns.
//
// Cost: one mutex, taken once for up to nine tasks when many wait whose context
// cannot end; no clock, and no allocation in Go and TryGo (BenchmarkBurst).
// A context that can end costs a registration when it is first seen, not for
// every task.
type Pool struct{ crew *crew[task] }

// task is what a Pool queues. Each is one pointer, so that Go need not allocate.
type task interface {
	do(s *shift)
	fail(err error) // it will not be done, or has not been done to its end
}

// plain is the task of Go.
type plain func()

func (f plain) do(*shift)  { f() }
func (f plain) fail(error) {}

// New makes a Pool. It starts no goroutine before there is a task.
func New(o Options) *Pool {
	return &Pool{newCrew(o, func(s *shift, t task) { t.do(s) }, func(t task, err error) { t.fail(err) })}
}

// Go has f run, once. When the queue is full it does what Options.Overflow says.
//
// When ctx ends before f has begun, Go returns its cause, or, if f is queued
// already, f is taken out of the queue and never runs; who wants to know uses
// Submit. Other errors are ErrClosed and ErrFull.
func (p *Pool) Go(ctx context.Context, f func()) error { return p.crew.submit(ctx, plain(f)) }

// TryGo is Go that neither waits nor does anything else for lack of room: it
// reports whether f will run.
func (p *Pool) TryGo(f func()) bool { return p.crew.try(plain(f)) }

// Resize sets the limit, of an Auto pool too, which goes on from there. Idle
// goroutines over the limit end at once, the others with their task; until then
// no task begins. A task that waits for tasks of its own pool by other means than
// a Future or a Group may wait for ever when the limit shrinks.
func (p *Pool) Resize(n int) { p.crew.resize(n) }

// Close takes no more tasks, has those in the queue done, and returns when no
// goroutine of the pool is left. When ctx ends first, queued tasks are dropped,
// and the error says how many goroutines still work; Close may be called again
// to wait for them.
func (p *Pool) Close(ctx context.Context) error { return p.crew.close(ctx) }

// Stats are the pool's numbers of this moment.
func (p *Pool) Stats() Stats { return p.crew.stats() }

// Decisions are the last changes of the limit of an Auto pool, oldest first.
func (p *Pool) Decisions() []Decision { return p.crew.decisions() }

// Func is a pool for one function: what is queued are its arguments, so that a
// task needs neither a closure nor an allocation. NewFunc makes one.
type Func[A any] struct{ crew *crew[argument[A]] }

type argument[A any] struct {
	ctx   context.Context
	value A
}

// NewFunc makes a pool that calls f. The context of a call comes from the one
// that was given to Go.
func NewFunc[A any](o Options, f func(context.Context, A)) *Func[A] {
	if f == nil {
		panic("workers: NewFunc without a function")
	}
	return &Func[A]{newCrew(o,
		func(s *shift, a argument[A]) { f(s.context(a.ctx), a.value) },
		func(argument[A], error) {})}
}

// Go has the function called with a, as Pool.Go.
func (f *Func[A]) Go(ctx context.Context, a A) error { return f.crew.submit(ctx, argument[A]{ctx, a}) }

// TryGo has the function called with a, as Pool.TryGo.
func (f *Func[A]) TryGo(a A) bool { return f.crew.try(argument[A]{context.Background(), a}) }

// Resize sets the limit, as Pool.Resize.
func (f *Func[A]) Resize(n int) { f.crew.resize(n) }

// Close ends the pool, as Pool.Close.
func (f *Func[A]) Close(ctx context.Context) error { return f.crew.close(ctx) }

// Stats are the pool's numbers of this moment.
func (f *Func[A]) Stats() Stats { return f.crew.stats() }

// Decisions are the last changes of the limit, as Pool.Decisions.
func (f *Func[A]) Decisions() []Decision { return f.crew.decisions() }
