package engine

import (
	"errors"
	"runtime"
	"time"
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

// More consumes used bytes of the input of Advance, or of the last More, and waits until
// need more bytes have arrived than were left. It returns all unserved input; the slice
// that it returned before is no longer valid, and the count that Advance returns is
// relative to the new slice. The peer must send at Limits.FrameRate; only the time that
// the visit waits here counts. With need = 0 it does not wait; when nothing is left, a
// Flush or Leave after it frees the visit's read buffer (64 KiB on an event loop), which is
// worthwhile before a long reply. The error is the Reason for which the connection ends;
// Advance must return it. Outside an engine More returns errors.ErrUnsupported.
func (t *Turn) More(used, need int) (in []byte, err error) {
	if t.ref == nil {
		return nil, errors.ErrUnsupported
	}
	return t.ref.owner().more(t.d, used, need)
}
