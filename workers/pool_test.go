package workers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/workers"
)

var errOver = errors.New("over")

// noQueue is the length of a queue that does not exist.
const noQueue = -1

func fixed(n, queue int) workers.Options {
	return workers.Options{Limit: workers.Fixed(n), Queue: max(0, queue), NoQueue: queue == noQueue}
}

func TestNegativeQueuePanics(t *testing.T) {
	testrun.WantPanic(t, "workers: Options.Queue is negative; ", func() { workers.New(workers.Options{Queue: -1}) })
}

func TestZeroOptions(t *testing.T) {
	in(t, workers.Options{}, func(t *testing.T, p *workers.Pool) {
		g := newGate()
		procs := runtime.GOMAXPROCS(0)
		g.fill(t, p, procs+1024)
		if st := p.Stats(); st.Limit != procs || st.Workers != procs || st.Queued != 1024 || p.TryGo(g.pass) {
			t.Errorf("full: %+v", st)
		}
		waiting := later(func() error { return p.Go(t.Context(), g.pass) })
		pending(t, waiting)
		close(g.open)
		if err := settled(t, waiting); err != nil {
			t.Error(err)
		}
		if int(g.ran.Load()) != procs+1025 || int(g.most.Load()) != procs {
			t.Errorf("%d ran, %d at once", g.ran.Load(), g.most.Load())
		}
	})
}

func TestOrder(t *testing.T) {
	in(t, fixed(1, 0), func(t *testing.T, p *workers.Pool) {
		g, n := newGate(), names{}
		g.fill(t, p, 1)
		for _, s := range strings.Split("abcdefghijklmnop", "") {
			p.Go(t.Context(), n.add(s))
		}
		close(g.open)
		n.want(t, "abcdefghijklmnop")
	})
}

func TestOverflow(t *testing.T) {
	for _, test := range []struct {
		name     string
		overflow workers.Overflow
		queue    int
		err      error
		ran      string
	}{
		{"reject", workers.Reject, 2, workers.ErrFull, "ab"},
		{"caller runs", workers.CallerRuns, 2, nil, "cab"},
		{"drop oldest", workers.DropOldest, 2, nil, "bc"},
		{"drop oldest of none", workers.DropOldest, -1, workers.ErrFull, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := fixed(1, test.queue)
			o.Overflow = test.overflow
			in(t, o, func(t *testing.T, p *workers.Pool) {
				g, n := newGate(), names{}
				g.fill(t, p, 1)
				if test.queue > 0 {
					p.Go(t.Context(), n.add("a"))
					p.Go(t.Context(), n.add("b"))
				}
				if err := p.Go(t.Context(), n.add("c")); err != test.err {
					t.Errorf("error %v, want %v", err, test.err)
				}
				close(g.open)
				n.want(t, test.ran)
			})
		})
	}
}

func TestDropOldestTellsItsFuture(t *testing.T) {
	o := fixed(1, 1)
	o.Overflow = workers.DropOldest
	in(t, o, func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 1)
		old := workers.Submit(t.Context(), p, func(context.Context) (int, error) { return 1, nil })
		young := workers.Submit(t.Context(), p, func(context.Context) (int, error) { return 2, nil })
		if _, err := old.Wait(t.Context()); err != workers.ErrDropped {
			t.Error(err)
		}
		close(g.open)
		if v, err := young.Wait(t.Context()); v != 2 || err != nil {
			t.Error(v, err)
		}
		synctest.Wait()
		if st := p.Stats(); st.Dropped != 1 || st.Submitted != 3 || st.Done != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWithoutQueue(t *testing.T) {
	in(t, fixed(2, noQueue), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 2)
		if p.TryGo(g.pass) {
			t.Error("a third task was taken")
		}
		waiting := later(func() error { return p.Go(t.Context(), g.pass) })
		pending(t, waiting)
		g.open <- struct{}{}
		if err := settled(t, waiting); err != nil {
			t.Error(err)
		}
		close(g.open)
	})
}

func TestPriorities(t *testing.T) {
	o := fixed(1, 0)
	o.Priorities = 3
	in(t, o, func(t *testing.T, p *workers.Pool) {
		g, n := newGate(), names{}
		g.fill(t, p, 1)
		for level, s := range []string{"a", "b", "c", "d"} { // d's level is below the lowest
			p.Go(workers.Priority(t.Context(), 3-level), n.add(s))
		}
		close(g.open)
		n.want(t, "dcab") // a before b, both last
	})
}

