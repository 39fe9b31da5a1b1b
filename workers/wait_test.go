package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errGone = errors.New("gone")

// audit checks what the counts of a pool say against what its queues and its line hold.
func (c *crew[T]) audit(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recall()
	queued, waiting, tasks := 0, 0, map[*watch[T]]int{}
	for l := range c.queues {
		q := &c.queues[l]
		queued += q.len
		for i := range q.len {
			tasks[q.slots[(q.head+i)&(len(q.slots)-1)].watch]++
		}
		for w := range c.waiting.queues[l].All() {
			waiting++
			tasks[w.entry.watch]++
		}
	}
	delete(tasks, nil)
	if queued != c.queued || waiting != c.waiting.len {
		t.Errorf("%d tasks are queued and %d callers wait; counted as %d and %d", queued, waiting, c.queued, c.waiting.len)
	}
	for _, w := range c.watches {
		if w.tasks != tasks[w] {
			t.Errorf("a watch counts %d tasks, and has %d", w.tasks, tasks[w])
		}
		delete(tasks, w)
	}
	if len(tasks) != 0 {
		t.Errorf("tasks are queued whose context has ended: of %d watches", len(tasks))
	}
}

// watchOf returns the watch of a context that has tasks.
func watchOf(p *Pool, ctx context.Context) *watch[task] {
	p.crew.mu.Lock()
	defer p.crew.mu.Unlock()
	return p.crew.watches[ctx.Done()]
}

// stuck is a pool whose only worker is blocked until release is called.
func stuck(t *testing.T, o Options) (p *Pool, release func()) {
	o.Limit = Fixed(1)
	p = New(o)
	blocked := make(chan struct{})
	if err := p.Go(t.Context(), func() { <-blocked }); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p, func() { close(blocked) }
}

// The queue and the line are full of one context. When it ends, its waiting callers do not
// take the places of its tasks.
func TestEndOfTheContextThatFillsThePool(t *testing.T) {
	for _, procs := range []int{1, 2} {
		for _, size := range []struct{ rounds, queue, waiting int }{{500, 4, 1}, {100, 4, 8}, {20, 64, 200}} {
			t.Run(fmt.Sprintf("procs=%d/queue=%d/waiting=%d", procs, size.queue, size.waiting), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				for range size.rounds {
					synctest.Test(t, func(t *testing.T) { endOfTheContext(t, size.queue, size.waiting) })
				}
			})
		}
	}
}

func endOfTheContext(t *testing.T, queue, waiting int) {
	p, release := stuck(t, Options{Queue: queue})
	ctx, cancel := context.WithCancelCause(t.Context())
	dead := func() { t.Error("a task ran whose context had ended") }
	for range queue {
		p.Go(ctx, dead)
	}
	errs := make(chan error, waiting)
	for range waiting {
		go func() { errs <- p.Go(ctx, dead) }()
	}
	synctest.Wait()
	w := watchOf(p, ctx)
	cancel(errGone)
	bad := 0
	for range waiting {
		if err := <-errs; err != errGone {
			bad++
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d waiting callers were told that a task was queued whose context had ended before", bad, waiting)
	}
	synctest.Wait()
	if st := p.Stats(); st.Queued+st.Waiting != 0 || st.Submitted != int64(queue+1) ||
		st.Waits != int64(waiting) || st.Withdrawn != int64(waiting) || st.Cancelled != int64(queue) {
		t.Errorf("after the end of the context: %+v", st)
	}
	if w.tasks != 0 {
		t.Errorf("the watch still counts %d tasks", w.tasks)
	}
	p.crew.audit(t)
	var ran atomic.Int32
	for range queue {
		if !p.TryGo(func() { ran.Add(1) }) {
			t.Error("no room for a task in a queue that should be empty")
		}
	}
	release()
	if err := p.Close(t.Context()); err != nil || int(ran.Load()) != queue {
		t.Errorf("%d of %d tasks ran; Close returned %v", ran.Load(), queue, err)
	}
}

// However room comes about, a caller whose context has ended is not queued, and the next
// one is. The lock is held from the end of the context until there is room, so that nobody
// has noticed the end.
func TestNobodyIsQueuedAfterTheEnd(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		queued  int
		room    func(c *crew[task])
	}{
		{"a higher limit", Options{NoQueue: true}, 0, func(c *crew[task]) { c.setLimit(2) }},
		{"a higher limit, with priorities", Options{NoQueue: true, Priorities: 2}, 0, func(c *crew[task]) { c.setLimit(2) }},
		{"a task taken from the queue", Options{Queue: 1}, 1, func(c *crew[task]) {
			c.extract(1, func(entry[task]) bool { return true })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, release := stuck(t, test.options)
				for range test.queued {
					p.Go(t.Context(), func() {})
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				ended, lives := make(chan error, 1), make(chan error, 1)
				go func() { ended <- p.Go(ctx, func() { t.Error("a task ran whose context had ended") }) }()
				synctest.Wait()
				go func() { lives <- p.Go(Priority(t.Context(), 1), func() {}) }()
				synctest.Wait()
				c := p.crew
				c.mu.Lock()
				cancel(errGone)
				test.room(c)
				c.mu.Unlock()
				synctest.Wait()
				if err := <-ended; err != errGone {
					t.Errorf("Go returned %v for a context that had ended before", err)
				}
				select {
				case err := <-lives:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("the next caller still waits, and there is room")
				}
				c.audit(t)
				release()
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// distant is a context of foreign code, which may tell about its end late.
type distant struct {
	context.Context
	done  chan struct{}
	value func()           // called by Value
	after func(end func()) // called by AfterFunc, with what to call after the end
	stops atomic.Int32
}

func newDistant() *distant {
	return &distant{Context: context.Background(), done: make(chan struct{}), value: func() {}, after: func(func()) {}}
}

func (d *distant) Done() <-chan struct{} { return d.done }

func (d *distant) Err() error {
	select {
	case <-d.done:
		return errGone
	default:
		return nil
	}
}

func (d *distant) Value(any) any { d.value(); return nil }

func (d *distant) AfterFunc(f func()) (stop func() bool) {
	d.after(f)
	return func() bool { d.stops.Add(1); return true }
}

// A context that ends while Go is under way, before it has the lock, drops no other task
// and is not queued.
func TestContextThatEndsDuringGo(t *testing.T) {
	for _, overflow := range []Overflow{Block, Reject, CallerRuns, DropOldest} {
		for _, queue := range []int{1, 2} {
			t.Run(fmt.Sprintf("policy=%d/queue=%d", overflow, queue), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, release := stuck(t, Options{Queue: queue, Overflow: overflow})
					var ran atomic.Bool
					p.Go(t.Context(), func() { ran.Store(true) })
					ctx := newDistant()
					ctx.value = func() { ctx.value = func() {}; close(ctx.done) }
					if err := p.Go(ctx, func() { t.Error("a task ran whose context had ended") }); err != errGone {
						t.Errorf("Go returned %v", err)
					}
					p.crew.audit(t)
					release()
					if err := p.Close(t.Context()); err != nil || !ran.Load() {
						t.Errorf("Close returned %v; the other task ran: %v", err, ran.Load())
					}
				})
			})
		}
	}
}

// A task that waits for a queued one runs it in place, but not when its context has ended
// and the pool has not been told yet.
func TestWaitingTaskDoesNotRunWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Fixed(1)})
		_, err := Submit(t.Context(), p, func(inside context.Context) (int, error) {
			ctx := newDistant()
			future := Submit(ctx, p, func(context.Context) (int, error) {
				t.Error("a task ran whose context had ended")
				return 0, nil
			})
			close(ctx.done)
			return future.Wait(inside)
		}).Wait(t.Context())
		if err != errGone {
			t.Error(err)
		}
		if st := p.Stats(); st.Cancelled != 1 || st.Helped+st.Inlined != 0 || st.Queued != 0 {
			t.Errorf("%+v", st)
		}
		p.crew.audit(t)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker that takes a task whose context has ended does not run it, although the pool has
