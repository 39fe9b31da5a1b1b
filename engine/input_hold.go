package engine

import "github.com/hone-go/hone/engine/internal/input"

// holdsTooMuch drops unserved input, and ends its connection, when there is much of it and
// the budget is almost exhausted. It is called before more is read or kept: beyond 4 KiB, a
// read uses a larger buffer.
func (k owner) holdsTooMuch(in *input.Buffer) bool {
	m := &k.sh.srv.input
	if in.Len() < input.Small || !m.IsNearlyFull() {
		return false
	}
	in.Forget(m)
	k.s.own.set(isStopped) // also in a drain, whose reason stays: what follows has lost its beginning
	k.fail(InputBudget)
	return true
}

// noteInput publishes to the sweeper what input the connection holds. The caller is the
// owner.
func (x *inflight) noteInput(in *input.Buffer) {
	if size := uint32(in.Kept()); x.input.Load() != size {
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
	m, x := &k.sh.srv.input, k.held().attach()
	r := x.rarely()
	if n > 0 && (k.s.dead || r.holds+n > input.Small && m.IsNearlyFull()) {
		x.forgetRare()
		return false
	}
	n = max(n, -r.holds)
	r.holds += n
	m.Add(int64(n))
	x.forgetRare()
	return true
}
