package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/pool"
)

// Flow control: how much of a connection may be in flight, and whether its peer reads.

// mostGranted is how many messages are served before flow control is checked again while
// no reply is owed and nothing is unsent: it bounds how far concurrent posts can exceed a
// limit.
const mostGranted = 16

// admit returns how many messages flow control allows before it must be checked again,
// which also happens when there is a reason to end. The first call of a visit separates
// what was posted before the visit.
func (k owner) admit(first bool) int {
	if ends(k.reason()) {
		return 0
	}
	full := k.sh.srv.requests.IsFull()
	if full && first && !k.mayOwe() {
		return 0
	}
	if first && !(k.s.weight == ration.SmallWeight && k.x.Load() == nil) && !k.mayProduce() {
		return 0
	}
	x := k.x.Load()
	if x == nil {
		return mostGranted
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	switch {
	case !k.held().below(x) || full && !first && x.promises.Open() > 0:
		return 0
	case first && k.sh.srv.ordered:
		x.queue.StartVisit() // a reply that was posted since the visit began still precedes its output
	}
	if x.promises.Open() > 0 || x.waiting > 0 {
		return 1
	}
	return mostGranted
}

// below reports whether x is below the limits that pause reading.
func (k held) below(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && !x.waitsForReply() && int(x.promises.Open()) < limits.InFlight && x.waiting < int64(limits.HighWater)
}

// resumes reports whether a pause may end: at half of the limit, as hysteresis.
func (k held) resumes(x *inflight) bool {
	limits := &k.sh.srv.limits
	return !x.blocked.Load() && !x.starves() && !x.waitsForReply() && int(x.promises.Open()) <= limits.InFlight/2 && x.waiting <= int64(limits.HighWater/2)
}

// hasRoom reports whether flow control lets the connection continue after a visit.
func (k owner) hasRoom() bool {
	x := k.x.Load()
	return x == nil || k.isBelow(x)
}

func (k *connRef) isBelow(x *inflight) bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().below(x)
}

// startVisit records what was posted before this visit, so that an ordered protocol's
// replies stay in order. Once it has begun, what was posted stays behind the visit's output.
func (k owner) startVisit() {
	k.s.mu.Lock()
	if q := &k.held().attach().queue; !q.IsVisiting() {
		q.StartVisit()
	}
	k.s.mu.Unlock()
}

// startFrame starts the timer of the message that has begun to arrive and lacks need bytes.
func (k owner) startFrame(in *input.Buffer, need int) {
	if in.Len() > 0 {
		k.attachUnlocked().frame.Start(&k.sh.srv.clock, in.Len()+need)
	}
}

func (k owner) stopFrame() {
	if x := k.x.Load(); x != nil {
		x.frame.Stop()
	}
}

// countLate updates the counters of late replies before they are written.
func (k held) countLate(x *inflight) {
	if x.late > 0 {
		k.sh.counts.late.Add(x.late)
		x.late = 0
		x.debt.Recount(&k.sh.srv.requests, x.promises.Open())
		k.touch() // the idle timeout starts with the reply
	}
}

// dropOutput drops the unsent output.
func (k held) dropOutput(x *inflight) {
	spares := k.sh.srv.output.WhenShort()
	if x.front.Lent() {
		spares.Keep(x.front)
	}
	x.queue.DropAll(spares)
	x.front, x.waiting, x.lent = pool.Buffer{}, 0, 0
	if k.s.secured {
		k.layer().Drop()
	}
	x.share.Recount(&k.sh.srv.output, k.memory(x))
}

// detach frees the inflight of a loop's connection that is quiet. The caller is the owner. A
// connection that is ending keeps it, because it counts what is left to read.
func (k held) detach() {
	x := k.x.Load()
	if x == nil || !x.quiet() || x.rare != nil || x.unfinished || k.s.own.has(drains) || k.phase() != life.Serving {
		return
	}
	x.share.Recount(&k.sh.srv.output, k.memory(x))
	x.share.EndVisit(&k.sh.srv.output)
	k.s.tickets = x.promises.Generation()
	k.x.Store(nil)
	k.sh.srv.putInflight(x)
}

// Limits on what the kernel may buffer for a peer beyond its window. Without one, a peer
// that does not read costs a megabyte or more of kernel memory. A peer that has read much
// without a pause gets more: the socket of a fast reader would otherwise run dry between
// two visits of its loop.
const (
	maxUnsent  = 128 << 10
	moreUnsent = 2 << 20
	provenFast = 1 << 20
)

// notSent records that output is unsent, because the socket is full, or cut off for fairness.
func (k held) notSent(x *inflight, cut bool) {
	if x.cut = cut; cut && x.stall.Load() != 0 {
		k.sh.srv.clock.Stamp(&x.stall)
	}
	k.startStall(x)
}

// startStall starts the stall timer, unless it runs: when our own kernel accepts a little
// more, that does not show that the peer has read anything.
func (k held) startStall(x *inflight) {
	if x.stall.Load() == 0 {
		x.measured = false
		k.sh.srv.clock.Stamp(&x.stall)
	}
}

// hasTaken reports whether a peer that seems to have stalled has read something since the
// last check: what our kernel has accepted, less what it still holds. A blocked write does
// not tell: the kernel wakes it only when a third of a buffer of megabytes is free again, and
// accepts more although the peer reads nothing. (Nor does the peer's kernel report at once:
// with a buffer of 64 KiB, it acknowledges a reader of 16 KiB/s every 8 s.)
func (k held) hasTaken(x *inflight, now timing.Tick) bool {
	written := x.written.Load()
	if k.s.secured {
		written = k.layer().Wrote()
	}
	taken := written - k.link().Unsent()
	progress := !x.measured || int32(taken-x.taken) > 0
	if !progress {
		k.narrow(x)
	} else {
		x.taken, x.measured = taken, true
		if old := x.stall.Load(); old != 0 {
			x.stall.CompareAndSwap(old, now) // a writer may have ended its wait just now
		}
	}
	return progress
}

// widen raises the limit for a peer that keeps reading, after n bytes were sent.
func (k held) widen(x *inflight, n int) {
	if x.wide {
		return
	}
	if x.took += n; x.took >= provenFast {
		x.wide = true
		k.link().LimitUnsent(moreUnsent)
	}
}

// narrow resets the limit of a peer that has stalled.
func (k held) narrow(x *inflight) {
	if x.took = 0; x.wide {
		x.wide = false
		k.link().LimitUnsent(maxUnsent)
	}
}
