package ration

import (
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
)

// Surplus decides when to return memory to the operating system after a peak: the garbage
// collector alone would keep it for minutes.
type Surplus struct {
	low      int         // sweeps in which less than half of the peak was held
	at       timing.Tick // time of the last return
	released int64       // until then
	wasted   atomic.Int64
}

const (
	worthReturning = 16 << 20 // bytes
	betweenReturns = 2000     // ticks
)

// Waste records the output of a visit whose connection had ended: no budget has counted it. It
// reports whether to check soon.
func (r *Surplus) Waste(size int) (soon bool) {
	n := int64(size)
	now := r.wasted.Add(n)
	return now/worthReturning != (now-n)/worthReturning
}

// Review is the sweeper's check: that much is held now and was at the peak, and connections that
// were closed have released that much since the server began. It reports whether to return
// memory, and otherwise whether to check again soon.
func (r *Surplus) Review(now timing.Tick, held, peak, released int64) (due, soon bool) {
	released += r.wasted.Load()
	if had := peak + released - r.released; had < worthReturning || held >= had/2 {
		r.low = 0
		return false, false
	}
	if r.low++; r.low < 2 || now-r.at < betweenReturns && r.at != 0 {
		return false, true
	}
	r.low, r.at, r.released = 0, now, released
	return true, true
}
