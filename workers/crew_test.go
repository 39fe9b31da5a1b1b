package workers

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A worker keeps the context of its last task for the next one, but not when it rests or
// has ended.
func TestContextsOfFormerTasksAreFreed(t *testing.T) {
	type key struct{}
	type job struct{ began, end chan struct{} }
	f := NewFunc(Options{Limit: Fixed(2)}, func(_ context.Context, j job) { close(j.began); <-j.end })
	var freed atomic.Int32
	begin := func() (end func()) {
		big := new([1 << 20]byte)
		runtime.AddCleanup(big, func(int) { freed.Add(1) }, 0)
		j := job{make(chan struct{}), make(chan struct{})}
		if err := f.Go(context.WithValue(context.Background(), key{}, big), j); err != nil {
			t.Fatal(err)
		}
		<-j.began
		return func() { close(j.end) }
	}
	wantFreed := func(n int32, what string) {
		t.Helper()
		for range 1000 {
			if runtime.GC(); freed.Load() == n {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("%d contexts are free, want %d: that of %s is not", freed.Load(), n, what)
	}
	rests, leaves := begin(), begin()
	f.Resize(1)
	leaves()
	wantFreed(1, "a worker that has ended")
	rests()
	wantFreed(2, "a worker that rests")
	if err := f.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// The list of idle workers keeps none that it has dismissed.
func TestDismissedWorkersAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Fixed(4), IdleTimeout: time.Minute})
		end := make(chan struct{})
		for range 4 {
			p.Go(t.Context(), func() { <-end })
		}
		synctest.Wait()
		close(end)
		synctest.Wait()
		<-time.After(time.Hour)
		p.crew.mu.Lock()
		idle := p.crew.idle
		p.crew.mu.Unlock()
		for i, w := range idle[:cap(idle)] {
			if w != nil {
				t.Errorf("place %d of %d still has a worker", i, cap(idle))
			}
		}
		if cap(idle) == 0 {
			t.Error("no worker was ever idle")
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
