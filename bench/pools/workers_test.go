package pools

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/alitto/pond/v2"
	"github.com/bytedance/gopkg/util/gopool"
	"github.com/hone-go/hone/workers"
	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"
)

// burst is how many tasks are handed over before they are waited for, and crew
// how many goroutines a pool has for them.
const burst, crew = 10_000, 8

// taskPools makes each pool, and is how one task is handed to it.
var taskPools = []struct {
	name string
	make func(b *testing.B) (hand func(f func()))
}{
	{"hone", func(b *testing.B) func(func()) { return honeTasks(b, workers.Options{}) }},
	{"hone-deep", func(b *testing.B) func(func()) { return honeTasks(b, workers.Options{Queue: burst}) }},
	{"hone-func", func(b *testing.B) func(func()) {
		ctx := context.Background()
		p := workers.NewFunc(workers.Options{Limit: workers.Fixed(crew), Queue: burst}, func(_ context.Context, f func()) { f() })
		b.Cleanup(func() { p.Close(ctx) })
		return func(f func()) { p.Go(ctx, f) }
	}},
	{"ants", func(b *testing.B) func(func()) {
		p, err := ants.NewPool(crew)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(p.Release)
		return func(f func()) { p.Submit(f) }
	}},
	{"gopool", func(b *testing.B) func(func()) {
		return gopool.NewPool("bench", crew, gopool.NewConfig()).Go
	}},
	{"pond", func(b *testing.B) func(func()) {
		p := pond.NewPool(crew)
		b.Cleanup(p.StopAndWait)
		return func(f func()) { p.Go(f) }
	}},
	{"errgroup", func(b *testing.B) func(func()) {
		var g errgroup.Group
		g.SetLimit(crew)
		b.Cleanup(func() { g.Wait() })
		return func(f func()) { g.Go(func() error { f(); return nil }) }
	}},
	{"go", func(*testing.B) func(func()) { return func(f func()) { go f() } }},
}

func honeTasks(b *testing.B, o workers.Options) func(func()) {
	ctx := context.Background()
	o.Limit = workers.Fixed(crew)
	p := workers.New(o)
	b.Cleanup(func() { p.Close(ctx) })
	return func(f func()) { p.Go(ctx, f) }
}

// deep needs the stack of so many calls.
//
//go:noinline
func deep(calls int) int {
	if calls > 0 {
		return deep(calls-1) + 1
	}
	return 0
}

// BenchmarkTasks compares what a task costs, in bursts: one that does nothing and
// one that needs 100 calls of stack, the latter also in a process where 2 000
// goroutines rest at that depth, from which the runtime learns at a collection
// how large new stacks should be.
func BenchmarkTasks(b *testing.B) {
	for _, depth := range []struct {
		name   string
		calls  int
		parked int
	}{{"shallow", 0, 0}, {"deep", 100, 0}, {"deep-warm", 100, 2000}} {
		for _, pool := range taskPools {
			b.Run(fmt.Sprint(depth.name, "/", pool.name), func(b *testing.B) {
				defer park(depth.parked, depth.calls)()
				hand := pool.make(b)
				var all sync.WaitGroup
				task := func() {
					_ = deep(depth.calls)
					all.Done()
				}
				b.ReportAllocs()
				b.ResetTimer()
				for left := b.N; left > 0; left -= burst {
					n := min(left, burst)
					all.Add(n)
					for range n {
						hand(task)
					}
					all.Wait()
				}
				b.StopTimer()
			})
		}
	}
}

// BenchmarkOneTask hands over one task and waits for it, again and again.
func BenchmarkOneTask(b *testing.B) {
	for _, pool := range taskPools {
		b.Run(pool.name, func(b *testing.B) {
			hand := pool.make(b)
			done := make(chan struct{}, 1)
			task := func() { done <- struct{}{} }
			b.ReportAllocs()
			for b.Loop() {
				hand(task)
				<-done
			}
		})
	}
}

// park has n goroutines wait at a depth, and a collection see them.
func park(n, calls int) (release func()) {
	var parked, gone sync.WaitGroup
	end := make(chan struct{})
	parked.Add(n)
	for range n {
		gone.Go(func() { parkAt(calls, func() { parked.Done(); <-end }) })
	}
	parked.Wait()
	runtime.GC()
	runtime.GC()
	return func() { close(end); gone.Wait(); runtime.GC() }
}

//go:noinline
func parkAt(calls int, f func()) int {
	if calls > 0 {
		return parkAt(calls-1, f) + 1
	}
	f()
	return 0
}
