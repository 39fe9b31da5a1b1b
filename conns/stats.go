package conns

import (
	"strconv"
	"time"
)

// Reason is why the pool closed a connection.
type Reason uint8

// Discarded is the borrower's decision, the others are the pool's.
const (
	Discarded    Reason = iota + 1 // the borrower called Discard
	IdleTooLong                    // MaxIdleTime
	LifetimeOver                   // MaxLifetime, shortened by Jitter
	NotAlive                       // Alive or Probe failed
	PoolReset                      // Reset
	PoolResized                    // Resize
	PoolClosed                     // Close

	reasons = iota + 1
)

var reasonNames = [reasons]string{"", "discarded", "idle", "lifetime", "dead", "reset", "resized", "closed"}

// String returns the reason as one word, for a metric's label.
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

// Stats are the counters and gauges of a Pool. Open + Dialing + Closing never exceeds
// Max, except for a while after Resize.
type Stats struct {
	Max     int
	Open    int // Idle + InUse + Probing
	Idle    int // available
	InUse   int // lent
	Probing int // being probed
	Dialing int
	Closing int
	Waiters int

	Gets         int64         // calls of Get and Do, except those whose context had ended before
	Waits        int64         // of these, calls that had to wait
	WaitTime     time.Duration // total time of finished waits
	WaitTimeouts int64         // waits that ended with their context
	PassedOver   int64         // of these, waiters skipped when a connection became available
	Rejected     int64         // ErrBusy
	Refused      int64         // ErrBackoff

	Dials        int64
	DialFailures int64
	Probes       int64
	Closed       map[Reason]int64
}

// Stats returns the counters and gauges. It takes the pool's lock briefly.
func (p *Pool[C]) Stats() Stats {
	p.mu.Lock()
	idle, dialing, probing, closing := len(p.idle), p.dialing, p.probing, p.closing
	open, waiters, most, n := len(p.all)-dialing-closing, p.waiting.Len(), p.config.Max, p.count
	p.mu.Unlock()
	s := Stats{
		Max: most, Open: open, Idle: idle, InUse: open - idle - probing, Probing: probing,
		Dialing: dialing, Closing: closing, Waiters: waiters,
		Gets: n.gets, Waits: n.waits, WaitTime: time.Duration(p.waited.Load()), WaitTimeouts: n.waitTimeouts,
		PassedOver: n.passedOver, Rejected: n.rejected, Refused: n.refused,
		Dials: n.dials, DialFailures: n.dialFailures, Probes: n.probes,
		Closed: map[Reason]int64{},
	}
	for why, times := range n.closed {
		if times > 0 {
			s.Closed[Reason(why)] = times
		}
	}
	return s
}
