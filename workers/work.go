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
	pprof.SetGoroutineLabels(context.Background()) // do not inherit the labels of the goroutine that started it
	for w.tasks() {
	}
}

// tasks runs tasks until there are none, and reports whether to continue because a panic
// ended it.
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
		pprof.SetGoroutineLabels(context.Background()) // a task's labels must not leak into the next one (gopkg #177)
	}
	return false
}

// broken handles a task that did not return: value is its panic, or nil for
// runtime.Goexit, which ends this goroutine in any case. It is called above the frames of
// the panic.
func (w *worker[T]) broken(value any) (again bool) {
	c := w.crew
	if value != nil && c.panicked == nil {
		w.working = false
		panic(value) // still in the deferred call, so that the trace has the task's frames
	}
	var none T
	job := w.job
	w.job = none
	pprof.SetGoroutineLabels(context.Background())
	if value != nil {
		c.reportPanic(job, value)
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

// reportPanic calls Options.Panic and then fails the task.
func (c *crew[T]) reportPanic(job T, value any) {
	c.mu.Lock()
	c.count.panicked++
	c.mu.Unlock()
	c.panicked(value, debug.Stack())
	c.fail(job, panicError{value})
}

// panicError is a panic value as an error.
type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanicked, p.value) }

func (p panicError) Is(target error) bool { return target == ErrPanicked }

// Unwrap returns the panic value if it is an error.
func (p panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// inline runs a job on the caller's goroutine.
func (c *crew[T]) inline(job T) {
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
			c.reportPanic(job, value)
		}
	}()
	c.do(&shift{crew: c}, job)
	returned = true
}

// shift makes the contexts for the tasks of one worker.
type shift struct {
	crew any // the *crew[T], which is the key under which nested contexts find it
	last *insideContext
}

// context derives a task's context from ctx, which marks it as inside the pool. It
// allocates unless the worker's last task had the same ctx.
func (s *shift) context(ctx context.Context) context.Context {
	if s.last != nil && s.last.Context == ctx {
		return s.last
	}
	inside := &insideContext{ctx, s.crew}
	if reflect.ValueOf(ctx).Comparable() { // or the next comparison would panic
		s.last = inside
	}
	return inside
}

// forget drops the last context, so that what it references can be freed.
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

// isInside reports whether ctx derives from a task of this pool.
func (c *crew[T]) isInside(ctx context.Context) bool { return ctx.Value(c) != nil }
