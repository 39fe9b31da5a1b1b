package ration

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
)

// Output bounds the memory of all unsent output: the capacity of the buffers that
// hold it, plus what running visits are expected to add. A visit starts when there is
// room for it; until then its connection waits in line. The expectation depends on the
// connection's previous visits, see Learn.
type Output struct {
	limit  int64 // Limits.TotalOutput
	spares *Spares
	clock  *timing.Clock

	held    atomic.Int64 // bytes: retained buffers, and reservations of running visits
	peak    atomic.Int64 // approximate peak since memory was last returned
	waiting atomic.Int32 // claims in line

	// The output of a connection's first visit (a trial) cannot be predicted, so few of
	// them run at once: more after trials that produced little, as TCP grows its
	// congestion window, and more when none returns at all, so that blocked handlers do
	// not hold up others.
	trials     atomic.Int32 // running
	most       atomic.Int32 // may run at once
	mostAtOnce atomic.Int32 // peak of running trials since the last sweep
	returned   atomic.Uint32
	seen       uint32 // the sweeper's: trials returned at its last check
	still      int    // the sweeper's: checks since one has returned

	mu   sync.Mutex // in the lock order, only what a Waiter locks comes after it
	line [amounts]line
}

// amount is how much output is expected of a visit.
type amount uint8

const (
	little  amount = iota // less than 4 KiB
	unknown               // first visit of a connection
	much                  // about as much as its largest recent visit
	amounts
)

// What counts as little output.
const (
	SmallWeight = 12               // a visit that produces less than 4 KiB needs no reservation
	SmallVisit  = 1 << SmallWeight // bytes
)

// Init sets the limit, math.MaxInt32 for none, and where to keep memory while it is short.
func (b *Output) Init(limit int, spares *Spares, clock *timing.Clock) {
	b.limit, b.spares, b.clock = int64(limit), spares, clock
	spares.isShort = b.isShort
	if limit == math.MaxInt32 { // no limit
		b.limit = math.MaxInt64 / 32
	}
	b.most.Store(fewTrials())
}

// fewTrials is the minimum number of trials that may run at once.
func fewTrials() int32 { return int32(runtime.GOMAXPROCS(0)) }

// expect returns how much a visit of a connection of that weight may produce.
func (b *Output) expect(weight Weight) (amount, int64) {
	switch {
	case weight == 0:
		return unknown, 0
	case weight == SmallWeight:
		return little, 0
	}
	return much, min(1<<weight, b.limit/2)
}

// Weight is the binary logarithm of the output of a connection's largest recent visit, 0
// while that is unknown. Its owner has it.
type Weight uint8

// Learn updates the weight of a connection after a visit that has produced size bytes.
func (b *Output) Learn(w *Weight, size int) {
	now := Weight(max(bits.Len(uint(size)), SmallWeight))
	switch {
	case *w == 0:
		b.tried(size)
		*w = now
	case now > *w:
		*w = now
	case now < *w:
		*w--
	}
}

// tried records the output of a connection's first visit. The number of concurrent trials
// is set so that they produce at most a sixteenth of the budget if they are alike.
func (b *Output) tried(size int) {
	b.returned.Add(1)
	enough := max(fewTrials(), int32(min(b.limit/16/int64(max(size, 1)), manyTrials)))
	switch most := b.most.Load(); {
	case most > enough:
		b.most.Store(enough)
	case most < enough && b.trials.Load() > most/2:
		b.most.CompareAndSwap(most, most+1)
	}
}

// manyTrials is more than ever run.
const manyTrials = 1 << 24

// Held returns the bytes held.
func (b *Output) Held() int64 { return b.held.Load() }

// Limit returns how many bytes may be held.
func (b *Output) Limit() int64 { return b.limit }

// Waiting returns how many connections wait in line.
func (b *Output) Waiting() int { return int(b.waiting.Load()) }

// Trials returns how many first visits run.
func (b *Output) Trials() int { return int(b.trials.Load()) }

// Peak returns the approximate peak of the bytes held since ForgetPeak.
func (b *Output) Peak() int64 { return b.peak.Load() }

// ForgetPeak makes what is held the peak.
func (b *Output) ForgetPeak() { b.peak.Store(b.held.Load()) }

// Over returns by how much the limit is exceeded.
func (b *Output) Over() int64 { return b.held.Load() - b.limit }

