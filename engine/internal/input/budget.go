package input

import (
	"math"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// Budget bounds the memory of all unserved input: unfinished messages, and pipelined
// requests that were read ahead. Above three quarters of the limit, the connections that
// hold most for the longest time are closed, see evict; above seven eighths, any
// connection that wants to hold much more is closed at once. The last eighth is reserved
// for connections that hold little.
type Budget struct {
	limit   int64 // Limits.TotalInput
	kick    func()
	buffers *pool.Buffers
	held    atomic.Int64 // capacity of the buffers in use by connections
	peak    atomic.Int64 // approximate peak since memory was last returned
}

// Small is what a connection may always hold.
const Small = 4 << 10

// Init sets the limit, math.MaxInt32 for none, and where memory comes from; kick is called when
// connections must be closed.
func (m *Budget) Init(limit int, buffers *pool.Buffers, kick func()) {
	m.limit, m.buffers, m.kick = int64(limit), buffers, kick
	if limit == math.MaxInt32 { // no limit
		m.limit = math.MaxInt64 / 32
	}
}

// borrow gets a buffer of at least n bytes, at its full capacity.
func (m *Budget) borrow(n int) pool.Buffer {
	b := m.buffers.Get(n)
	size := cap(b.Bytes())
	b.SetLen(size)
	m.Add(int64(size))
	return b
}

// Held returns the bytes held.
func (m *Budget) Held() int64 { return m.held.Load() }

// Limit returns how many bytes may be held.
func (m *Budget) Limit() int64 { return m.limit }

// Peak returns the approximate peak of the bytes held since ForgetPeak.
func (m *Budget) Peak() int64 { return m.peak.Load() }

// ForgetPeak makes what is held the peak.
func (m *Budget) ForgetPeak() { m.peak.Store(m.held.Load()) }

// Add adds n to the bytes held; n may be negative.
func (m *Budget) Add(n int64) {
	now := m.held.Add(n)
	if now > m.High() && now-n <= m.High() {
		m.kick()
	}
	if now > m.peak.Load() {
		m.peak.Store(now)
	}
}

// IsNearlyFull reports whether only connections that hold little may hold more.
func (m *Budget) IsNearlyFull() bool { return m.held.Load() > m.limit-m.limit/8 }

// High is the amount held above which connections are closed.
func (m *Budget) High() int64 { return m.limit - m.limit/4 }

// release puts a buffer back.
func (m *Budget) release(b pool.Buffer) {
	m.held.Add(-int64(cap(b.Bytes())))
	b.Release()
}

// lose gives up a buffer to which user code may still refer.
func (m *Budget) lose(b pool.Buffer) {
	m.held.Add(-int64(cap(b.Bytes())))
	b.Drop()
}
