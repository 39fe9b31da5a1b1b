package ration

import "github.com/hone-go/hone/engine/internal/timing"

// Surplus decides when to return memory to the operating system after a peak: the garbage
// collector alone would keep it for minutes.
type Surplus struct {
	low      int         // sweeps in which less than half of the peak was held
	at       timing.Tick // time of the last return
	released int64       // until then
}

const (
	worthReturning = 16 << 20 // bytes
	betweenReturns = 2000     // ticks
)

// Review is the sweeper's check: that much is held now and was at the peak, and connections that
// were closed have released that much since the server began. It reports whether to return
// memory, and otherwise whether to check again soon.
func (r *Surplus) Review(now timing.Tick, held, peak, released int64) (due, soon bool) {
	if peak+released-r.released < worthReturning || held >= peak/2 {
		r.low = 0
		return false, false
	}
	if r.low++; r.low < 2 || now-r.at < betweenReturns && r.at != 0 {
		return false, true
	}
	r.low, r.at, r.released = 0, now, released
	return true, true
}
