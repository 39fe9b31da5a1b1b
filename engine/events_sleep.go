package engine

// sleepPolicy decides how an idle loop waits. Parked in Go's poller it holds no
// thread: one thread can serve several loops, and goroutines beside them get a
// processor at once. Blocked in the kernel it wakes up for less: a fifth to a
// quarter of the time per request at a steady rate. So much to do a wake-up, by
// several loops or for others' replies, favours the first, little the second; a
// single loop without such replies always blocks.
//
// Handlers that were left behind favour the first, too: loops that block keep the
// processors, and such handlers have to wait, thousands of times a second, until
// the scheduler's monitor has taken one away. To change costs a descriptor, hence
// the window.
type sleepPolicy struct {
	parked              bool
	waits, work, beside int
}

const policyWindow = 256 // waits

// slept notes what the loop has done between two sleeps, connections that others
// have made dirty and, beside other loops, reports; and whether handlers that were
// left behind were still at it.
func (r *sleepPolicy) slept(work int, beside bool) {
	r.waits++
	r.work += work
	if beside {
		r.beside++
	}
	if r.waits < policyWindow {
		return
	}
	switch {
	case r.work >= 4*r.waits, 2*r.beside >= r.waits:
		r.parked = true
	case r.work < 2*r.waits && 4*r.beside < r.waits:
		r.parked = false
	}
	r.waits, r.work, r.beside = 0, 0, 0
}