// not been told.
func TestWorkerDoesNotRunWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := stuck(t, Options{})
		ctx := newDistant()
		future := Submit(ctx, p, func(context.Context) (int, error) {
			t.Error("a task ran whose context had ended")
			return 0, nil
		})
		close(ctx.done)
		release()
		if _, err := future.Wait(t.Context()); err != errGone {
			t.Error(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if st := p.Stats(); st.Cancelled != 1 || st.Submitted != 2 || st.Started != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A context whose watch was dropped because it had no tasks gets another watch with its
// next task, and its end removes that one task.
func TestContextIsWatchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Fixed(1)})
		ctx, cancel := context.WithCancel(t.Context())
		p.Go(ctx, func() {})
		synctest.Wait()
		p.crew.mu.Lock()
		p.crew.sweepWatches()
		p.crew.mu.Unlock()
		blocked := make(chan struct{})
		p.Go(context.Background(), func() { <-blocked })
		synctest.Wait()
		p.Go(ctx, func() { t.Error("a task ran whose context had ended") })
		cancel()
		synctest.Wait()
		if st := p.Stats(); st.Queued != 0 || st.Cancelled != 1 {
			t.Errorf("after the end of the context: %+v", st)
		}
		p.crew.audit(t)
		close(blocked)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A task that has waited in line is watched once it is queued.
func TestTaskThatHasWaitedInLineIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := stuck(t, Options{Queue: 1})
		first, cancelFirst := context.WithCancel(t.Context())
		p.Go(first, func() { t.Error("a task ran whose context had ended") })
		ctx, cancel := context.WithCancel(t.Context())
		queued := make(chan error, 1)
		go func() { queued <- p.Go(ctx, func() { t.Error("a task ran whose context had ended") }) }()
		synctest.Wait()
		cancelFirst()
		if err := <-queued; err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if st := p.Stats(); st.Queued != 0 || st.Cancelled != 2 {
			t.Errorf("after the end of the context: %+v", st)
		}
		p.crew.audit(t)
		release()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A watch that is dropped before it registers with its context does not do so, and one
// that is dropped meanwhile does not stay registered: Close would wait for either.
func TestWatchIsDroppedWhileItRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		c := p.crew
		sweep := func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sweepWatches()
		}
		ctx := newDistant()
		ctx.after = func(func()) { t.Error("a watch registered that had been dropped") }
		c.mu.Lock()
		w := c.watch(ctx, ctx.done)
		w.tasks--
		c.mu.Unlock()
		sweep()
		w.begin(ctx)

		ctx = newDistant()
		ctx.after = func(func()) {
			synctest.Wait() // until the task is done
			sweep()
		}
		if err := p.Go(ctx, func() {}); err != nil {
			t.Error(err)
		}
		if n := ctx.stops.Load(); n != 1 {
			t.Errorf("the registration was ended %d times", n)
		}
		c.audit(t)
		patience, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Close(patience); err != nil {
			t.Error(err)
		}
	})
}
