package admission

import (
	"sync"
	"time"
)

// Pace bounds how many are admitted in a second, and knows when those whom it refuses had better come
// again. Its zero value is not ready for use.
type Pace struct {
	mu       sync.Mutex
	each     time.Duration // between two
	admitted time.Time     // when all that were admitted would have come one by one
	refused  time.Time     // and when all that were refused could come
}

// Init sets how many are admitted a second.
func (p *Pace) Init(rate int) { p.each = time.Second / time.Duration(rate) }

const (
	burst     = time.Second / 4 // as many as come in it may come at once
	leastWait = time.Second
	mostWait  = time.Minute
)

// Admits reports whether one more may come.
func (p *Pace) Admits(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := later(p.admitted, now).Add(p.each); last.Sub(now) <= max(burst, p.each) {
		p.admitted = last
		return true
	}
	if last := later(p.refused, now).Add(p.each); last.Sub(now) <= mostWait { // more would only be a flood's
		p.refused = last
	}
	return false
}

// Within returns within which time those who are refused now should come again, each at a random moment:
// as long as it takes to admit all that were refused.
func (p *Pace) Within(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return leastWait + later(p.refused, now).Sub(now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
