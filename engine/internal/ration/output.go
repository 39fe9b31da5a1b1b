package ration

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/fifo"
)

// Output bounds the memory of all unsent output: the capacity of the buffers that
// hold it, plus what running visits are expected to add. A visit starts when there is
// room for it; until then its connection waits in line. The expectation depends on the
// connection's previous visits, see Learn.
type Output struct {
	Meter  // bytes of retained buffers, and reservations of running visits
	spares *Spares
	clock  *timing.Clock

	// The output of a connection's first visit (a trial) cannot be predicted, so few of
	// them run at once: more after trials that produced little, as TCP grows its
	// congestion window, and more when none returns at all, so that blocked handlers do
	// not hold up others: see Hasten.
	trials     atomic.Int32 // running
	most       atomic.Int32 // may run at once
	mostAtOnce atomic.Int32 // peak of running trials since the last sweep
	returned   atomic.Uint32
	seen       uint32       // the sweeper's: trials returned at its last check
	still      int          // the sweeper's: checks since one has returned
	enough     atomic.Int32 // what most should not exceed, if all trials are like the last that returned
	impatient  *time.Timer
	armed      time.Time // when it was set; guarded by mu
	moved      uint32    // the sweeper's: trials returned when it last fired

	waiters
	line [amounts]fifo.Queue[*claim]
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
	b.SetLimit(limit)
	b.spares, b.clock = spares, clock
	spares.isShort, spares.most = b.isShort, b.limit/4
	b.most.Store(fewTrials())
	b.enough.Store(manyTrials)
	b.impatient = time.NewTimer(impatience)
	b.impatient.Stop()
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
	b.enough.Store(enough)
	switch most := b.most.Load(); {
	case most > enough:
		b.most.Store(enough)
	case most < enough && b.trials.Load() > most/2:
		b.most.CompareAndSwap(most, most+1)
	}
}

// manyTrials is more than ever run.
const manyTrials = 1 << 24

// Trials returns how many first visits run.
func (b *Output) Trials() int { return int(b.trials.Load()) }

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
	if amount == much && b.Waiting() > 0 {
		b.mu.Lock()
		others := b.line[much].Len() > 0
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
	first := b.join(&b.line[c.amount], c)
	if c.amount == unknown && b.line[unknown].Len() == 1 {
		b.arm()
	}
	b.mu.Unlock()
	if first {
		b.clock.SweepNow()
	}
	b.grantAll() // room may have appeared before the claim was visible
}

// grantAll starts the claims that have waited longest, as far as there is room. Unknown
// claims are granted in LIFO order: otherwise an attacker that fills the budget with
// connections that do not read would make all newcomers wait behind them.
func (b *Output) grantAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.line {
		l := &b.line[i]
		next := l.First
		if amount(i) == unknown {
			next = l.Last
		}
		for c := next(); c != nil && b.take(c.amount, c.size); c = next() {
			b.grant(c)
		}
	}
}

// drop ends a claim, in whatever state it is.
func (b *Output) drop(c *claim) {
	if b.cancel(c) {
		b.giveBack(c.amount == unknown, c.size)
	} else {
		b.grantAll() // claims after it may need less
	}
}

// giveBack ends a reservation, and a trial.
func (b *Output) giveBack(trial bool, size int64) {
	if trial {
		b.trials.Add(-1)
	}
	if size != 0 { // most visits reserve nothing, and all processors share held
		b.held.Add(-size)
	}
	if b.Waiting() > 0 {
		b.grantAll()
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
	now := b.Meter.Add(n)
	if n < 0 && now <= b.limit/2 && b.spares.Any() {
		b.spares.Release()
	}
	switch {
	case n < 0 && b.Waiting() > 0:
		b.grantAll()
	case now > b.limit && now-n <= b.limit:
		b.clock.SweepNow()
	}
}

// impatience is how often trials must return while others wait for them.
const impatience = time.Millisecond

// Impatient tells the sweeper to call Hasten.
func (b *Output) Impatient() <-chan time.Time { return b.impatient.C }

// Hasten allows a few more trials if none has returned for an impatience: what runs may be slow, and one
// that is quick must not wait for it. A timer that comes late says nothing: the machine is busy.
func (b *Output) Hasten() {
	b.mu.Lock()
	late := time.Since(b.armed) >= 2*impatience
	if b.line[unknown].Len() > 0 {
		b.arm()
	}
	b.mu.Unlock()
	returned, most := b.returned.Load(), b.most.Load()
	if returned == b.moved && !late && b.trials.Load() >= most && most < b.enough.Load() {
		b.most.CompareAndSwap(most, most+fewTrials())
		b.grantAll()
	}
	b.moved = returned
}

// arm sets the timer. mu held.
func (b *Output) arm() {
	b.armed = time.Now()
	b.impatient.Reset(impatience)
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
		b.grantAll()
	case atOnce < most/2:
		b.most.CompareAndSwap(most, max(fewTrials(), most/2))
	}
}

// Oldest returns how long the first claim in any line has waited, and its size.
func (b *Output) Oldest(now timing.Tick) (age timing.Tick, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.line {
		if c := b.line[i].First(); c != nil && now-c.since < timing.Ahead && now-c.since >= age {
			age, size = now-c.since, c.size
		}
	}
	return age, size
}
