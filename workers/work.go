package workers

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"runtime/pprof"
)

// work is a worker's goroutine.
func (w *worker[T]) work() {
	pprof.SetGoroutineLabels(context.Background()) // those of who started it are not its own
	for w.tasks() {
	}
}

// tasks does tasks until there are no more, and reports whether to go on because
// it was a panic that ended it.
func (w *worker[T]) tasks() (again bool) {
	defer func() {
		if w.working {
			again = w.broken(recover())
		}
	}()
	for w.next() {
		w.crew.do(&w.shift, w.job)
		var none T
		w.job = none
		pprof.SetGoroutineLabels(context.Background()) // those of a task are not the next one's (gopkg #177)
	}
	return false
}

// broken settles a task that did not return: with what it has panicked, or nil
// for runtime.Goexit, which ends this goroutine whatever we do. It is called
// above the frames of the panic.
func (w *worker[T]) broken(value any) (again bool) {
	c := w.crew
	if value != nil && c.panicked == nil {
		w.working = false
		panic(value) // still in the deferred call: the trace has the task's frames
	}
	var none T
	job := w.job
	w.job = none
	pprof.SetGoroutineLabels(context.Background())
	if value != nil {
		c.told(job, value)
		return true
	}
	c.fail(job, ErrExited)
	c.mu.Lock()
	w.working = false
	c.workers--
	c.visitor = nil
	c.admit() // there is room for a successor
	c.exit()  // unlocks
	return false
}

// told tells Options.Panic, and then who waits for the task.
func (c *crew[T]) told(job T, value any) {
	c.mu.Lock()
	c.count.panicked++
	c.mu.Unlock()
	c.panicked(value, debug.Stack())
	c.fail(job, panicError{value})
}

// panicError is a panic's value as an error.
type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanicked, p.value) }

func (p panicError) Is(target error) bool { return target == ErrPanicked }

// Unwrap is the panic's value if it is an error.
func (p panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// inline does a job on the caller's goroutine.
func (c *crew[T]) inline(job T) {
	c.inlined.Add(1)
	returned := false
	defer func() {
		if returned {
			return
		}
		switch value := recover(); {
		case value == nil:
			c.fail(job, ErrExited)
		case c.panicked == nil:
			c.fail(job, panicError{value}) // the caller may recover, and wait
			panic(value)
		default:
			c.told(job, value)
		}
	}()
	c.do(&shift{crew: c}, job)
	returned = true
}

// shift makes the contexts of the tasks of one worker.
type shift struct {
	crew any // the *crew[T], as the key under which its contexts know themselves
	last *insideContext
}

// context is ctx for a task: it knows that it is inside the pool. It allocates
// when the worker's last task had another one.
func (s *shift) context(ctx context.Context) context.Context {
	if s.last != nil && s.last.Context == ctx {
		return s.last
	}
	inside := &insideContext{ctx, s.crew}
	if reflect.ValueOf(ctx).Comparable() { // the next comparison must not panic
		s.last = inside
	}
	return inside
}

// forget drops the last context, which may hold on to much.
func (s *shift) forget() { s.last = nil }

// insideContext is the context of a task.
type insideContext struct {
	context.Context
	crew any
}

func (i *insideContext) Value(key any) any {
	if key == i.crew {
		return i.crew
	}
	return i.Context.Value(key)
}

// isInside reports whether ctx comes from a task of this pool.
func (c *crew[T]) isInside(ctx context.Context) bool { return ctx.Value(c) != nil }
