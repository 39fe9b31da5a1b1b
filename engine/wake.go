package engine

import (
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

// How an owner waits in the middle of a visit, and how others make an owner check its connection.

// await blocks until the owner, which is off the loop, is woken. It unlocks meanwhile.
func (k held) await(x *inflight, what goal) {
	x.goal = what
	if x.wakeUp == nil {
		x.wakeUp = make(chan struct{}, 1)
	}
	if x.g == nil {
		k.watchFor(true)
	}
	wakeUp := x.wakeUp
	k.s.mu.Unlock()
	if waits := k.sh.srv.waits; waits != nil {
		waits(wakeUp)
	}
	<-wakeUp
	k.s.mu.Lock()
}

// notify makes the owner check its connection.
func (k held) notify() {
	switch x := k.x.Load(); {
	case x != nil && x.g != nil:
		x.g.nudge()
	case x != nil && x.goal != noGoal:
		x.wakeOwner()
	default:
		k.list()
	}
}

// resume wakes an owner that waits for room, or for all replies to be sent.
func (k held) resume(x *inflight) {
	if k.s.marks.has(isWaiting) && (k.resumes(x) || x.settled()) {
		k.notify()
	}
}

// endsVisit returns why a visit cannot continue, or nil.
func (k held) endsVisit(t *Turn) error {
	late := false
	if why := k.s.suspect; why != 0 && why != ClosedHere { // EndIdle waits for the visit's end
		late = k.reconsider() // a drain keeps its own reason
	}
	if late || k.s.dead || ends(k.reason()) {
		return k.failed(t)
	}
	return nil
}

// startWait starts the timer for bytes that a visit waits for. Only waiting time counts, and
// arriving bytes earn time, but none for bytes still to come: a peer that was fast for long
// must not be silent for as long.
func (k held) startWait(x *inflight, t *Turn, lacks int) (began timing.Tick) {
	return x.frame.Wait(&k.sh.srv.clock, lacks, timing.Tick(t.owed.Milliseconds()))
}

// endWait stops the timer.
func (k held) endWait(x *inflight, t *Turn, began timing.Tick) {
	x.frame.Pause()
	t.owed += time.Duration(k.sh.srv.clock.Read()-began) * time.Millisecond
}

// failed returns the reason that ends a visit in the middle.
func (k held) failed(t *Turn) error {
	if t.flushed {
		k.s.marks.set(isSaid) // an error message would become part of the reply
	}
	if why := k.reason(); why != 0 {
		return why
	}
	return ErrClosed
}
