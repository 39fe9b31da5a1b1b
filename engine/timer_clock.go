package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// Time in an engine is coarse: one sweeper advances one clock, connections store
// timestamps from it (an atomic load and, at most, a store), and the sweeper checks the
// timestamps. Nothing here reads a clock or uses a socket: timestamps and a tick go in, a
// verdict and the next due time come out.

// tick is a time in milliseconds of the server's clock; 0 means "not running". It wraps
// after 49 days, so ticks are compared only by difference.
type tick = uint32

// ticks converts a duration; beyond the range of a tick it is no limit, see judge.
func ticks(d time.Duration) tick {
	return tick(min(max(1, d.Milliseconds()), math.MaxInt32+1))
}

// clock is a server's coarse clock. While anything happens the sweeper advances it every
// period; when nothing has happened for a period it is parked, the sweeper sleeps until
// the next limit is due, and the first connection that stores a timestamp wakes it: an
// idle server does not tick.
type clock struct {
	start  time.Time
	now    atomic.Uint32
	parked atomic.Bool
	kick   chan struct{}
}

func (k *clock) init() {
	k.start = time.Now()
	k.kick = make(chan struct{}, 1)
	k.read()
}

// ahead is how far now can be ahead of what read has just measured; a larger difference
// is the wrap of a server that slept for weeks.
const ahead = 20 * 60 * 1000

// read updates now.
func (k *clock) read() tick {
	fresh := max(1, tick(time.Since(k.start).Milliseconds()+1))
	for {
		old := k.now.Load()
		if old-fresh < ahead {
			return old // another goroutine was faster
		}
		if k.now.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// wakeUp updates now and makes the sweeper tick again.
func (k *clock) wakeUp() {
	k.read()
	if k.parked.CompareAndSwap(true, false) {
		k.sweepNow()
	}
}

// sweepNow requests a sweep without waiting for it.
func (k *clock) sweepNow() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// stamp sets f to now: about 2 ns while the clock ticks.
func (k *clock) stamp(f *atomic.Uint32) {
	if k.parked.Load() || f.Load() != k.now.Load() {
		k.stampAgain(f)
	}
}

// stampAgain is stamp where f may not be now. It checks parked before and after the store:
// before, because a stale now would make an active connection look old; after, because a
// sweeper that parked meanwhile may have missed the store (it sets parked first and then
// checks once more).
func (k *clock) stampAgain(f *atomic.Uint32) {
	for {
		if k.parked.Load() {
			k.wakeUp()
		}
		f.Store(k.now.Load())
		if !k.parked.Load() {
			return
		}
	}
}

// enter begins a phase of the connection's life cycle. It stores the time before the
// phase, which would otherwise look as old as the server, and again after it, in case the
// sweeper parked in between.
func (k *clock) enter(since, phase *atomic.Uint32, p life.Phase) {
	k.stamp(since)
	phase.Store(uint32(p))
	k.stamp(since)
}
