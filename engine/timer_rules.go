package engine

import (
	"math"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// moments is what the limits are checked against.
type moments struct {
	seen, frame, size, stall, since tick
	within                          tick // that the message may take; 0: as its size allows
	phase                           life.Phase
	owed                            bool   // late replies are outstanding, or not yet written
	trusted                         bool   // authenticated, or waits in line and cannot authenticate
	unfinished                      bool   // waits for the peer's receipt, see breakOff
	restAfter                       uint64 // idle periods after which a rest frees memory; 0: it would not
	draining                        bool   // the server is shutting down
	asks                            bool   // its protocol is a Pinger
	judged                          tick   // last check of the connection
}

// moments returns a snapshot of the connection. mu held.
func (k *connRef) moments() moments {
	s := k.s
	m := moments{asks: k.speaks().ping != nil, phase: k.phase(), since: s.since.Load(), seen: s.seen.Load(), trusted: s.trusted, draining: k.sh.srv.draining.Load()}
	if x := k.x.Load(); x != nil {
		m.frame, m.size, m.within, m.stall = x.frame.Load(), x.size.Load(), x.within.Load(), x.stall.Load()
		m.unfinished = x.unfinished
		m.owed = x.promises.Open() > 0 || x.late > 0 || x.starves()
		m.trusted = m.trusted || x.starves()
		switch {
		case x.g == nil && x.rare == nil && m.frame == 0 && !m.owed && x.waiting == 0:
			m.restAfter = detachAfter
		case x.g != nil && x.g.tired():
			m.restAfter = parkedRestAfter
		}
	}
	return m
}

// isIdle reports whether the connection has nothing in flight, as far as moments shows.
func (m moments) isIdle() bool {
	return m.phase == life.Serving && m.frame == 0 && m.stall == 0 && !m.owed
}

// rules are the limits in ticks.
type rules struct {
	idle, frame, stall, linger, auth uint64
	rate                             uint64 // bytes per second
	period                           tick   // how far the clock may lag
}

func rulesOf(l Limits) rules {
	ms := func(d time.Duration) uint64 { return max(1, uint64(d.Milliseconds())) }
	r := rules{idle: ms(l.IdleTime), frame: ms(l.FrameTime), stall: ms(l.StallTime), linger: ms(l.LingerTime), auth: ms(l.AuthTime), rate: uint64(l.FrameRate)}
	r.period = tick(min(1000, max(4, min(r.idle, r.frame, r.stall, r.linger, r.auth)/8)))
	return r
}

// hurried returns the period in a drain and while the output budget is exceeded, which is
// long enough to tell which peers read.
func (r *rules) hurried() tick { return max(1, r.period/8) }

// message returns how long the message that has begun to arrive may take.
func (r *rules) message(m moments) uint64 {
	if m.within != 0 {
		return uint64(m.within)
	}
	return r.frame + uint64(m.size)*1000/r.rate
}

// verdict is what the sweeper must do to a connection now.
type verdict uint8

const (
	live    verdict = iota
	measure         // stalled: check whether the peer has read something
	rest            // idle for long enough to wait with less memory
	ask             // silent for half of the idle timeout: see Pinger
	refuse          // send the peer the reason, then close
	abort           // close at once: the peer does not read, or its time is up
)

// After how many idle periods a connection rests. A rest must be rare compared with the
// requests before it: detaching an inflight costs 0.3 µs, a new goroutine 3.
const (
	detachAfter     = 2 // half a second by default
	parkedRestAfter = 8 // 2 s
)

// never is a due time that never comes.
const never = math.MaxUint64

// judge returns what to do at now and, for a live connection, in how many ticks to check
// it again. A timestamp may come from a clock that lagged by a period, so no limit
// applies before it is really reached.
func (r *rules) judge(m moments, now tick) (v verdict, why Reason, next uint64) {
	next = never
	due := func(since tick, limit uint64) bool {
		age := uint64(now - since)
		if int32(now-since) < 0 { // stamped just now by a clock ahead of the sweep
			age = 0
		}
		if limit > math.MaxInt32 { // no limit, or beyond the range of a tick
			return false
		}
		limit += uint64(r.period)
		if age >= limit {
			return true
		}
		next = min(next, limit-age)
		return false
	}
	stalled := false
	if m.stall != 0 {
		if due(m.stall, r.stall) {
			return abort, WriteStall, 0
		}
		if r.stall <= math.MaxInt32 && due(m.stall, 0) {
			stalled = true
		}
	}
	switch m.phase {
	case life.Finishing: // handlers get as long to reply as an idle peer gets to send
		if m.owed && due(m.since, r.idle) {
			return abort, IdleTimeout, 0
		}
	case life.Closing: // the stall timer handles a peer that reads
		stalled = stalled || m.unfinished
		if m.stall == 0 && due(m.since, r.stall) {
			return abort, WriteStall, 0
		}
	case life.Lingering:
		if m.draining && uint64(now-m.since) >= min(r.linger, uint64(drainLinger.Milliseconds())) || due(m.since, r.linger) {
			return abort, 0, 0
		}
	case life.Serving:
		if m.frame != 0 && due(m.frame, r.message(m)) {
			return refuse, FrameTimeout, 0
		}
		if m.since != 0 && !m.trusted && due(m.since, r.auth) {
			return refuse, AuthTimeout, 0
		}
		if m.stall == 0 && !m.owed && m.within == 0 && due(m.seen, r.idle) {
			return refuse, IdleTimeout, 0
		}
		if half := r.idle / 2; m.asks && m.isIdle() && due(m.seen, half) && int64(int32(m.judged-m.seen)) < int64(half+uint64(r.period)) {
			return ask, 0, next // once: it was not due at the last check
		}
		if m.restAfter > 0 && due(m.seen, m.restAfter*uint64(r.period)) {
			return rest, 0, next
		}
	}
	if stalled {
		return measure, 0, next
	}
	return live, 0, next
}
