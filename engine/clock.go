package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// Time in an engine is coarse: one sweeper advances one clock, connections
// stamp moments with it (an atomic load and, at most, a store), and the sweeper
// judges the stamps. Nothing here reads a clock or touches a socket: stamps and
// a tick go in, a verdict and the next moment of interest come out.

// tick is a moment in milliseconds of the server's clock; 0 is "not running".
// It wraps after 49 days, so moments are compared by difference alone.
type tick = uint32

// phase is what a connection is doing as far as its timers are concerned.
type phase uint32

const (
	serving   phase = iota
	finishing       // the peer has sent all it will; what it asked is answered
	closing         // refused, or closed from here; the last output is flushed
	lingering       // everything is said; the peer's rest is dropped
	takenOver       // the socket belongs to user code
)

// stamps are written by a connection and judged by the sweeper.
type stamps struct {
	seen  atomic.Uint32 // bytes last arrived, or a visit last ended
	frame atomic.Uint32 // the unfinished message began
	size  atomic.Uint32 // its size, as far as it is known
	stall atomic.Uint32 // the peer last took some of the output that waits
	phase atomic.Uint32
	since atomic.Uint32 // the phase began

	unsent atomic.Uint32 // 1 + what the kernel still held for the peer when stall was a period old
}

// moments is a snapshot of stamps.
type moments struct {
	seen, frame, size, stall, since tick
	phase                           phase
	owed                            bool // late replies are outstanding
	measured                        bool // unsent is known
	tired                           bool // a rest would give memory back
}

// snapshot reads seen last: what keeps a connection from being idle ends only after
// seen has been stamped, and owed was read before the call.
func (s *stamps) snapshot(owed bool) moments {
	m := moments{
		phase: phase(s.phase.Load()), since: s.since.Load(),
		frame: s.frame.Load(), size: s.size.Load(), stall: s.stall.Load(),
		owed: owed, measured: s.unsent.Load() != 0,
	}
	m.seen = s.seen.Load()
	return m
}

// rules are the limits in ticks.
type rules struct {
	idle, frame, stall, linger uint64
	rate                       uint64 // bytes per second
	period                     tick   // how far the clock may lag behind
}

func rulesOf(l Limits) rules {
	ms := func(d time.Duration) uint64 { return max(1, uint64(d.Milliseconds())) }
	r := rules{idle: ms(l.IdleTime), frame: ms(l.FrameTime), stall: ms(l.StallTime), linger: ms(l.LingerTime), rate: uint64(l.FrameRate)}
	r.period = tick(min(1000, max(4, min(r.idle, r.frame, r.stall, r.linger)/8)))
	return r
}

// hurried is the period while the output budget is exceeded: time enough to see
// who reads and who does not.
func (r *rules) hurried() tick { return max(1, r.period/8) }

// verdict is what the sweeper must do to a connection now.
type verdict uint8

const (
	live    verdict = iota
	measure         // stalled for a period: note what the kernel still holds for the peer
	rest            // quiet for long enough to wait on less memory
	refuse          // tell the peer why, then close
	abort           // close at once: the peer does not read, or has had its time
)

// restAfter is how many periods of silence make a connection rest: about 5 s by
// default, so that a rest (about 3 µs) is rare beside the requests before it.
const restAfter = 8

// never is a due time that does not come.
const never = math.MaxUint64

// judge says what is to be done at now and, for a live connection, in how many
// ticks it must be looked at again. A moment may have been stamped by a clock
// that lagged by a period, so no limit strikes before it is really reached.
func (r *rules) judge(m moments, now tick) (v verdict, why Reason, next uint64) {
	next = never
	due := func(since tick, limit uint64) bool {
		age := uint64(now - since)
		if int32(now-since) < 0 { // stamped just now by a clock ahead of the sweep
			age = 0
		}
		if limit > math.MaxInt32 { // switched off, or beyond what a tick can tell
			return false
		}
		limit += uint64(r.period)
		if age >= limit {
			return true
		}
		next = min(next, limit-age)
		return false
	}
	if m.stall != 0 {
		if due(m.stall, r.stall) {
			return abort, WriteStall, 0
		}
		if !m.measured && r.stall <= math.MaxInt32 && due(m.stall, 0) {
			return measure, 0, next
		}
	}
	switch m.phase {
	case finishing: // handlers get as long to answer as an idle peer gets to ask
		if m.owed && due(m.since, r.idle) {
			return abort, IdleTimeout, 0
		}
	case closing: // a peer that reads is the stall clock's business
		if m.stall == 0 && due(m.since, r.stall) {
			return abort, WriteStall, 0
		}
	case lingering:
		if due(m.since, r.linger) {
			return abort, 0, 0
		}
	case serving:
		if m.frame != 0 && due(m.frame, r.frame+uint64(m.size)*1000/r.rate) {
			return refuse, FrameTimeout, 0
		}
		if m.stall == 0 && !m.owed && due(m.seen, r.idle) {
			return refuse, IdleTimeout, 0
		}
		if m.tired && due(m.seen, restAfter*uint64(r.period)) {
			return rest, 0, next
		}
	}
	return live, 0, next
}
