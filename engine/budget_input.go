package engine

import (
	"math"
	"sync/atomic"

	"github.com/hone-go/hone/pool"
)

// inputBudget bounds the memory of all unserved input: unfinished messages, and pipelined
// requests that were read ahead. Above three quarters of the limit, the connections that
// hold most for the longest time are closed, see evict; above seven eighths, any
// connection that wants to hold much more is closed at once. The last eighth is reserved
// for connections that hold little.
type inputBudget struct {
	limit   int64 // Limits.TotalInput
	kick    func()
	buffers *pool.Buffers
	held    atomic.Int64 // capacity of the buffers in use by connections
	peak    atomic.Int64 // approximate peak since memory was last returned
}

// smallInput is what a connection may always hold.
const smallInput = 4 << 10

func (m *inputBudget) init(limit int, buffers *pool.Buffers, kick func()) {
	m.limit, m.buffers, m.kick = int64(limit), buffers, kick
	if limit == math.MaxInt32 { // no limit
		m.limit = math.MaxInt64 / 32
	}
}

// borrow gets a buffer of at least n bytes, at its full capacity.
func (m *inputBudget) borrow(n int) pool.Buffer {
	b := m.buffers.Get(n)
	size := cap(b.Bytes())
	b.SetLen(size)
	m.add(int64(size))
	return b
}

// add adds n to the bytes held; n may be negative.
func (m *inputBudget) add(n int64) {
	now := m.held.Add(n)
	if now > m.high() && now-n <= m.high() {
		m.kick()
	}
	if now > m.peak.Load() {
		m.peak.Store(now)
	}
}

// nearlyFull reports whether only connections that hold little may hold more.
func (m *inputBudget) nearlyFull() bool { return m.held.Load() > m.limit-m.limit/8 }

// high is the amount held above which connections are closed.
func (m *inputBudget) high() int64 { return m.limit - m.limit/4 }

// release puts a buffer back.
func (m *inputBudget) release(b pool.Buffer) {
	m.held.Add(-capacity(b))
	b.Release()
}

// lose gives up a buffer to which user code may still refer.
func (m *inputBudget) lose(b pool.Buffer) {
	m.held.Add(-capacity(b))
	b.Drop()
}

// holdsTooMuch drops unserved input, and ends its connection, when there is much of it
// and the budget is almost exhausted. It is called before more is read or kept: beyond 4
// KiB, a read uses a larger buffer. The caller is the owner.
func (k *connRef) holdsTooMuch(in *inputBuffer) bool {
	m := &k.sh.srv.input
	if in.len() < smallInput || !m.nearlyFull() {
		return false
	}
	in.forget(m)
	k.s.own.set(isStopped) // also in a drain, whose reason stays: what follows has lost its beginning
	k.fail(InputBudget)
	return true
}

// noteInput publishes to the sweeper what input the connection holds. The caller is the
// owner.
func (x *inflight) noteInput(in *inputBuffer) {
	if size := uint32(capacity(in.kept)); x.input.Load() != size {
		x.input.Store(size)
	}
}

// HoldInput counts n more bytes of unserved input that user code holds for the connection
// against Limits.TotalInput, mostly while it has the socket (Turn.TakeOver); a negative n
// counts fewer. It returns false, and counts nothing, when the budget has no room or the
// connection has ended: then the caller should drop the input and end the connection. A
// connection that holds much for long may be closed as InputBudget. What is still counted
// when the connection ends counts no more.
func (c Conn) HoldInput(n int) bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	m, x := &k.sh.srv.input, k.attach()
	r := x.rarely()
	if n > 0 && (k.s.dead || r.holds+n > smallInput && m.nearlyFull()) {
		x.forgetRare()
		return false
	}
	n = max(n, -r.holds)
	r.holds += n
	m.add(int64(n))
	x.forgetRare()
	return true
}
