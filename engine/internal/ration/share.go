package ration

import "github.com/hone-go/hone/engine/internal/timing"

// Share is one connection's part of the output budget. The connection's mutex guards it; only
// the connection's owner writes the claim.
type Share struct {
	charged  int64       // memory for output that the budget has counted
	reserved int64       // for the running visit
	claim    *claim      // in line, or granted
	began    timing.Tick // when the running visit started
	trial    bool        // the running visit is the connection's first
}

// Start reports whether a visit of the connection may start; unsent means that the connection
// has unsent output. If not, the connection waits in line.
func (x *Share) Start(b *Output, weight Weight, unsent bool, who Waiter, key uint64) bool {
	amount, size := b.expect(weight)
	switch c := x.claim; {
	case x.trial || x.reserved > 0:
		return true // the visit has started already
	case amount == little && !unsent && c == nil:
		// A peer that reads its output is served, however little room there is.
	case c.waits():
		return false
	case c != nil:
		amount, size, x.claim = c.amount, c.size, nil
	case !b.admit(amount, size):
		x.claim = &claim{who: who, key: key, amount: amount, size: size, since: b.clock.Read()}
		b.wait(x.claim)
		return false
	}
	x.trial, x.reserved, x.began = amount == unknown, size, b.clock.Now()
	return true
}

// IsClaiming reports whether the connection has a claim, in line or granted. The caller is the
// owner.
func (x *Share) IsClaiming() bool { return x.claim != nil }

// Waits reports whether the connection waits in line.
func (x *Share) Waits() bool { return x.claim.waits() }

// IsTrial reports whether the connection's first visit runs.
func (x *Share) IsTrial() bool { return x.trial }

// IsReserved reports whether there is a reservation for the running visit.
func (x *Share) IsReserved() bool { return x.trial || x.reserved > 0 }

// keepCharged is how far a connection's memory may fall below the charged amount until
// the next sweep: a busy connection would otherwise update a shared cache line with every
// reply.
const keepCharged = 4 << 10

// IsOff reports whether Recount must be called now that the connection's output has that much
// memory.
func (x *Share) IsOff(memory int64) bool {
	n := memory - x.charged
	return n > 0 || n < -keepCharged
}

// Recount updates the budget for the memory of the connection's output, to the byte.
func (x *Share) Recount(b *Output, memory int64) {
	if n := memory - x.charged; n != 0 {
		x.charged = memory
		b.add(n)
	}
}

// EndVisit ends a visit's reservation, now that its output is sent or charged.
func (x *Share) EndVisit(b *Output) {
	if x.IsReserved() {
		b.giveBack(x.trial, x.reserved)
		x.trial, x.reserved = false, 0
	}
}

// For how many periods a visit keeps its reservation, and counts as a trial: a handler
// that does not return, or that waits for other connections of this server, must not
// starve them for ever.
const (
	reservedFor = 2
	triedFor    = 1
)

// Review is the sweeper's check of a reservation.
func (x *Share) Review(b *Output, now, period timing.Tick) {
	if !x.IsReserved() {
		return
	}
	age := now - x.began
	if age >= timing.Ahead {
		return
	}
	if x.trial && age > triedFor*period {
		x.trial = false
		b.giveBack(true, 0)
	}
	if age > reservedFor*period {
		x.EndVisit(b)
	}
}

// Drop ends what the connection has of the budget, except for the memory.
func (x *Share) Drop(b *Output) {
	x.EndVisit(b)
	if x.claim != nil {
		b.drop(x.claim)
		x.claim = nil
	}
}
