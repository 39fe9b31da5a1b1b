package pace

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The watch looks every tick while there is something to see, sleeps when there was nothing for
// some ticks, and looks again as soon as it is woken.
func TestWatchSleepsWhileThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		w.Init()
		stop := make(chan struct{})
		var looks atomic.Int32
		var quiet atomic.Bool
		go w.Run(stop, func() bool { looks.Add(1); return quiet.Load() })
		pass := func(d time.Duration) int32 {
			before := looks.Load()
			<-time.After(d + watchTick/2)
			synctest.Wait()
			return looks.Load() - before
		}
		if n := pass(100 * watchTick); n != 100 {
			t.Errorf("%d looks in 100 ticks with something to see", n)
		}
		w.Wake() // it is awake
		quiet.Store(true)
		if n := pass(1000 * watchTick); n != watchIdle+1 {
			t.Errorf("%d looks in 1000 ticks with nothing to see, want %d", n, watchIdle+1)
		}
		w.Wake()
		if quiet.Store(false); pass(10*watchTick) == 0 {
			t.Error("it was not woken")
		}
		quiet.Store(true)
		pass(100 * watchTick)
		close(stop)
		synctest.Wait()
		if n := pass(10 * watchTick); n != 0 {
			t.Errorf("%d looks after the end", n)
		}
	})
}

// What begins while the watch falls asleep keeps it awake.
func TestWatchLooksOnceMoreBeforeItSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		w.Init()
		stop := make(chan struct{})
		var looks atomic.Int32
		go w.Run(stop, func() bool { return looks.Add(1) != watchIdle+1 })
		<-time.After(10 * watchIdle * watchTick)
		synctest.Wait()
		if n, want := looks.Load(), int32(2*watchIdle+2); n != want {
			t.Errorf("%d looks, want %d", n, want)
		}
		close(stop)
	})
}
