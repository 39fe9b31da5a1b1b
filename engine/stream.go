package engine

import (
	"runtime"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

// Visits that wait: for the kernel to accept their output (Turn.Flush), or for more input
// (Turn.More). On an event loop the visit leaves the loop before it waits, and the loop,
// which watches the connection anyway, wakes it; on a goroutine engine it blocks in its
// own reads and writes.

// yieldsPerBurst is how often a visit passes such a point before other goroutines run. Its
// system calls do not yield: without this, each of many streams would hold a processor for
// all of the scheduler's 10 ms, and newcomers would wait for the sum.
const yieldsPerBurst = 16

// yield records that a visit is at a point where it could wait, and leaves the loop from
// the second time on: a stream that never has to wait would stall the other connections
// of its loop.
func (t *Turn) yield() {
	t.granted = 0 // flow control is checked again
	if t.yields++; t.yields > 1 {
		t.Leave()
		if t.yields%yieldsPerBurst == 0 {
			runtime.Gosched()
		}
	}
}

// flushMid is Turn.Flush.
func (k owner) flushMid(t *Turn) error {
	if t.moved && t.d.box.Len() == 0 { // More has returned all that was read
		t.d.slim(helperRead)
	}
	t.yield()
	t.flushed = t.flushed || len(t.Out) > t.mark.out
	t.largest = max(t.largest, len(t.Out))
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := k.x.Load(); x != nil && x.g != nil {
		x.g.flushAndWait(t)
	} else {
		k.held().flushAndAwait(t)
	}
	k.held().streams(t)
	t.Out = t.Out[:0]
	t.mark.out = 0
	if s.dead {
		return k.held().failed(t)
	}
	return nil
}

// streams ends the reservation of a visit whose output is sent or charged so far: it may take
// for ever, and bounds its output by waiting for the peer.
func (k held) streams(t *Turn) {
	if x := k.x.Load(); x != nil && x.share.IsReserved() {
		if x.share.IsTrial() {
			k.sh.srv.output.Learn(&k.s.weight, t.largest)
		}
		x.share.EndVisit(&k.sh.srv.output)
	}
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

// more is Turn.More. The caller is the owner, in a visit.
func (k owner) more(d *workspace, used, need int) (in []byte, err error) {
	t, box := &d.turn, &d.box
	if used < 0 || used > box.Len() || need < 0 {
		panic("engine: Turn.More with used beyond the unserved input")
	}
	t.yield()
	t.moved = true
	box.Served(used, need)
	k.stopFrame()
	k.touch()
	if need > 0 {
		k.s.mu.Lock()
		k.s.suspect = 0 // the time until now was not the peer's fault
		err = k.held().endsVisit(t)
		k.s.mu.Unlock()
	}
	for err == nil && box.Want() > 0 {
		if err = k.moreInput(d); box.Want() <= 0 {
			err = nil // all input is here, so other errors can wait
		}
	}
	if x := k.x.Load(); x != nil {
		x.frame.Pause()
		x.noteInput(box)
	}
	k.touch()
	return box.Bytes(), err
}

// sendEarlier flushes the replies to earlier messages, before More waits, because the
// peer may need them to continue. It reports whether it did. The reply to the current
// message stays, so that it can be rolled back.
func (k owner) sendEarlier(t *Turn) (sent bool, err error) {
	if t.mark.out == 0 {
		return false, nil
	}
	answer, flushed := append([]byte(nil), t.Out[t.mark.out:]...), t.flushed
	t.Out = t.Out[:t.mark.out]
	err = k.flushMid(t)
	t.Out, t.flushed = append(t.Out, answer...), flushed
	return true, err
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

// moreInput reads once, and waits before that if necessary.
func (k owner) moreInput(d *workspace) error {
	t, srv := &d.turn, k.sh.srv
	n, err := 0, error(InputBudget)
	switch {
	case k.holdsTooMuch(&d.box):
	case d.g != nil:
		n, err = d.g.readMore(d)
	default:
		n, err = k.readMore(d)
	}
	if n > 0 {
		k.touch()
		if !k.s.secured { // pull does the same
			k.sh.counts.bytesIn.Add(uint64(n))
			if x := k.x.Load(); x != nil {
				x.left = max(0, x.left-n)
			}
			d.box.Arrived(n)
		}
		t.owed -= min(t.owed, time.Duration(uint64(n)*uint64(time.Second)/srv.rules.Rate))
	}
	if err == nil {
		return nil
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().failed(t)
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
