package workers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/workers"
)

// Tasks run on at most four goroutines. Close waits until all are done.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pool := workers.New(workers.Options{Limit: workers.Fixed(4)})
	var sum atomic.Int64
	for n := range 100 {
		if err := pool.Go(ctx, func() { sum.Add(int64(n)) }); err != nil {
			fmt.Println(err)
		}
	}
	if err := pool.Close(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sum.Load(), pool.Stats().Done)
	// Output:
	// 4950 100
}

// For one kind of task, the pool can queue arguments instead of functions: no closure,
// and no allocation.
func ExampleFunc() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	type picture struct{ width, height int }
	var pixels atomic.Int64
	pool := workers.NewFunc(workers.Options{}, func(_ context.Context, p picture) {
		pixels.Add(int64(p.width * p.height))
	})
	for n := range 10 {
		if err := pool.Go(ctx, picture{n, 100}); err != nil {
			fmt.Println(err)
		}
	}
	if err := pool.Close(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(pixels.Load())
	// Output:
	// 4500
}

// Load shedding: a server refuses what it cannot handle instead of making everybody wait.
func ExampleOptions_overflow() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pool := workers.New(workers.Options{Limit: workers.Fixed(1), Queue: 1, Overflow: workers.Reject})
	running, finish := make(chan struct{}), make(chan struct{})
	pool.Go(ctx, func() { close(running); <-finish })
	<-running
	pool.Go(ctx, func() {}) // waits in the queue
	err := pool.Go(ctx, func() {})
	fmt.Println(errors.Is(err, workers.ErrFull))
	close(finish)
	fmt.Println(pool.Close(ctx), pool.Stats().Rejected)
	// Output:
	// true
	// <nil> 1
}

// A Group ends with its first error, and a Future returns a task's result.
func ExamplePool_Group() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pool := workers.New(workers.Options{})
	defer pool.Close(ctx)

	all := pool.Group(ctx)
	for _, name := range []string{"ann", "", "bob"} {
		all.Go(func(context.Context) error {
			if name == "" {
				return errors.New("somebody has no name")
			}
			return nil
		})
	}
	fmt.Println(all.Wait())

	length := workers.Submit(ctx, pool, func(context.Context) (int, error) { return len("hello"), nil })
	fmt.Println(length.Wait(ctx))
	// Output:
	// somebody has no name
	// 5 <nil>
}
