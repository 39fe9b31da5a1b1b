package engine

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
)

// requestBudget bounds the requests in flight of all connections together:
// Limits.TotalInFlight. When it is exhausted, a connection with late replies waits in
// line before its next visit; when half of it is free again, those that have waited
// longest continue, each with a permit for one request, so that none starves. Connections
// whose requests are answered at once do not wait.
//
// A reply counts if it is still owed at the end of the visit that promised it. A request
// that is answered within its visit does not touch owed, which all processors share.
type requestBudget struct {
	limit int64 // Limits.TotalInFlight
	every int32 // batch size in which a running visit counts its promises
	kick  func()

	_    [64]byte    // every visit reads full: keep it off cache lines that are written often
	full atomic.Bool // written under mu
	_    [64]byte

	owed    atomic.Int64 // replies, and permits
	waiting atomic.Int32 // connections in line

	mu   sync.Mutex // in the lock order, only shard.mu comes after it
	line line
}

func (b *requestBudget) init(limit int, kick func()) {
	b.limit, b.kick = int64(limit), kick
	b.every = int32(max(1, min(limit/64, 64)))
	if limit == math.MaxInt32 { // no limit
		b.limit = math.MaxInt64
	}
}

// add adds n to the replies owed; n may be negative.
func (b *requestBudget) add(n int64) {
	now, full := b.owed.Add(n), b.full.Load()
	if n > 0 && !full && now >= b.limit || n < 0 && full && now <= b.limit/2 {
		b.mu.Lock()
		b.full.Store(true) // before owed is read: whoever decrements it after that sees full
		b.resume(b.limit / 2)
		b.mu.Unlock()
	}
}

// resume releases the connections that have waited longest, as far as there is room,
// unless more than most is owed. mu held.
func (b *requestBudget) resume(most int64) {
	owed := b.owed.Load()
	if owed > most {
		return
	}
	for c := b.line.first; c != nil && owed < b.limit; c = b.line.first {
		b.line.remove(c)
		b.waiting.Add(-1)
		owed = b.owed.Add(1)
		c.granted.Store(true)
		c.sh.look(c.key)
	}
	b.full.Store(owed >= b.limit)
}

// wait puts a claim in line, unless room has appeared.
func (b *requestBudget) wait(c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.full.Load() {
		return false
	}
	b.line.push(c)
	if b.waiting.Add(1) == 1 {
		b.kick() // see review
	}
	return true
}

// cancel removes a claim, in whatever state it is.
func (b *requestBudget) cancel(c *claim) {
	b.mu.Lock()
	granted := c.granted.Load()
	if c.in != nil {
		c.in.remove(c)
		b.waiting.Add(-1)
	}
	b.mu.Unlock()
	if granted {
		b.add(-1)
	}
}

// review is the sweeper's check: when more than half of the budget is owed for long,
// connections that have waited for a period continue with the room there is. It reports
// whether any connection waits.
func (b *requestBudget) review(now, period timing.Tick) bool {
	if b.waiting.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.line.first; c != nil && now-c.since > period && now-c.since < timing.Ahead {
		b.resume(b.limit - 1)
	}
	return b.waiting.Load() > 0
}

// mayOwe reports whether a visit may start while the request budget is exhausted. If not,
// the connection waits in line, see inflight.starves. A connection that has never sent a
// request may start as long as at most a quarter is owed beyond the limit. The caller is
// the owner.
func (k *connRef) mayOwe() bool {
	s, b := k.s, &k.sh.srv.requests
	s.mu.Lock()
	defer s.mu.Unlock()
	x := k.x.Load()
	owes := x != nil && x.promises.Open() > 0
	switch {
	case x != nil && x.permit:
		return true
	case x != nil && x.place != nil:
		if !x.place.granted.Load() {
			return false
		}
		x.place, x.permit = nil, true
		x.told++ // the line has counted it
		return true
	case owes || s.own.has(isLate):
	case s.own.has(hasAsked), b.owed.Load() < b.limit+b.limit/4:
		return true
	}
	c := &claim{sh: k.sh, key: k.key, since: k.sh.srv.clock.Read()}
	if !b.wait(c) {
		return true
	}
	k.attach().place = c
	return false
}

// mayOweMore reports whether a visit may continue while the request budget is exhausted.
func (k *connRef) mayOweMore() bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	x := k.x.Load()
	return x == nil || x.promises.Open() == 0
}

// visitOwes updates the request budget after a visit, and records whether it left replies
// owed. mu held, by the owner.
func (k *connRef) visitOwes(x *inflight, t *Turn) {
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
	if x.place != nil && x.place.granted.Load() { // the budget had room again before the visit
		x.place = nil
		x.told++ // the line has counted it
	}
	x.permit = false
	k.recountOwed(x)
}

// recountOwed updates the request budget with what the connection is owed. mu held.
func (k *connRef) recountOwed(x *inflight) {
	owed := x.promises.Open()
	if x.permit {
		owed++
	}
	if n := owed - x.told; n != 0 {
		x.told = owed
		k.sh.srv.requests.add(int64(n))
	}
}
