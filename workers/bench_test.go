package workers_test

import (
	"context"
	"sync"
	"testing"

	"github.com/hone-go/hone/workers"
)

// BenchmarkBurst submits 10 000 tasks and waits for them, with 8 workers. See bench/pools
// for the comparison with other libraries.
func BenchmarkBurst(b *testing.B) {
	const burst = 10_000
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	done := all.Done
	p := workers.New(fixed(8, 0))
	f := workers.NewFunc(fixed(8, 0), func(_ context.Context, all *sync.WaitGroup) { all.Done() })
	defer p.Close(ctx)
	defer f.Close(ctx)
	for _, way := range []struct {
		name string
		hand func()
	}{
		{"Go", func() { p.Go(context.Background(), done) }},
		{"Go with a cancellable context", func() { p.Go(ctx, done) }},
		{"Go with a context for each task", func() {
			ctx, cancel := context.WithCancel(context.Background())
			p.Go(ctx, func() { cancel(); done() })
		}},
		{"Func", func() { f.Go(context.Background(), &all) }},
		{"Func with a cancellable context", func() { f.Go(ctx, &all) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for left := b.N; left > 0; left -= burst {
				n := min(left, burst)
				all.Add(n)
				for range n {
					way.hand()
				}
				all.Wait()
			}
		})
	}
}

// BenchmarkSubmit submits one task and waits for its result.
func BenchmarkSubmit(b *testing.B) {
	ctx := context.Background()
	p := workers.New(fixed(8, 0))
	defer p.Close(ctx)
	b.ReportAllocs()
	for b.Loop() {
		workers.Submit(ctx, p, func(context.Context) (int, error) { return 1, nil }).Wait(ctx)
	}
}

// A task allocates nothing, with cancellable contexts and others.
func TestNoAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := workers.New(fixed(2, 0))
	done := make(chan struct{}, 1)
	tell := func() { done <- struct{}{} }
	f := workers.NewFunc(fixed(2, 0), func(context.Context, int) { tell() })
	for name, hand := range map[string]func(){
		"Go":                  func() { p.Go(context.Background(), tell) },
		"Go, cancellable":     func() { p.Go(ctx, tell) },
		"TryGo":               func() { p.TryGo(tell) },
		"Func.Go":             func() { f.Go(context.Background(), 1) },
		"Func.Go, own worker": func() { f.TryGo(1) },
	} {
		if n := testing.AllocsPerRun(1000, func() { hand(); <-done }); n > 0 {
			t.Errorf("%s: %v allocations per task", name, n)
		}
	}
	closeAll(t, p)
	f.Close(ctx)
}