// take reserves what a visit needs, if there is room. The last quarter of the budget is
// for visits with little expected output, and for output beyond what was expected; a
// sixteenth before it is for unknown visits.
func (b *Output) take(amount amount, size int64) bool {
	held := b.held.Load()
	switch amount {
	case little:
		return held <= b.limit
	case unknown:
		if held > b.limit*12/16 {
			return false
		}
		now := b.trials.Add(1)
		if now > b.most.Load() {
			b.trials.Add(-1)
			return false
		}
		if now > b.mostAtOnce.Load() {
			b.mostAtOnce.Store(now)
		}
		return true
	}
	if held+size > b.limit*11/16 {
		return false
	}
	b.held.Add(size)
	return true
}

// admit is take, but a claim that waits already goes first.
func (b *Output) admit(amount amount, size int64) bool {
	if amount == much && b.waiting.Load() > 0 {
		b.mu.Lock()
		others := b.line[much].first != nil
		b.mu.Unlock()
		if others {
			return false
		}
	}
	return b.take(amount, size)
}

// wait puts a claim in line.
func (b *Output) wait(c *claim) {
	b.mu.Lock()
	b.line[c.amount].push(c)
	first := b.waiting.Add(1) == 1
	b.mu.Unlock()
	if first {
		b.clock.SweepNow()
	}
	b.grant() // room may have appeared before the claim was visible
}

// grant starts the claims that have waited longest, as far as there is room. Unknown
// claims are granted in LIFO order: otherwise an attacker that fills the budget with
// connections that do not read would make all newcomers wait behind them.
func (b *Output) grant() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.line {
		l := &b.line[i]
		next := func() *claim {
			if amount(i) == unknown {
				return l.last
			}
			return l.first
		}
		for c := next(); c != nil && b.take(c.amount, c.size); c = next() {
			l.remove(c)
			b.waiting.Add(-1)
			c.granted.Store(true)
			c.who.Look(c.key)
		}
	}
}

// cancel removes a claim, in whatever state it is.
func (b *Output) cancel(c *claim) {
	b.mu.Lock()
	granted := c.granted.Load()
	if c.in != nil {
		c.in.remove(c)
		b.waiting.Add(-1)
	}
	b.mu.Unlock()
	if granted {
		b.giveBack(c.amount == unknown, c.size)
	} else {
		b.grant() // claims after it may need less
	}
}

// giveBack ends a reservation, and a trial.
func (b *Output) giveBack(trial bool, size int64) {
	if trial {
		b.trials.Add(-1)
	}
	b.held.Add(-size)
	if b.waiting.Load() > 0 {
		b.grant()
	}
}

// isShort reports whether more than half of the budget is held.
func (b *Output) isShort() bool { return b.held.Load() > b.limit/2 }

// WhenShort returns where to keep memory while that is short, otherwise nil.
func (b *Output) WhenShort() *Spares {
	if b.isShort() {
		return b.spares
	}
	return nil
}

// add adds n to the bytes held; n may be negative.
func (b *Output) add(n int64) {
	now := b.held.Add(n)
	if n < 0 && now <= b.limit/2 && b.spares.Any() {
		b.spares.Release()
	}
	switch {
	case n < 0 && b.waiting.Load() > 0:
		b.grant()
	case now > b.limit && now-n <= b.limit:
		b.clock.SweepNow()
	}
	if now > b.peak.Load() {
		b.peak.Store(now)
	}
}

// stuck is for how many sweeps no trial must return before more of them may start.
const stuck = 8

// Review is the sweeper's check of the trials: it allows more when none has returned for
// some sweeps, and fewer when fewer run.
func (b *Output) Review() {
	running, most, returned := b.trials.Load(), b.most.Load(), b.returned.Load()
	atOnce := b.mostAtOnce.Swap(running)
	b.still++
	if returned != b.seen || running < most {
		b.seen, b.still = returned, 0
	}
	switch {
	case b.still > stuck:
		b.most.CompareAndSwap(most, min(2*most, manyTrials))
		b.grant()
	case atOnce < most/2:
		b.most.CompareAndSwap(most, max(fewTrials(), most/2))
	}
}

// Oldest returns how long the first claim in any line has waited, and its size.
func (b *Output) Oldest(now timing.Tick) (age timing.Tick, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.line {
		if c := b.line[i].first; c != nil && now-c.since < timing.Ahead && now-c.since >= age {
			age, size = now-c.since, c.size
		}
	}
	return age, size
}