func TestLowPriorityDoesNotStarve(t *testing.T) {
	o := fixed(1, 0)
	o.Priorities = 4
	in(t, o, func(t *testing.T, p *workers.Pool) {
		g, n := newGate(), names{}
		g.fill(t, p, 1)
		for range 200 {
			p.Go(t.Context(), n.add("."))
		}
		for level := range 3 {
			p.Go(workers.Priority(t.Context(), level+1), n.add(fmt.Sprint(level+1)))
		}
		close(g.open)
		synctest.Wait()
		for level := range 3 {
			if at := strings.Index(n.all, fmt.Sprint(level+1)); at < 16 || at > 19 {
				t.Errorf("level %d ran as number %d: %s", level+1, at, n.all)
			}
		}
	})
}

// ants #154, #336, #374 and gopool #231 exceeded their limit for a moment.
func TestAnts374CapIsExactDuringResize(t *testing.T) {
	p := workers.New(fixed(4, 8))
	var running, most atomic.Int32
	limit := atomic.Int32{}
	limit.Store(8) // highest limit so far at which a running task may have started
	var over atomic.Int32
	task := func() {
		n := running.Add(1)
		if n > limit.Load() {
			over.Add(1)
		}
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		running.Add(-1)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				if err := p.Go(context.Background(), task); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 500 {
			p.Resize(1 + rand.IntN(8))
			runtime.Gosched()
		}
		p.Resize(3)
	})
	all.Wait()
	closeAll(t, p)
	if over.Load() > 0 || most.Load() > 8 {
		t.Errorf("%d tasks started over the limit, %d at once", over.Load(), most.Load())
	}
}

func TestResize(t *testing.T) {
	in(t, fixed(3, 10), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 9)
		p.Resize(5)
		synctest.Wait()
		if n := g.running.Load(); n != 5 {
			t.Errorf("%d run after growing to 5", n)
		}
		p.Resize(2)
		for left := 4; left >= 2; left-- {
			g.open <- struct{}{}
			synctest.Wait()
			if n := int(g.running.Load()); n != left {
				t.Errorf("%d run, want %d: no task may start over the limit", n, left)
			}
		}
		g.open <- struct{}{}
		synctest.Wait()
		if st := p.Stats(); g.running.Load() != 2 || st.Workers != 2 {
			t.Errorf("%d run at a limit of 2, %+v", g.running.Load(), st)
		}
		close(g.open)
	})
}

// pond's Resize did not wake waiting callers.
func TestResizeLetsWaitersIn(t *testing.T) {
	in(t, fixed(1, noQueue), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 1)
		var waiting []<-chan error
		for range 3 {
			waiting = append(waiting, later(func() error { return p.Go(t.Context(), g.pass) }))
		}
		p.Resize(3)
		for i, w := range waiting {
			if i < 2 {
				if err := settled(t, w); err != nil {
					t.Error(err)
				}
			} else {
				pending(t, w)
			}
		}
		close(g.open)
	})
}

// Without a queue, a worker that ends because the limit has shrunk is no room for a waiting
// caller.
func TestShrinkingLetsNobodyIn(t *testing.T) {
	in(t, fixed(2, noQueue), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 2)
		waiting := later(func() error { return p.Go(t.Context(), g.pass) })
		p.Resize(1)
		g.open <- struct{}{}
		pending(t, waiting)
		if st := p.Stats(); st.Workers != 1 || st.Queued != 0 || st.Waiting != 1 {
			t.Errorf("with a limit of 1, which is reached: %+v", st)
		}
		g.open <- struct{}{}
		if err := settled(t, waiting); err != nil {
			t.Error(err)
		}
		close(g.open)
	})
}

func TestIdleTimeout(t *testing.T) {
	o := fixed(8, 0)
	o.IdleTimeout = time.Minute
	in(t, o, func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 8)
		close(g.open)
		for range 3 { // one worker at a time is enough
			pass(30 * time.Second)
			p.Go(t.Context(), g.pass)
		}
		synctest.Wait()
		if st := p.Stats(); st.Workers != 1 {
			t.Errorf("%d goroutines after 90 s with few tasks", st.Workers)
		}
		pass(76 * time.Second)
		if st := p.Stats(); st.Workers != 0 {
			t.Errorf("%d goroutines after a minute and a quarter without tasks", st.Workers)
		}
	})
}

