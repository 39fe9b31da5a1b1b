package conns

import (
	"maps"
	"strconv"
	"time"
)

// Reason is why the pool closed a connection.
type Reason uint8

// The reasons. All but Discarded are the pool's own.
const (
	Discarded    Reason = iota + 1 // its borrower failed with it
	IdleTooLong                    // MaxIdleTime
	LifetimeOver                   // MaxLifetime, shortened by Jitter
	NotAlive                       // Alive or Probe said so
	PoolReset                      // Reset
	PoolResized                    // Resize
	PoolClosed                     // Close

	reasons = iota + 1
)

var reasonNames = [reasons]string{"", "discarded", "idle", "lifetime", "dead", "reset", "resized", "closed"}

// String is the reason in one word, as for a metric's label.
func (r Reason) String() string {
	if int(r) < reasons {
		return reasonNames[r]
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

// counters only grow; Pool.mu is held.
type counters struct {
	gets, waits, waitTimeouts, passedOver, rejected, refused int64
	dials, dialFailures, probes                              int64
	closed                                                   [reasons]int64
}

// Stats are the pool's numbers of one moment. Open + Dialing + Closing never
// exceeds Max, but for a while after Resize.
type Stats struct {
	Max     int
	Open    int // Idle + InUse + Probing
	Idle    int // ready to be lent
	InUse   int // lent
	Probing int // with Probe
	Dialing int
	Closing int
	Waiters int

	Gets         int64         // calls of Get and Do, but for those whose context had ended before
	Waits        int64         // of them, those that had to wait
	WaitTime     time.Duration // all waits that have ended together
	WaitTimeouts int64         // waits that ended with their context
	PassedOver   int64         // of them, those that a connection would have gone to
	Rejected     int64         // ErrBusy
	Refused      int64         // ErrBackoff

	Dials        int64
	DialFailures int64
	Probes       int64
	Closed       map[Reason]int64
}

// Stats reads the numbers. It takes the pool's lock for a moment.
func (p *Pool[C]) Stats() Stats {
	p.mu.Lock()
	idle, dialing, probing, closing := len(p.idle), p.dialing, p.probing, p.closing
	open, waiters, most, n := len(p.all)-dialing-closing, p.waiting.len, p.config.Max, p.count
	p.mu.Unlock()
	s := Stats{
		Max: most, Open: open, Idle: idle, InUse: open - idle - probing, Probing: probing,
		Dialing: dialing, Closing: closing, Waiters: waiters,
		Gets: n.gets, Waits: n.waits, WaitTime: time.Duration(p.waited.Load()), WaitTimeouts: n.waitTimeouts,
		PassedOver: n.passedOver, Rejected: n.rejected, Refused: n.refused,
		Dials: n.dials, DialFailures: n.dialFailures, Probes: n.probes,
		Closed: maps.Collect(n.perReason),
	}
	return s
}

// perReason ranges over the reasons that have occurred.
func (n *counters) perReason(yield func(Reason, int64) bool) {
	for why, times := range n.closed {
		if times > 0 && !yield(Reason(why), times) {
			return
		}
	}
}
