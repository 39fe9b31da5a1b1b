package workers

import (
	"context"
	"sync"
)

// Future is the result of a task, which may not be there yet. Submit makes one.
type Future[T any] struct {
	pool  *Pool
	ctx   context.Context
	f     func(context.Context) (T, error)
	done  chan struct{}
	value T
	err   error
}

// Submit has f run in p, as Pool.Go does, with a context that comes from ctx.
// There is always a Future; what keeps f from running is its result.
func Submit[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) *Future[T] {
	future := &Future[T]{pool: p, ctx: ctx, f: f, done: make(chan struct{})}
	if err := p.crew.submit(ctx, future); err != nil {
		future.fail(err)
	}
	return future
}

// Wait is the result of the task: of f, or ErrClosed, ErrFull, ErrDropped,
// ErrPanicked (only with Options.Panic), ErrExited, or the cause of the context
// given to Submit. When ctx ends first, its cause is returned and the task goes on.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if f.pool.crew.isInside(ctx) {
		// No worker may be left for a task that waits in the queue, but this one.
		if job, ok := f.pool.crew.reclaim(func(t task) bool { return t == task(f) }); ok {
			f.pool.crew.inline(job)
		}
	}
	select {
	case <-f.done:
		return f.value, f.err
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (f *Future[T]) do(s *shift) {
	f.value, f.err = f.f(s.context(f.ctx))
	f.f = nil // what it refers to lives no longer than it has to
	close(f.done)
}

func (f *Future[T]) fail(err error) {
	f.f, f.err = nil, err
	close(f.done)
}

// Group is tasks that belong together. Pool.Group makes one.
type Group struct {
	// Limit is how many of the group may be queued or run at the same time; Go
	// waits for its turn. Zero: no limit but the pool's. Do not change it after
	// the first Go.
	Limit int

	pool   *Pool
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	ended  sync.Cond // a task has ended, or ctx has
	open   int       // tasks that have not ended
	err    error
	unhook func() bool
}

// Group makes a Group. ctx bounds all of it: when it ends, queued tasks are
// dropped and Wait returns its cause.
func (p *Pool) Group(ctx context.Context) *Group {
	g := &Group{pool: p}
	g.ended.L = &g.mu
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.unhook = context.AfterFunc(g.ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended.Broadcast()
	})
	return g
}

// Go has f run in the group's pool. The first error of a task, or of handing one
// over, ends the context of all of them. A task that hands over more of its own
// should make a Group from its context: only so the pool knows it is inside.
func (g *Group) Go(f func(ctx context.Context) error) {
	g.mu.Lock()
	for g.full() {
		if !g.help() && g.full() {
			g.ended.Wait()
		}
	}
	g.open++
	g.mu.Unlock()
	t := &member{g, f}
	if err := g.pool.crew.submit(g.ctx, t); err != nil {
		t.fail(err)
	}
}

// full reports whether Go has to wait; mu is held.
func (g *Group) full() bool { return g.Limit > 0 && g.open >= g.Limit && g.ctx.Err() == nil }

// Wait returns when every task has ended, with the first error. The group cannot
// be used again after it.
func (g *Group) Wait() error {
	g.mu.Lock()
	for g.open > 0 {
		if !g.help() && g.open > 0 {
			g.ended.Wait()
		}
	}
	if g.err == nil && g.ctx.Err() != nil {
		g.err = context.Cause(g.ctx)
	}
	err := g.err
	g.mu.Unlock()
	g.unhook()
	g.cancel(context.Canceled)
	return err
}

// help does one of the group's queued tasks if the caller is inside the pool,
// where otherwise nobody may be left to do it. mu is held, but not meanwhile.
func (g *Group) help() bool {
	g.mu.Unlock()
	defer g.mu.Lock()
	if !g.pool.crew.isInside(g.ctx) {
		return false
	}
	job, ok := g.pool.crew.reclaim(func(t task) bool {
		m, mine := t.(*member)
		return mine && m.group == g
	})
	if ok {
		g.pool.crew.inline(job)
	}
	return ok
}

// member is a task of a group.
type member struct {
	group *Group
	f     func(ctx context.Context) error
}

func (m *member) do(s *shift) { m.fail(m.f(s.context(m.group.ctx))) }

// fail says that the task has ended, with an error or nil.
func (m *member) fail(err error) {
	g := m.group
	g.mu.Lock()
	first := err != nil && g.err == nil
	if first {
		g.err = err
	}
	g.mu.Unlock()
	if first {
		g.cancel(err)
	}
	g.mu.Lock()
	g.open--
	g.ended.Broadcast()
	g.mu.Unlock()
}