func TestIdleForEver(t *testing.T) {
	o := fixed(2, 0)
	o.IdleTimeout = -1
	in(t, o, func(t *testing.T, p *workers.Pool) {
		p.Go(t.Context(), func() {})
		pass(1000 * time.Hour)
		if st := p.Stats(); st.Idle != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestCancelBefore(t *testing.T) {
	in(t, fixed(1, 0), func(t *testing.T, p *workers.Pool) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errOver)
		if err := p.Go(ctx, func() { t.Error("ran") }); err != errOver {
			t.Error(err)
		}
	})
}

// pond #61 and #138: a context that ended with tasks in the queue left the pool stuck.
// Here all workers are stuck, and the queue still has room again at once.
func TestPond138CancelRemovesQueuedTasks(t *testing.T) {
	in(t, fixed(1, 4), func(t *testing.T, p *workers.Pool) {
		g, n := newGate(), names{}
		g.fill(t, p, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		type key struct{}
		for range 2 {
			p.Go(ctx, func() { t.Error("a cancelled task ran") })
		}
		p.Go(t.Context(), n.add("a"))
		future := workers.Submit(context.WithValue(ctx, key{}, 1), p, func(context.Context) (int, error) {
			t.Error("a cancelled task ran")
			return 0, nil
		})
		var waiting []<-chan error
		for _, s := range []string{"b", "c", "d"} {
			waiting = append(waiting, later(func() error { return p.Go(t.Context(), n.add(s)) }))
		}
		pending(t, waiting[0])
		cancel(errOver)
		if _, err := future.Wait(t.Context()); err != errOver {
			t.Errorf("the future of a cancelled task returned %v", err)
		}
		for _, w := range waiting {
			if err := settled(t, w); err != nil {
				t.Error(err)
			}
		}
		if st := p.Stats(); st.Cancelled != 3 || st.Queued != 4 {
			t.Errorf("%+v", st)
		}
		close(g.open)
		n.want(t, "abcd")
	})
}

func TestCancelEndsTheWait(t *testing.T) {
	in(t, fixed(1, 1), func(t *testing.T, p *workers.Pool) {
		g, n := newGate(), names{}
		g.fill(t, p, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := later(func() error { return p.Go(ctx, func() { t.Error("ran") }) })
		stays := later(func() error { return p.Go(t.Context(), n.add("a")) })
		cancel(errOver)
		if err := settled(t, gone); err != errOver {
			t.Error(err)
		}
		pending(t, stays)
		close(g.open)
		if err := settled(t, stays); err != nil {
			t.Error(err)
		}
		n.want(t, "a")
	})
}

// ants #6, #50, #146: a task that panicked was counted for ever, and waiting callers
// slept until the next purge.
func TestAnts146PanicsDoNotUseUpWorkers(t *testing.T) {
	var told atomic.Int32
	o := fixed(2, 2)
	o.Panic = func(value any, stack []byte) {
		told.Add(1)
		if value != errOver || !strings.Contains(string(stack), "TestAnts146") {
			t.Errorf("Panic was called with %v at %s", value, stack)
		}
	}
	in(t, o, func(t *testing.T, p *workers.Pool) {
		for range 100 {
			if err := p.Go(t.Context(), func() { panic(errOver) }); err != nil {
				t.Error(err)
			}
		}
		future := workers.Submit(t.Context(), p, func(context.Context) (int, error) { panic(errOver) })
		if _, err := future.Wait(t.Context()); !errors.Is(err, workers.ErrPanicked) || !errors.Is(err, errOver) {
			t.Error(err)
		}
		group := p.Group(t.Context())
		group.Go(func(context.Context) error { panic(errOver) })
		if err := group.Wait(); !errors.Is(err, workers.ErrPanicked) {
			t.Error(err)
		}
		synctest.Wait()
		if st := p.Stats(); st.Panicked != 102 || told.Load() != 102 || st.Workers > 2 {
			t.Errorf("%+v, Panic was called %d times", st, told.Load())
		}
	})
}

func TestGoexit(t *testing.T) {
	in(t, fixed(1, 4), func(t *testing.T, p *workers.Pool) {
		n := names{}
		p.Go(t.Context(), runtime.Goexit)
		future := workers.Submit(t.Context(), p, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
		p.Go(t.Context(), n.add("a"))
		if _, err := future.Wait(t.Context()); err != workers.ErrExited {
			t.Error(err)
		}
		n.want(t, "a")
		if st := p.Stats(); st.Workers != 1 || st.Done != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// gopkg #177: labels that a task sets on its goroutine leak into the next task, and those
// of the starting goroutine into all.
func TestGopkg177LabelsAreNotKept(t *testing.T) {
	p := workers.New(fixed(1, 0))
	ctx := pprof.WithLabels(context.Background(), pprof.Labels("who", "starter"))
	pprof.Do(ctx, pprof.Labels(), func(ctx context.Context) {
		var profile strings.Builder
		p.Go(ctx, func() {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("who", "former task")))
		})
		workers.Submit(ctx, p, func(context.Context) (int, error) {
			return 0, pprof.Lookup("goroutine").WriteTo(&profile, 1)
		}).Wait(ctx)
		for _, entry := range strings.Split(profile.String(), "\n\n") {
			if strings.Contains(entry, "(*worker[...]).work") && strings.Contains(entry, `"who"`) {
				t.Errorf("a worker has foreign labels:\n%s", entry)
			}
		}
		if !strings.Contains(profile.String(), "(*worker[...]).work") {
			t.Errorf("no worker in the profile:\n%s", profile.String())
		}
	})
	closeAll(t, p)
}

func TestClose(t *testing.T) {
	in(t, fixed(1, 2), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 3)
		waiting := later(func() error { return p.Go(t.Context(), g.pass) })
		closing := later(func() error { return p.Close(t.Context()) })
		if err := settled(t, waiting); err != workers.ErrClosed {
			t.Error(err)
		}
		if err := p.Go(t.Context(), g.pass); err != workers.ErrClosed || p.TryGo(g.pass) {
			t.Errorf("a closed pool returned %v", err)
		}
		pending(t, closing)
		close(g.open)
		if err := settled(t, closing); err != nil || g.ran.Load() != 3 {
			t.Errorf("%v, %d ran", err, g.ran.Load())
		}
	})
}

// ants #113, #323: Close left goroutines behind.
func TestAnts113CloseThatRunsOutOfPatience(t *testing.T) {
	in(t, fixed(1, 2), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		future := workers.Submit(t.Context(), p, func(context.Context) (int, error) { return 0, nil })
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close with a stuck task: %v", err)
		}
		if _, err := future.Wait(t.Context()); err != workers.ErrClosed {
			t.Error(err)
		}
		close(g.open)
	})
}

// Everything at once, in real time and on all processors: nothing is lost, nothing hangs
// (pond #108, #109, #115), and Close joins (ants #113).
func TestPond115NothingIsLost(t *testing.T) {
	for round := range 30 {
		seed := rand.Uint64()
		o := fixed(1+round%4, []int{noQueue, 1, 4, 64}[round/4%4])
		o.Priorities = 1 + round%4
		o.IdleTimeout = time.Millisecond
		p := workers.New(o)
		var ran, accepted, cancelled atomic.Int64
		var all sync.WaitGroup
		for caller := range 4 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(caller)))
				for range 200 {
					ctx, cancel := context.WithCancel(workers.Priority(context.Background(), r.IntN(4)))
					t.Cleanup(cancel)
					if r.IntN(4) == 0 {
						go cancel()
					}
					err := p.Go(ctx, func() {
						ran.Add(1)
						if r := ran.Load(); r%64 == 0 {
							runtime.Goexit()
						}
					})
					switch err {
					case nil:
						accepted.Add(1)
					case context.Canceled:
						cancelled.Add(1)
					default:
						t.Errorf("seed %d: %v", seed, err)
					}
					if r.IntN(8) == 0 {
						p.Resize(1 + r.IntN(4))
					}
				}
			})
		}
		all.Wait()
		closeAll(t, p)
		st := p.Stats()
		if st.Done != ran.Load() || accepted.Load() < ran.Load() || accepted.Load() != st.Submitted {
			t.Fatalf("seed %d: %d accepted, %d ran, %+v", seed, accepted.Load(), ran.Load(), st)
		}
	}
}

