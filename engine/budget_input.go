package engine

import (
	"math"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// inputBudget bounds the memory of all input that is not served yet: unfinished
// messages, and what a connection has sent ahead. When three quarters of it are used,
// those who have held most for longest are closed, see evict; when seven eighths are,
// whoever would hold much more is closed at once. The last eighth is for those who hold
// little.
type inputBudget struct {
	limit   int64 // Limits.TotalInput
	kick    func()
	buffers *pool.Buffers
	held    atomic.Int64 // capacity of the buffers that connections have borrowed
	peak    atomic.Int64 // about the most since memory was last returned
}

// smallInput is what a connection may hold in any case.
const smallInput = 4 << 10

func (m *inputBudget) init(limit int, buffers *pool.Buffers, kick func()) {
	m.limit, m.buffers, m.kick = int64(limit), buffers, kick
	if limit == math.MaxInt32 { // switched off
		m.limit = math.MaxInt64 / 32
	}
}

// borrow lends n bytes or more, all that there are.
func (m *inputBudget) borrow(n int) pool.Buffer {
	b := m.buffers.Get(n)
	size := cap(b.Bytes())
	b.SetLen(size)
	now := m.held.Add(int64(size))
	if now > m.high() && now-int64(size) <= m.high() {
		m.kick()
	}
	if now > m.peak.Load() {
		m.peak.Store(now)
	}
	return b
}

// high is how much is held when somebody must go.
func (m *inputBudget) high() int64 { return m.limit - m.limit/4 }

// release takes a buffer back.
func (m *inputBudget) release(b pool.Buffer) {
	m.held.Add(-capacity(b))
	b.Release()
}

// lose forgets a buffer that somebody may still hold.
func (m *inputBudget) lose(b pool.Buffer) { m.held.Add(-capacity(b)) }

// holdsTooMuch drops unserved input, and ends its connection, when there is much of it
// and nearly nothing left of the budget. It is asked before more is read or kept: behind
// 4 KiB, a read takes a larger buffer. The caller is the owner.
func (k *connRef) holdsTooMuch(in *inputBuffer) bool {
	m := &k.sh.srv.input
	if in.len() < smallInput || m.held.Load() <= m.limit-m.limit/8 {
		return false
	}
	in.forget(m)
	k.fail(InputBudget)
	return true
}

// noteInput has the sweeper see what input the connection holds. The caller is the
// owner.
func (x *inflight) noteInput(in *inputBuffer) {
	if size := uint32(capacity(in.kept)); x.input.Load() != size {
		x.input.Store(size)
	}
}
