package timing

import (
	"math"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// Moments is what the limits are checked against.
type Moments struct {
	Seen, Frame, Size, Stall, Since Tick
	Within                          Tick // that the message may take; 0: as its size allows
	Phase                           life.Phase
	Owed                            bool   // late replies are outstanding, or not yet written
	Trusted                         bool   // authenticated, or waits in line and cannot authenticate
	Unfinished                      bool   // waits for the peer's receipt, see breakOff
	RestAfter                       uint64 // idle periods after which a rest frees memory; 0: it would not
	Draining                        bool   // the server is shutting down
	Asks                            bool   // its protocol is a Pinger
	Judged                          Tick   // last check of the connection
}

// IsIdle reports whether the connection has nothing in flight, as far as m shows.
func (m Moments) IsIdle() bool {
	return m.Phase == life.Serving && m.Frame == 0 && m.Stall == 0 && !m.Owed
}

// Rules are the limits in ticks.
type Rules struct {
	Idle, Frame, Stall, Linger, Auth uint64
	Rate                             uint64 // bytes per second
	Period                           Tick   // how far the clock may lag
}

// Limits are a server's limits.
type Limits struct {
	Idle, Frame, Stall, Linger, Auth time.Duration
	Rate                             int // bytes per second
}

// Rules returns the limits in ticks.
func (l Limits) Rules() Rules {
	ms := func(d time.Duration) uint64 { return max(1, uint64(d.Milliseconds())) }
	r := Rules{Idle: ms(l.Idle), Frame: ms(l.Frame), Stall: ms(l.Stall), Linger: ms(l.Linger), Auth: ms(l.Auth), Rate: uint64(l.Rate)}
	r.Period = Tick(min(1000, max(4, min(r.Idle, r.Frame, r.Stall, r.Linger, r.Auth)/8)))
	return r
}

// Hurried returns the period in a drain and while the output budget is exceeded, which is
// long enough to tell which peers read.
func (r *Rules) Hurried() Tick { return max(1, r.Period/8) }

// message returns how long the message that has begun to arrive may take.
func (r *Rules) message(m Moments) uint64 {
	if m.Within != 0 {
		return uint64(m.Within)
	}
	return r.Frame + uint64(m.Size)*1000/r.Rate
}

// Verdict is what the sweeper must do to a connection now.
type Verdict uint8

// The verdicts.
const (
	Live    Verdict = iota
	Measure         // stalled: check whether the peer has read something
	Rest            // idle for long enough to wait with less memory
	Ask             // silent for half of the idle timeout: see Pinger
	Refuse          // send the peer the reason, then close
	Abort           // close at once: the peer does not read, or its time is up
)

// Limit is what a verdict is for.
type Limit uint8

// The limits, as in engine.Limits.
const (
	NoLimit Limit = iota
	IdleTime
	FrameTime
	StallTime
	AuthTime
)

// Never is a due time that never comes.
const Never = math.MaxUint64

// drainLinger is how long a peer that has been sent everything may keep its side open in
// a drain. By then it has received the refusal, or is gone.
const drainLinger = 250 * time.Millisecond

// Judge returns what to do at now and, for a live connection, in how many ticks to check
// it again. A timestamp may come from a clock that lagged by a period, so no limit
// applies before it is really reached.
func (r *Rules) Judge(m Moments, now Tick) (v Verdict, limit Limit, next uint64) {
	next = Never
	passed := func(since Tick) uint64 {
		if int32(now-since) < 0 { // stamped just now by a clock ahead of the sweep
			return 0
		}
		return uint64(now - since)
	}
	due := func(since Tick, most uint64) bool {
		age := passed(since)
		if most > math.MaxInt32 { // no limit, or beyond the range of a tick
			return false
		}
		most += uint64(r.Period)
		if age >= most {
			return true
		}
		next = min(next, most-age)
		return false
	}
	stalled := false
	if m.Stall != 0 {
		if due(m.Stall, r.Stall) {
			return Abort, StallTime, 0
		}
		if r.Stall <= math.MaxInt32 && due(m.Stall, 0) {
			stalled = true
		}
	}
	switch m.Phase {
	case life.Finishing: // handlers get as long to reply as an idle peer gets to send
		if m.Owed && due(m.Since, r.Idle) {
			return Abort, IdleTime, 0
		}
	case life.Closing: // the stall timer handles a peer that reads
		stalled = stalled || m.Unfinished
		if m.Stall == 0 && due(m.Since, r.Stall) {
			return Abort, StallTime, 0
		}
	case life.Lingering:
		if m.Draining && passed(m.Since) >= min(r.Linger, uint64(drainLinger.Milliseconds())) || due(m.Since, r.Linger) {
			return Abort, 0, 0
		}
	case life.Serving:
		if m.Frame != 0 && due(m.Frame, r.message(m)) {
			return Refuse, FrameTime, 0
		}
		if m.Since != 0 && !m.Trusted && due(m.Since, r.Auth) {
			return Refuse, AuthTime, 0
		}
		if m.Stall == 0 && !m.Owed && m.Within == 0 && due(m.Seen, r.Idle) {
			return Refuse, IdleTime, 0
		}
		if half := r.Idle / 2; m.Asks && m.IsIdle() && due(m.Seen, half) && int64(int32(m.Judged-m.Seen)) < int64(half+uint64(r.Period)) {
			return Ask, 0, next // once: it was not due at the last check
		}
		if m.RestAfter > 0 && due(m.Seen, m.RestAfter*uint64(r.Period)) {
			return Rest, 0, next
		}
	}
	if stalled {
		return Measure, 0, next
	}
	return Live, 0, next
}