// The queues of grafana/alloy #2174 and cilium/workerpool grew without bound when a
// consumer was stuck.
func TestAlloy2174MemoryIsBounded(t *testing.T) {
	in(t, fixed(1, 16), func(t *testing.T, p *workers.Pool) {
		g := newGate()
		g.fill(t, p, 1)
		taken := 0
		for range 100_000 {
			if p.TryGo(func() {}) {
				taken++
			}
		}
		if taken != 16 {
			t.Errorf("%d tasks were queued", taken)
		}
		close(g.open)
	})
}

// Many short-lived contexts leave no memory behind.
func TestManyContexts(t *testing.T) {
	in(t, fixed(1, 8), func(t *testing.T, p *workers.Pool) {
		var ran atomic.Int32
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			if err := p.Go(ctx, func() { ran.Add(1) }); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			cancel()
		}
		if ran.Load() != 1000 {
			t.Errorf("%d ran", ran.Load())
		}
	})
}

func TestMisuse(t *testing.T) {
	if !panics(func() { workers.NewFunc[int](workers.Options{}, nil) }) {
		t.Error("NewFunc(nil) does not panic")
	}
	if !panics(func() { workers.New(workers.Options{Overflow: 9}) }) {
		t.Error("Overflow 9 does not panic")
	}
}
