package workers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/workers"
)

func TestFuture(t *testing.T) {
	in(t, fixed(1, 1), func(t *testing.T, p *workers.Pool) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, 42)
		future := workers.Submit(ctx, p, func(ctx context.Context) (int, error) {
			return ctx.Value(key{}).(int), errOver
		})
		if v, err := future.Wait(ctx); v != 42 || err != errOver {
			t.Error(v, err)
		}
		g := newGate()
		g.fill(t, p, 1)
		slow := workers.Submit(ctx, p, func(context.Context) (int, error) { return 7, nil })
		hasty, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := slow.Wait(hasty); err != context.DeadlineExceeded {
			t.Error(err)
		}
		close(g.open)
		if v, err := slow.Wait(ctx); v != 7 || err != nil {
			t.Error("the task did not continue after a caller stopped waiting:", v, err)
		}
	})
}

// The documentation of ants warns that a task which submits to its own pool may block it
// for ever. Here every worker does so at once, and waits, in four ways.
func TestAntsSubmitFromInsideDoesNotDeadlock(t *testing.T) {
	for _, queue := range []int{noQueue, 1, 64} {
		for name, nest := range map[string]func(ctx context.Context, p *workers.Pool, f func(context.Context)){
			"future": func(ctx context.Context, p *workers.Pool, f func(context.Context)) {
				workers.Submit(ctx, p, func(ctx context.Context) (int, error) { f(ctx); return 0, nil }).Wait(ctx)
			},
			"group": func(ctx context.Context, p *workers.Pool, f func(context.Context)) {
				g := p.Group(ctx)
				g.Limit = 2
				for range 3 {
					g.Go(func(ctx context.Context) error { f(ctx); return nil })
				}
				if err := g.Wait(); err != nil {
					panic(err)
				}
			},
			"wait group": func(ctx context.Context, p *workers.Pool, f func(context.Context)) {
				var all sync.WaitGroup
				for range 3 {
					all.Add(1)
					if err := p.Go(ctx, func() { defer all.Done(); f(ctx) }); err != nil {
						panic(err)
					}
				}
				all.Wait()
			},
			"two pools": func(ctx context.Context, p *workers.Pool, f func(context.Context)) {
				other := workers.New(fixed(1, 1))
				workers.Submit(ctx, other, func(ctx context.Context) (int, error) {
					return workers.Submit(ctx, p, func(ctx context.Context) (int, error) { f(ctx); return 0, nil }).Wait(ctx)
				}).Wait(ctx)
				other.Close(ctx)
			},
		} {
			t.Run(name, func(t *testing.T) {
				in(t, fixed(2, queue), func(t *testing.T, p *workers.Pool) {
					var leaves atomic.Int32
					var down func(depth int) func(context.Context)
					down = func(depth int) func(context.Context) {
						return func(ctx context.Context) {
							if depth == 0 {
								leaves.Add(1)
							} else {
								nest(ctx, p, down(depth-1))
							}
						}
					}
					var all sync.WaitGroup
					for range 8 {
						all.Go(func() {
							_, err := workers.Submit(t.Context(), p, func(ctx context.Context) (int, error) {
								runtime.Gosched()
								down(3)(ctx)
								return 0, nil
							}).Wait(t.Context())
							if err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
					if n := leaves.Load(); n != 8 && n != 8*27 {
						t.Errorf("%d leaves", n)
					}
				})
			})
		}
	}
}

// A caller that runs a task itself and recovers from its panic can still wait.
func TestPanicOfATaskThatItsCallerRan(t *testing.T) {
	o := fixed(1, noQueue)
	o.Overflow = workers.CallerRuns
	in(t, o, func(t *testing.T, p *workers.Pool) {
		gate := newGate()
		gate.fill(t, p, 1)
		g := p.Group(t.Context())
		if !panics(func() { g.Go(func(context.Context) error { panic(errOver) }) }) {
			t.Error("no panic reached the caller")
		}
		if err := g.Wait(); !errors.Is(err, workers.ErrPanicked) || !errors.Is(err, errOver) {
			t.Error(err)
		}
		close(gate.open)
	})
}

// A task waits for another one, and then the limit shrinks: only the waiting task is left
// to run it.
func TestWaitingTaskHelpsWhenTheLimitShrinks(t *testing.T) {
	in(t, fixed(2, 4), func(t *testing.T, p *workers.Pool) {
		inside, shrunk := make(chan struct{}), make(chan struct{})
		outer := workers.Submit(t.Context(), p, func(ctx context.Context) (int, error) {
			close(inside)
			<-shrunk
			g := p.Group(ctx)
			g.Go(func(context.Context) error { return nil })
			return workers.Submit(ctx, p, func(context.Context) (int, error) { return 5, g.Wait() }).Wait(ctx)
		})
		<-inside
		p.Resize(1)
		close(shrunk)
		if v, err := outer.Wait(t.Context()); v != 5 || err != nil {
			t.Error(v, err)
		}
	})
}

func TestGroup(t *testing.T) {
	in(t, fixed(8, 64), func(t *testing.T, p *workers.Pool) {
		gate := newGate()
		g := p.Group(t.Context())
		g.Limit = 3
		handed := later(func() error {
			for range 9 {
				g.Go(func(context.Context) error { gate.pass(); return nil })
			}
			return nil
		})
		pending(t, handed)
		if n := gate.running.Load(); n != 3 {
			t.Errorf("%d of the group run, its limit is 3", n)
		}
		close(gate.open)
		if err := settled(t, handed); err != nil || g.Wait() != nil {
			t.Error(err)
		}
		if gate.ran.Load() != 9 || gate.most.Load() != 3 {
			t.Errorf("%d ran, %d at once", gate.ran.Load(), gate.most.Load())
		}
	})
}

func TestGroupFirstError(t *testing.T) {
	in(t, fixed(2, 64), func(t *testing.T, p *workers.Pool) {
		g := p.Group(t.Context())
		g.Go(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		g.Go(func(ctx context.Context) error { pass(time.Second); return errOver })
		for range 5 {
			g.Go(func(context.Context) error { t.Error("a task ran after the first error"); return nil })
		}
		if err := g.Wait(); err != errOver {
			t.Error(err)
		}
		over, cancel := context.WithCancelCause(t.Context())
		cancel(errOver)
		if err := p.Group(over).Wait(); err != errOver {
			t.Errorf("a group whose context has ended: %v", err)
		}
		p.Close(t.Context())
		closed := p.Group(t.Context())
		closed.Go(func(context.Context) error { return nil })
		if err := closed.Wait(); err != workers.ErrClosed {
			t.Error(err)
		}
	})
}

// pond #110: a group kept references of its tasks.
func TestPond110GroupKeepsNoPayload(t *testing.T) {
	p := workers.New(fixed(1, 4))
	g := p.Group(context.Background())
	var freed atomic.Int32
	payload := func() func() {
		big := new([1 << 20]byte)
		runtime.AddCleanup(big, func(int) { freed.Add(1) }, 0)
		return func() { big[0]++ }
	}
	var future *workers.Future[int]
	func() {
		f, h := payload(), payload()
		g.Go(func(context.Context) error { f(); return nil })
		future = workers.Submit(context.Background(), p, func(context.Context) (int, error) { h(); return 0, nil })
		p.Go(context.Background(), payload())
	}()
	future.Wait(context.Background())
	workers.Submit(context.Background(), p, func(context.Context) (int, error) { return 0, nil }).Wait(context.Background())
	for range 100 {
		runtime.GC()
		if freed.Load() == 3 {
			break
		}
		runtime.Gosched()
	}
	if n := freed.Load(); n != 3 {
		t.Errorf("%d of 3 payloads were freed", n)
	}
	g.Wait()
	runtime.KeepAlive(future)
	closeAll(t, p)
}

func TestFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum atomic.Int64
		var f *workers.Func[int]
		f = workers.NewFunc(fixed(2, 8), func(ctx context.Context, n int) {
			sum.Add(int64(n))
			if n > 1 {
				f.Go(ctx, n-1) // a nested task
			}
		})
		for range 4 {
			f.Go(t.Context(), 100)
		}
		f.TryGo(1)
		synctest.Wait()
		if sum.Load() != 4*5050+1 {
			t.Errorf("sum %d", sum.Load())
		}
		f.Resize(1)
		if err := f.Close(t.Context()); err != nil || f.Go(t.Context(), 1) != workers.ErrClosed {
			t.Error(err)
		}
		if st := f.Stats(); st.Done+st.Inlined != 401 || f.Decisions() != nil {
			t.Errorf("%+v", st)
		}
	})
}

// Whatever becomes of a task, one counter has it: a task that another one ran while it waited
// for it was once in Submitted alone.
func TestEveryTaskIsCountedOnce(t *testing.T) {
	var total workers.Stats
	for round := range 48 {
		seed := rand.Uint64()
		o := fixed(1+round%3, []int{-1, 1, 16}[round/3%3])
		o.Overflow = workers.Overflow(round % 4)
		o.Priorities = 1 + round%2
		o.Panic = func(any, []byte) {}
		p := workers.New(o)
		var handed, ran, cancelled, full, dropped, panicked atomic.Int64
		var hand func(ctx context.Context, r *rand.Rand, depth int) (result func())
		hand = func(ctx context.Context, r *rand.Rand, depth int) func() {
			ctx, cancel := context.WithCancel(workers.Priority(ctx, r.IntN(2)))
			if r.IntN(4) == 0 {
				go cancel()
			}
			own := rand.New(rand.NewPCG(r.Uint64(), 0))
			handed.Add(1)
			f := workers.Submit(ctx, p, func(inside context.Context) (int, error) {
				ran.Add(1)
				var results []func()
				for range own.IntN(3) * depth {
					results = append(results, hand(inside, own, depth-1))
				}
				for _, result := range results {
					result()
				}
				if own.IntN(16) == 0 {
					panic(errOver)
				}
				return 0, nil
			})
			inside := context.WithoutCancel(ctx) // so that Wait returns the result
			return func() {
				_, err := f.Wait(inside)
				cancel()
				switch {
				case err == nil:
				case errors.Is(err, workers.ErrPanicked):
					panicked.Add(1)
				case err == context.Canceled:
					cancelled.Add(1)
				case err == workers.ErrFull:
					full.Add(1)
				case err == workers.ErrDropped:
					dropped.Add(1)
				default:
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(caller)))
				for range 50 {
					result := hand(t.Context(), r, 2)
					if st := p.Stats(); st.Submitted != st.Started+st.Helped+st.Cancelled+st.Dropped+int64(st.Queued) {
						t.Errorf("seed %d: %+v", seed, st)
					}
					result()
				}
			})
		}
		callers.Wait()
		closeAll(t, p)
		st := p.Stats()
		refused := cancelled.Load() - st.Cancelled - st.Withdrawn // their context had ended before Submit
		if st.Started+st.Helped+st.Inlined != ran.Load() || st.Rejected != full.Load() || st.Dropped != dropped.Load() ||
			st.Panicked != panicked.Load() || refused < 0 || st.Submitted+st.Inlined+st.Withdrawn+st.Rejected+refused != handed.Load() {
			t.Fatalf("seed %d, overflow %d: %d handed, %d ran, %d cancelled, %d full, %d dropped, %d panicked: %+v",
				seed, o.Overflow, handed.Load(), ran.Load(), cancelled.Load(), full.Load(), dropped.Load(), panicked.Load(), st)
		}
		total.Helped += st.Helped
		total.Inlined += st.Inlined
		total.Cancelled += st.Cancelled
		total.Withdrawn += st.Withdrawn
		total.Dropped += st.Dropped
		total.Rejected += st.Rejected
	}
	if min(total.Helped, total.Inlined, total.Cancelled, total.Withdrawn, total.Dropped, total.Rejected) == 0 {
		t.Errorf("not every counter was used: %+v", total)
	}
}

// ants #35, milvus #24536: a recovered panic is a bug that nobody notices. golang/go
// #74275: a panic that is raised again elsewhere has lost its stack.
func TestGolang74275PanicCrashesWithItsStack(t *testing.T) {
	if os.Getenv("HONE_TEST_ROLE") == "panic" {
		p := workers.New(fixed(1, 4))
		g := p.Group(context.Background())
		g.Go(func(context.Context) error { panics(taskThatPanics); taskThatPanics(); return nil })
		g.Wait()
		os.Exit(0) // a crash must not look like success
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=panic")
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("ended with %v", err)
	}
	for _, want := range []string{"panic: over", "taskThatPanics"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
}

//go:noinline
func taskThatPanics() { panic(errOver) }
