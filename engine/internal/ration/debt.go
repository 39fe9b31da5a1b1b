package ration

// Debt is one connection's part of the request budget. The connection's mutex guards it; only
// the connection's owner writes the place.
type Debt struct {
	told   int32  // replies owed that the budget has counted, and the permit
	permit bool   // the budget allows one request
	place  *claim // in line, or granted
}

// Start reports whether a visit may start while the budget is exhausted. If not, the
// connection waits in line. One that has late replies (isLate) waits; one that has never sent
// a request (hasAsked) may start as long as at most a quarter is owed beyond the limit; all
// others may. The caller is the owner.
func (x *Debt) Start(b *Requests, isLate, hasAsked bool, who Waiter, key uint64) bool {
	switch {
	case x.permit:
		return true
	case x.place != nil:
		if !x.place.granted.Load() {
			return false
		}
		x.usePlace()
		x.permit = true
		return true
	case isLate:
	case hasAsked, b.owed.Load() < b.limit+b.limit/4:
		return true
	}
	c := &claim{who: who, key: key, since: b.clock.Read()}
	if !b.wait(c) {
		return true
	}
	x.place = c
	return false
}

// usePlace ends a granted claim, which the line has counted.
func (x *Debt) usePlace() {
	x.place = nil
	x.told++
}

// Waits reports whether the connection waits in line.
func (x *Debt) Waits() bool { return x.place.waits() }

// IsZero reports whether the budget has counted nothing for the connection, which does not
// wait either.
func (x *Debt) IsZero() bool { return x.place == nil && x.told == 0 }

// Promised updates the budget in a visit that has promised many replies and is owed that many
// now: one visit must not exceed the limit by much.
func (x *Debt) Promised(b *Requests, owed int32) {
	if owed-x.told >= b.every {
		x.Recount(b, owed)
	}
}

// EndVisit updates the budget after a visit that has used its permit, or needs none.
func (x *Debt) EndVisit(b *Requests, owed int32) {
	if x.place != nil && x.place.granted.Load() { // the budget had room again before the visit
		x.usePlace()
	}
	x.permit = false
	x.Recount(b, owed)
}

// Recount updates the budget with what the connection is owed.
func (x *Debt) Recount(b *Requests, owed int32) {
	if x.permit {
		owed++
	}
	if n := owed - x.told; n != 0 {
		x.told = owed
		b.add(int64(n))
	}
}

// Drop ends what the connection has of the budget.
func (x *Debt) Drop(b *Requests) {
	if x.permit = false; x.place != nil {
		b.drop(x.place)
		x.place = nil
	}
	x.Recount(b, 0)
}
