package engine

import (
	"math"
	"time"
)

// moments are what the limits are judged by.
type moments struct {
	seen, frame, size, stall, since tick
	phase                           phase
	owed                            bool   // late replies are outstanding
	trusted                         bool   // it has proved who it is, or waits in line and cannot
	restAfter                       uint64 // periods of silence after which a rest gives memory back; 0: it would not
	draining                        bool   // the server shuts down
	asks                            bool   // its protocol is a Pinger
	judged                          tick   // the connection was judged last
}

// moments is a snapshot of the connection. mu held.
func (k *connRef) moments() moments {
	s := k.s
	m := moments{asks: k.speaks().ping != nil, phase: k.phase(), since: s.since.Load(), seen: s.seen.Load(), trusted: s.trusted, draining: k.sh.srv.draining.Load()}
	if x := k.x.Load(); x != nil {
		m.frame, m.size, m.stall = x.frame.Load(), x.size.Load(), x.stall.Load()
		m.owed = x.promises.open > 0 || x.starves()
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

// isIdle reports whether the connection has nothing under way, as far as moments tell.
func (m moments) isIdle() bool {
	return m.phase == serving && m.frame == 0 && m.stall == 0 && !m.owed
}

// rules are the limits in ticks.
type rules struct {
	idle, frame, stall, linger, auth uint64
	rate                             uint64 // bytes per second
	period                           tick   // how far the clock may lag behind
}

func rulesOf(l Limits) rules {
	ms := func(d time.Duration) uint64 { return max(1, uint64(d.Milliseconds())) }
	r := rules{idle: ms(l.IdleTime), frame: ms(l.FrameTime), stall: ms(l.StallTime), linger: ms(l.LingerTime), auth: ms(l.AuthTime), rate: uint64(l.FrameRate)}
	r.period = tick(min(1000, max(4, min(r.idle, r.frame, r.stall, r.linger, r.auth)/8)))
	return r
}

// hurried is the period while the output budget is exceeded, time enough to see who
// reads and who does not, and in a drain.
func (r *rules) hurried() tick { return max(1, r.period/8) }

// verdict is what the sweeper must do to a connection now.
type verdict uint8

const (
	live    verdict = iota
	measure         // stalled: see whether the peer has taken something
	rest            // quiet for long enough to wait on less memory
	ask             // silent for half of its time: see Pinger
	refuse          // tell the peer why, then close
	abort           // close at once: the peer does not read, or has had its time
)

// How many periods of silence make a connection rest. What it costs is to be rare beside
// the requests before it: to detach an inflight 0.3 µs, to begin a fresh goroutine 3.
const (
	detachAfter     = 2 // half a second by default
	parkedRestAfter = 8 // 2 s
)

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
	case finishing: // handlers get as long to answer as an idle peer gets to ask
		if m.owed && due(m.since, r.idle) {
			return abort, IdleTimeout, 0
		}
	case closing: // a peer that reads is the stall clock's business
		if m.stall == 0 && due(m.since, r.stall) {
			return abort, WriteStall, 0
		}
	case lingering:
		if m.draining && uint64(now-m.since) >= min(r.linger, uint64(drainLinger.Milliseconds())) || due(m.since, r.linger) {
			return abort, 0, 0
		}
	case serving:
		if m.frame != 0 && due(m.frame, r.frame+uint64(m.size)*1000/r.rate) {
			return refuse, FrameTimeout, 0
		}
		if m.since != 0 && !m.trusted && due(m.since, r.auth) {
			return refuse, AuthTimeout, 0
		}
		if m.stall == 0 && !m.owed && due(m.seen, r.idle) {
			return refuse, IdleTimeout, 0
		}
		if half := r.idle / 2; m.asks && m.isIdle() && due(m.seen, half) && int64(int32(m.judged-m.seen)) < int64(half+uint64(r.period)) {
			return ask, 0, next // once: it was not due when the connection was judged last
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
