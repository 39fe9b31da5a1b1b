package engine

import (
	"sync/atomic"
	"time"
)

// Time in an engine is coarse: one sweeper advances one clock, connections
// stamp moments with it (an atomic load and, at most, a store), and the sweeper
// judges the stamps. Nothing here reads a clock or touches a socket: stamps and
// a tick go in, a verdict and the next moment of interest come out.

// tick is a moment in milliseconds of the server's clock; 0 is "not running".
// It wraps after 49 days, so moments are compared by difference alone.
type tick = uint32

// clock is a server's coarse time. While anything happens the sweeper advances
// it every period; when nothing has happened for a period it is parked, the
// sweeper sleeps until the next limit is due, and the first connection with
// something to stamp wakes it: an idle server does not tick.
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

// ahead is how far now can be ahead of what read has just measured; beyond it
// the difference is the wrap of a server that slept for weeks.
const ahead = 20 * 60 * 1000

// read brings now up to date.
func (k *clock) read() tick {
	fresh := max(1, tick(time.Since(k.start).Milliseconds()+1))
	for {
		old := k.now.Load()
		if old-fresh < ahead {
			return old // somebody else was faster
		}
		if k.now.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// wakeUp makes now trustworthy and the sweeper tick again.
func (k *clock) wakeUp() {
	k.read()
	if k.parked.CompareAndSwap(true, false) {
		k.sweepNow()
	}
}

// sweepNow asks for a sweep without waiting for it.
func (k *clock) sweepNow() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// stamp sets f to now: about 2 ns while the clock ticks. Parked is looked at on
// both sides of the store: before, because a stale now would make an innocent
// connection look old; after, because a sweeper that parked meanwhile may have
// missed the store (it sets parked first and then looks once more).
func (k *clock) stamp(f *atomic.Uint32) {
	for {
		if k.parked.Load() {
			k.wakeUp()
		}
		if now := k.now.Load(); f.Load() != now {
			f.Store(now)
		}
		if !k.parked.Load() {
			return
		}
	}
}

// enter begins a phase of the connection's life. The moment is stamped before
// the phase, which would otherwise look as old as the server, and again behind
// it, for a sweeper that parked in between.
func (k *clock) enter(since, phase *atomic.Uint32, p phase) {
	k.stamp(since)
	phase.Store(uint32(p))
	k.stamp(since)
}
