package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/outbox"
	"github.com/hone-go/hone/engine/internal/ration"
)

// Connections and the budgets that all share, see package ration.

// mayProduce reports whether the output budget allows a visit of the connection to start. If
// not, the connection waits in line, see inflight.starves.
func (k owner) mayProduce() bool {
	b, x := &k.sh.srv.output, k.x.Load()
	if k.s.weight == ration.SmallWeight && (x == nil || b.Over() <= 0 && !x.share.IsClaiming()) {
		return true
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	x = k.held().attach()
	return x.share.Start(b, k.s.weight, x.waiting > 0, k.sh, k.key)
}

// memory returns the capacity of all buffers that hold the connection's output. mu held.
func (k held) memory(x *inflight) int64 {
	n := int64(x.lent) + outbox.Capacity(x.front) + x.queue.Memory()
	if k.s.secured {
		n += k.layer().Memory()
	}
	return n
}

// recount updates the budget for the memory of the connection's output.
func (k held) recount(x *inflight) {
	if memory := k.memory(x); x.share.IsOff(memory) {
		x.share.Recount(&k.sh.srv.output, memory)
	}
}

// mayOwe reports whether a visit may start while the request budget is exhausted. If not, the
// connection waits in line, see inflight.starves.
func (k owner) mayOwe() bool {
	s, debt := k.s, new(ration.Debt)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := k.x.Load()
	if x != nil {
		debt = &x.debt
	}
	late := s.own.has(isLate) || x != nil && x.promises.Open() > 0
	may := debt.Start(&k.sh.srv.requests, late, s.own.has(hasAsked), k.sh, k.key)
	if x == nil && !may {
		k.held().attach().debt = *debt
	}
	return may
}

// visitOwes updates the request budget after a visit, and records whether it left replies
// owed. The caller is the owner.
func (k held) visitOwes(x *inflight, t *Turn) {
	if t.requests > 0 {
		k.s.own.set(hasAsked)
		k.s.own.clear(isLate)
	} else if t.refused {
		return // a permit is kept until it is used
	}
	if x == nil {
		return
	}
	if t.requests > 0 && x.promises.Open() > 0 {
		k.s.own.set(isLate)
	}
	x.debt.EndVisit(&k.sh.srv.requests, x.promises.Open())
}

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

// HoldInput counts n more bytes of unserved input that user code holds for the connection
// against Limits.TotalInput, mostly while it has the socket (Turn.TakeOver); a negative n
// counts fewer. It returns false, and counts nothing, when the budget has no room or the
// connection has ended: then the caller should drop the input and end the connection. A
// connection that holds much for long may be closed as InputBudget. What is still counted
// when the connection ends counts no more. HoldInput(0) reports whether it continues.
func (c Conn) HoldInput(n int) bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	m, x := &k.sh.srv.input, k.held().attach()
	r := x.rarely()
	if n >= 0 && k.s.dead || n > 0 && r.holds+n > input.Small && m.IsNearlyFull() {
		x.forgetRare()
		return false
	}
	n = max(n, -r.holds)
	r.holds += n
	m.Add(int64(n))
	x.forgetRare()
	return true
}

// streams ends the reservation of a visit whose output is sent or charged so far: it may take
// for ever, and bounds its output by waiting for the peer.
func (k held) streams(t *Turn) {
	if x := k.x.Load(); x != nil && x.share.IsReserved() {
		if x.share.IsTrial() {
			k.sh.srv.output.Learn(&k.s.weight, t.largest)
		}
		x.share.EndVisit(&k.sh.srv.output)
	}
}
