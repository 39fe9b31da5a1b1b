// Package timing is the coarse clock and the timeouts of a server. One sweeper advances one
// clock, connections store timestamps from it (an atomic load and, at most, a store), and the
// sweeper checks the timestamps against rules. Rules read no clock and use no socket:
// timestamps and a tick go in, a verdict and the next due time come out.
package timing

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// Tick is a time in milliseconds of the server's clock; 0 means "not running". It wraps
// after 49 days, so ticks are compared only by difference.
type Tick = uint32

// Ticks converts a duration; beyond the range of a tick it is no limit, see Rules.Judge.
func Ticks(d time.Duration) Tick {
	return Tick(min(max(1, d.Milliseconds()), math.MaxInt32+1))
}

// Clock is a server's coarse clock. While anything happens the sweeper advances it every
// period; when nothing has happened for a period it is parked, the sweeper sleeps until
// the next limit is due, and the first connection that stores a timestamp wakes it: an
// idle server does not tick.
type Clock struct {
	start  time.Time
	now    atomic.Uint32
	parked atomic.Bool
	kick   chan struct{}
}

// Init starts the clock.
func (k *Clock) Init() {
	k.start = time.Now()
	k.kick = make(chan struct{}, 1)
	k.Read()
}

// Start returns when the clock began.
func (k *Clock) Start() time.Time { return k.start }

// Now returns what the clock shows.
func (k *Clock) Now() Tick { return k.now.Load() }

// Set makes the clock show that tick, for tests.
func (k *Clock) Set(now Tick) { k.now.Store(now) }

// Age moves the clock's beginning back, for tests.
func (k *Clock) Age(by time.Duration) { k.start = k.start.Add(-by) }

// Parked reports whether the sweeper has parked the clock.
func (k *Clock) Parked() bool { return k.parked.Load() }

// Park parks the clock, or takes that back. Whoever parks it must then check once more that
// nothing has happened.
func (k *Clock) Park(parked bool) { k.parked.Store(parked) }

// Kicks wakes the sweeper.
func (k *Clock) Kicks() <-chan struct{} { return k.kick }

// Ahead is how far now can be ahead of what read has just measured; a larger difference
// is the wrap of a server that slept for weeks.
const Ahead = 20 * 60 * 1000

// Read updates now.
func (k *Clock) Read() Tick {
	fresh := max(1, Tick(time.Since(k.start).Milliseconds()+1))
	for {
		old := k.now.Load()
		if old-fresh < Ahead {
			return old // another goroutine was faster
		}
		if k.now.CompareAndSwap(old, fresh) {
			return fresh
		}
	}
}

// wakeUp updates now and makes the sweeper tick again.
func (k *Clock) wakeUp() {
	k.Read()
	if k.parked.CompareAndSwap(true, false) {
		k.SweepNow()
	}
}

// SweepNow requests a sweep without waiting for it.
func (k *Clock) SweepNow() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// Stamp sets f to now: about 2 ns while the clock ticks.
func (k *Clock) Stamp(f *atomic.Uint32) {
	if k.parked.Load() || f.Load() != k.now.Load() {
		k.stampAgain(f)
	}
}

// stampAgain is stamp where f may not be now. It checks parked before and after the store:
// before, because a stale now would make an active connection look old; after, because a
// sweeper that parked meanwhile may have missed the store (it sets parked first and then
// checks once more).
func (k *Clock) stampAgain(f *atomic.Uint32) {
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

// Enter begins a phase of the connection's life cycle. It stores the time before the
// phase, which would otherwise look as old as the server, and again after it, in case the
// sweeper parked in between.
func (k *Clock) Enter(since, phase *atomic.Uint32, p life.Phase) {
	k.Stamp(since)
	phase.Store(uint32(p))
	k.Stamp(since)
}
