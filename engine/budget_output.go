package engine

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
)

// outputBudget bounds the memory of all unsent output: the capacity of the buffers that
// hold it, plus what running visits are expected to add. A visit starts when there is
// room for it; until then its connection waits in line. The expectation depends on the
// connection's previous visits, see connRef.learn.
type outputBudget struct {
	limit  int64 // Limits.TotalOutput
	spares *spares
	kick   func()

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

	mu   sync.Mutex // in the lock order, only shard.mu comes after it
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

// claim is a connection's place in line.
type claim struct {
	sh      *shard
	key     uint64
	amount  amount
	size    int64 // bytes to reserve
	since   timing.Tick
	granted atomic.Bool
	in      *line // nil while it does not wait
	before  *claim
	behind  *claim
}

// line is a FIFO queue from which any claim can be removed.
type line struct{ first, last *claim }

func (l *line) push(c *claim) {
	c.in, c.before = l, l.last
	if l.last != nil {
		l.last.behind = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *line) remove(c *claim) {
	if c.before != nil {
		c.before.behind = c.behind
	} else {
		l.first = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	} else {
		l.last = c.before
	}
	c.in, c.before, c.behind = nil, nil, nil
}

const (
	smallWeight = 12               // a visit that produces less than 4 KiB needs no reservation
	smallVisit  = 1 << smallWeight // bytes
)

func (b *outputBudget) init(limit int, spares *spares, kick func()) {
	b.limit, b.spares, b.kick = int64(limit), spares, kick
	spares.isShort = b.isShort
	if limit == math.MaxInt32 { // no limit
		b.limit = math.MaxInt64 / 32
	}
	b.most.Store(fewTrials())
}

// fewTrials is the minimum number of trials that may run at once.
func fewTrials() int32 { return int32(runtime.GOMAXPROCS(0)) }

// expect returns how much a visit of a connection of that weight may produce.
func (b *outputBudget) expect(weight uint8) (amount, int64) {
	switch {
	case weight == 0:
		return unknown, 0
	case weight == smallWeight:
		return little, 0
	}
	return much, min(1<<weight, b.limit/2)
}

// learn updates the weight of a connection: the binary logarithm of the output of its
// largest recent visit. The caller is the owner.
func (k *connRef) learn(size int) {
	s, w := k.s, uint8(max(bits.Len(uint(size)), smallWeight))
	switch {
	case s.weight == 0:
		k.sh.srv.output.tried(size)
		s.weight = w
	case w > s.weight:
		s.weight = w
	case w < s.weight:
		s.weight--
	}
}

// tried records the output of a connection's first visit. The number of concurrent trials
// is set so that they produce at most a sixteenth of the budget if they are alike.
func (b *outputBudget) tried(size int) {
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

// mayProduce reports whether the output budget allows a visit of the connection to start.
// If not, the connection waits in line, see inflight.starves. The caller is the owner.
func (k *connRef) mayProduce() bool {
	b := &k.sh.srv.output
	amount, size := b.expect(k.s.weight)
	x := k.x.Load()
	if amount == little && (x == nil || b.held.Load() <= b.limit && x.claim == nil) {
		return true
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	x = k.attach()
	switch c := x.claim; {
	case x.trial || x.reserved > 0:
		return true // the visit has started already
	case amount == little && x.waiting == 0 && c == nil:
		// A peer that reads its output is served, however little room there is.
	case c.waits():
		return false
	case c != nil:
		amount, size, x.claim = c.amount, c.size, nil
	case !b.admit(amount, size):
		x.claim = &claim{sh: k.sh, key: k.key, amount: amount, size: size, since: k.sh.srv.clock.Read()}
		b.wait(x.claim)
		return false
	}
	x.trial, x.reserved, x.began = amount == unknown, size, k.sh.srv.clock.Now()
	return true
}

// starves reports whether the connection waits in line for a budget. mu held, or called
// by the owner.
func (x *inflight) starves() bool { return x.claim.waits() || x.place.waits() }

func (c *claim) waits() bool { return c != nil && !c.granted.Load() }

// over returns by how much the limit is exceeded.
func (b *outputBudget) over() int64 { return b.held.Load() - b.limit }

// take reserves what a visit needs, if there is room. The last quarter of the budget is
// for visits with little expected output, and for output beyond what was expected; a
// sixteenth before it is for unknown visits.
func (b *outputBudget) take(amount amount, size int64) bool {
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
func (b *outputBudget) admit(amount amount, size int64) bool {
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
func (b *outputBudget) wait(c *claim) {
	b.mu.Lock()
	b.line[c.amount].push(c)
	first := b.waiting.Add(1) == 1
	b.mu.Unlock()
	if first {
		b.kick()
	}
	b.grant() // room may have appeared before the claim was visible
}

// grant starts the claims that have waited longest, as far as there is room. Unknown
// claims are granted in LIFO order: otherwise an attacker that fills the budget with
// connections that do not read would make all newcomers wait behind them.
func (b *outputBudget) grant() {
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
			c.sh.look(c.key)
		}
	}
}

// cancel removes a claim, in whatever state it is.
func (b *outputBudget) cancel(c *claim) {
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
func (b *outputBudget) giveBack(trial bool, size int64) {
	if trial {
		b.trials.Add(-1)
	}
	b.held.Add(-size)
	if b.waiting.Load() > 0 {
		b.grant()
	}
}

// isShort reports whether more than half of the budget is held.
func (b *outputBudget) isShort() bool { return b.held.Load() > b.limit/2 }

// whenShort returns where to keep memory while that is short, otherwise nil.
func (b *outputBudget) whenShort() *spares {
	if b.isShort() {
		return b.spares
	}
	return nil
}

// add adds n to the bytes held; n may be negative.
func (b *outputBudget) add(n int64) {
	now := b.held.Add(n)
	if n < 0 && now <= b.limit/2 && b.spares.count.Load() > 0 {
		b.spares.release()
	}
	switch {
	case n < 0 && b.waiting.Load() > 0:
		b.grant()
	case now > b.limit && now-n <= b.limit:
		b.kick()
	}
	if now > b.peak.Load() {
		b.peak.Store(now)
	}
}

// stuck is for how many sweeps no trial must return before more of them may start.
const stuck = 8

// review is the sweeper's check of the trials: it allows more when none has returned for
// some sweeps, and fewer when fewer run.
func (b *outputBudget) review() {
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

// oldest returns how long the first claim in any line has waited, and its size.
func (b *outputBudget) oldest(now timing.Tick) (age timing.Tick, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.line {
		if c := b.line[i].first; c != nil && now-c.since < timing.Ahead && now-c.since >= age {
			age, size = now-c.since, c.size
		}
	}
	return age, size
}

// memory returns the capacity of all buffers that hold the connection's output. mu held.
func (x *inflight) memory() int64 {
	return int64(x.lent) + capacity(x.front) + x.queue.memory()
}

// keepCharged is how far a connection's memory may fall below the charged amount until
// the next sweep: a busy connection would otherwise update a shared cache line with every
// reply.
const keepCharged = 4 << 10

// recount updates the budget for the memory of the connection's output. mu held.
func (k *connRef) recount(x *inflight) {
	if n := x.memory() - x.charged; n > 0 || n < -keepCharged {
		x.charged += n
		k.sh.srv.output.add(n)
	}
}

// recountExactly is recount to the byte. mu held.
func (k *connRef) recountExactly(x *inflight) {
	if n := x.memory() - x.charged; n != 0 {
		x.charged += n
		k.sh.srv.output.add(n)
	}
}

// visitCharged ends a visit's reservation, now that its output is sent or charged. mu
// held.
func (k *connRef) visitCharged(x *inflight) {
	if x.trial || x.reserved > 0 {
		k.sh.srv.output.giveBack(x.trial, x.reserved)
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

// review is the sweeper's check of the connection's share of the budget. mu held.
func (k *connRef) review(x *inflight, now timing.Tick) {
	if !x.writing { // a blocked writer is about to report its progress itself
		k.recountExactly(x)
	}
	if !x.trial && x.reserved == 0 {
		return
	}
	b, period := &k.sh.srv.output, k.sh.srv.rules.Period
	age := now - x.began
	if age >= timing.Ahead {
		return
	}
	if x.trial && age > triedFor*period {
		x.trial = false
		b.giveBack(true, 0)
	}
	if age > reservedFor*period {
		k.visitCharged(x)
	}
}
