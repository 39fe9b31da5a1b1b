// Package pace decides how an event loop waits, when it yields to other goroutines, and whether
// slow handlers are an alarm.
package pace

// Sleep decides how an idle loop waits. Parked in Go's poller it holds no thread:
// one thread can serve several loops, and other goroutines get a processor at once.
// Blocked in the kernel it wakes up more cheaply, which saves a fifth to a quarter of the
// time per request at a steady rate. Much work per wake-up, with several loops or for
// replies from other goroutines, favours parking, little work blocking; a single loop
// without such replies always blocks.
//
// Slow handlers off the loop also favour parking: loops that block keep their processors,
// and such handlers have to wait, thousands of times a second, until the scheduler's
// monitor (sysmon) retakes one. Switching costs a descriptor, hence the window.
type Sleep struct {
	Parked               bool
	waits, work, offLoop int
}

const policyWindow = 256 // waits

// Slept records the work between two sleeps: connections listed by other goroutines and,
// with several loops, events; and whether slow handlers were still running off the loop.
func (r *Sleep) Slept(work int, offLoop bool) {
	r.waits++
	r.work += work
	if offLoop {
		r.offLoop++
	}
	if r.waits < policyWindow {
		return
	}
	switch {
	case r.work >= 4*r.waits, 2*r.offLoop >= r.waits:
		r.Parked = true
	case r.work < 2*r.waits && 4*r.offLoop < r.waits:
		r.Parked = false
	}
	r.waits, r.work, r.offLoop = 0, 0, 0
}
