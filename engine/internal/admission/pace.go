package admission

import (
	"sync"
	"time"
)

// Pace bounds how many are admitted in a second, and knows when those whom it refuses had better come
// again. Its zero value is not ready for use.
type Pace struct {
	mu     sync.Mutex
	rate   float64 // a second
	free   float64 // how many may come now
	refuse float64 // how many were refused and cannot have come again yet at this rate
	last   time.Time
}

// Init sets how many are admitted a second. So many more may come at once as in a quarter of one.
func (p *Pace) Init(rate int) {
	p.rate = float64(rate)
	p.free = p.most()
}

func (p *Pace) most() float64 { return max(1, p.rate/4) }

// pass accounts for the time that has passed. mu held.
func (p *Pace) pass(now time.Time) {
	if !p.last.IsZero() {
		earned := now.Sub(p.last).Seconds() * p.rate
		p.free = min(p.most(), p.free+earned)
		p.refuse = max(0, p.refuse-earned)
	}
	p.last = now
}

// Admits reports whether one more may come.
func (p *Pace) Admits(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(now)
	if p.free < 1 {
		p.refuse = min(p.refuse+1, mostWait*p.rate) // more would only be a flood's
		return false
	}
	p.free--
	return true
}

// Bounds of the time within which to come again.
const (
	leastWait = time.Second
	mostWait  = 60 // seconds more
)

// Within returns within which time those who are refused now should come again, each at a random moment:
// as long as it takes to admit all that were refused.
func (p *Pace) Within(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(now)
	return leastWait + time.Duration(p.refuse/p.rate*float64(time.Second))
}
