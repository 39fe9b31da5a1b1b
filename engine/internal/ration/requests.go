package ration

import (
	"math"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/fifo"
)

// Requests bounds the requests in flight of all connections together:
// Limits.TotalInFlight. When it is exhausted, a connection with late replies waits in
// line before its next visit; when half of it is free again, those that have waited
// longest continue, each with a permit for one request, so that none starves. Connections
// whose requests are answered at once do not wait.
//
// A reply counts if it is still owed at the end of the visit that promised it. A request
// that is answered within its visit does not touch owed, which all processors share.
type Requests struct {
	limit int64 // Limits.TotalInFlight
	every int32 // batch size in which a running visit counts its promises
	clock *timing.Clock

	_    [64]byte    // every visit reads full: keep it off cache lines that are written often
	full atomic.Bool // written under mu
	_    [64]byte

	owed atomic.Int64 // replies, and permits

	waiters
	line fifo.Queue[*claim]
}

// Init sets the limit, math.MaxInt32 for none.
func (b *Requests) Init(limit int, clock *timing.Clock) {
	b.limit, b.clock = int64(limit), clock
	b.every = int32(max(1, min(limit/64, 64)))
	if limit == math.MaxInt32 { // no limit
		b.limit = math.MaxInt64
	}
}

// IsFull reports whether connections with late replies must wait.
func (b *Requests) IsFull() bool { return b.full.Load() }

// IsHalfFull reports whether more than half of the limit is owed.
func (b *Requests) IsHalfFull() bool { return b.owed.Load() > b.limit/2 }

// Owed returns how many replies and permits are counted.
func (b *Requests) Owed() int64 { return b.owed.Load() }

// add adds n to the replies owed; n may be negative.
func (b *Requests) add(n int64) {
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
func (b *Requests) resume(most int64) {
	owed := b.owed.Load()
	if owed > most {
		return
	}
	for c := b.line.First(); c != nil && owed < b.limit; c = b.line.First() {
		owed = b.owed.Add(1)
		b.grant(c)
	}
	b.full.Store(owed >= b.limit)
}

// wait puts a claim in line, unless room has appeared.
func (b *Requests) wait(c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.full.Load() {
		return false
	}
	if b.join(&b.line, c) {
		b.clock.SweepNow() // see Review
	}
	return true
}

// drop ends a claim, in whatever state it is.
func (b *Requests) drop(c *claim) {
	if b.cancel(c) {
		b.add(-1)
	}
}

// Review is the sweeper's check: when more than half of the budget is owed for long,
// connections that have waited for a period continue with the room there is. It reports
// whether any connection waits.
func (b *Requests) Review(now, period timing.Tick) bool {
	if b.Waiting() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.line.First(); c != nil && now-c.since > period && now-c.since < timing.Ahead {
		b.resume(b.limit - 1)
	}
	return b.Waiting() > 0
}
