package engine

// How an owner waits in the middle of a visit, and how others make an owner check its connection.

// goal is what the owner of a connection waits for in the middle of a visit.
type goal uint8

const (
	noGoal  goal = iota
	written      // inflight.target is reached
	arrived      // there is something to read
	turned       // its TLS handshake may go on
)

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

// wakeOwner ends the owner's wait in the middle of a visit, if it waits. mu held.
func (x *inflight) wakeOwner() {
	if x.goal != noGoal {
		x.goal = noGoal
		x.wakeUp <- struct{}{}
	}
}

// reached reports whether the kernel has accepted what the owner waits for. mu held.
func (x *inflight) reached() bool { return int32(x.written.Load()-x.target) >= 0 }

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
