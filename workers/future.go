package workers

import (
	"context"
	"sync"
)

// Future is the pending result of a task. Submit makes one.
type Future[T any] struct {
	pool  *Pool
	ctx   context.Context
	f     func(context.Context) (T, error)
	done  chan struct{}
	value T
	err   error
}

// Submit runs f in p, as Pool.Go does, with a context derived from ctx. It always returns
// a Future; if f cannot run, the reason is its result.
func Submit[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) *Future[T] {
	future := &Future[T]{pool: p, ctx: ctx, f: f, done: make(chan struct{})}
	if err := p.crew.submit(ctx, future); err != nil {
		future.fail(err)
	}
	return future
}

// Wait waits for the result and returns it: that of f, or ErrClosed, ErrFull, ErrDropped,
// ErrPanicked (only with Options.Panic), ErrExited, or the cause of the context given to
// Submit. When ctx ends first, Wait returns its cause and the task goes on.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if f.pool.crew.isInside(ctx) {
		// A task that is still queued may have no worker left except this one.
		f.pool.crew.help(func(t task) bool { return t == task(f) })
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
	f.f = nil // allow what it references to be freed
	close(f.done)
}

func (f *Future[T]) fail(err error) {
	f.f, f.err = nil, err
	close(f.done)
}

// Group is a set of related tasks. Pool.Group makes one.
type Group struct {
	// Limit is the maximum number of the group's tasks that are queued or running; Go
	// waits for its turn. Zero: only the pool's limits apply. Do not change it after the
	// first Go.
	Limit int

	pool   *Pool
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	ended  sync.Cond // signals that a task or ctx has ended
	open   int       // tasks that have not ended
	err    error
	unhook func() bool
}

// Group returns a new Group, bounded by ctx: when ctx ends, queued tasks are dropped and
// Wait returns its cause.
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

// Go runs f in the group's pool. The first error, of a task or of submitting one, cancels
// the context of all tasks. A task that submits more tasks should make a Group from its
// own context, so that the pool can detect nesting.
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

// full reports whether Go must wait; mu is held.
func (g *Group) full() bool { return g.Limit > 0 && g.open >= g.Limit && g.ctx.Err() == nil }

// Wait waits for every task to end and returns the first error. The group cannot be used
// after it.
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

// help runs one of the group's queued tasks if the caller is itself a task of the pool,
// because no other worker may be left. mu is held, but not meanwhile.
func (g *Group) help() bool {
	g.mu.Unlock()
	defer g.mu.Lock()
	if !g.pool.crew.isInside(g.ctx) {
		return false
	}
	return g.pool.crew.help(func(t task) bool {
		m, mine := t.(*member)
		return mine && m.group == g
	})
}

// member is a task of a group.
type member struct {
	group *Group
	f     func(ctx context.Context) error
}

func (m *member) do(s *shift) { m.fail(m.f(s.context(m.group.ctx))) }

// fail records that the task has ended, with an error or nil.
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
