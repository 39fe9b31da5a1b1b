package input

import (
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/pool"
)

// Budget bounds the memory of all unserved input: unfinished messages, and pipelined
// requests that were read ahead. Above three quarters of the limit, the connections that
// hold most for the longest time are closed, see evict; above seven eighths, any
// connection that wants to hold much more is closed at once. The last eighth is reserved
// for connections that hold little.
type Budget struct {
	ration.Meter // capacity of the buffers in use by connections
	kick         func()
	buffers      *pool.Buffers
}

// Small is what a connection may always hold.
const Small = 4 << 10

// Init sets the limit, math.MaxInt32 for none, and where memory comes from; kick is called when
// connections must be closed.
func (m *Budget) Init(limit int, buffers *pool.Buffers, kick func()) {
	m.SetLimit(limit)
	m.buffers, m.kick = buffers, kick
}

// borrow gets a buffer of at least n bytes, at its full capacity.
func (m *Budget) borrow(n int) pool.Buffer {
	b := m.buffers.Get(n)
	size := cap(b.Bytes())
	b.SetLen(size)
	m.Add(int64(size))
	return b
}

// Add adds n to the bytes held; n may be negative.
func (m *Budget) Add(n int64) {
	now := m.Meter.Add(n)
	if now > m.High() && now-n <= m.High() {
		m.kick()
	}
}

// IsNearlyFull reports whether only connections that hold little may hold more.
func (m *Budget) IsNearlyFull() bool { return m.Held() > m.Limit()-m.Limit()/8 }

// High is the amount held above which connections are closed.
func (m *Budget) High() int64 { return m.Limit() - m.Limit()/4 }

// release puts a buffer back.
func (m *Budget) release(b pool.Buffer) {
	m.Meter.Add(-int64(cap(b.Bytes())))
	b.Release()
}

// lose gives up a buffer to which user code may still refer.
func (m *Budget) lose(b pool.Buffer) {
	m.Meter.Add(-int64(cap(b.Bytes())))
	b.Drop()
}
