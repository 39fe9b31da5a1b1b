package ration

import (
	"math"
	"sync/atomic"
)

// Meter counts the bytes that connections hold of a budget.
type Meter struct {
	limit int64
	held  atomic.Int64
	peak  atomic.Int64 // approximate peak since memory was last returned
}

// SetLimit sets the limit, math.MaxInt32 for none.
func (m *Meter) SetLimit(limit int) {
	if m.limit = int64(limit); limit == math.MaxInt32 {
		m.limit = math.MaxInt64 / 32
	}
}

// Limit returns how many bytes may be held.
func (m *Meter) Limit() int64 { return m.limit }

// Held returns the bytes held.
func (m *Meter) Held() int64 { return m.held.Load() }

// Add adds n to the bytes held, and returns them; n may be negative.
func (m *Meter) Add(n int64) (now int64) {
	if now = m.held.Add(n); now > m.peak.Load() {
		m.peak.Store(now)
	}
	return now
}

// Peak returns the approximate peak of the bytes held since ForgetPeak.
func (m *Meter) Peak() int64 { return m.peak.Load() }

// ForgetPeak makes what is held the peak.
func (m *Meter) ForgetPeak() { m.peak.Store(m.held.Load()) }
