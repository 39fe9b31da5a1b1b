package engine

import "time"

// A visit that waits: for its output to be with the kernel (Turn.Flush), or for more
// input (Turn.More). On an event loop the visit leaves the loop before it waits, and the
// loop, which watches the connection anyway, wakes it up; on a goroutine engine it waits
// in its own reads and writes.

// goal is what the owner of a connection waits for in the middle of a visit.
type goal uint8

const (
	noGoal  goal = iota
	written      // inflight.target is reached
	arrived      // there is something to read
)

// yield notes that a visit could wait now, and leaves the loop when it is not the first
// time: a stream that never has to wait would keep the others of its loop waiting.
func (t *Turn) yield() {
	t.granted = 0 // flow control is asked again
	if t.yields++; t.yields > 1 {
		t.Leave()
	}
}

// flushMid is Turn.Flush.
func (k *connRef) flushMid(t *Turn) error {
	if t.moved && t.d.box.len() == 0 { // More has taken back all that was read
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
		k.flushAndAwait(t)
	}
	t.Out = t.Out[:0]
	t.mark.out = 0
	if s.dead {
		return k.failed(t)
	}
	return nil
}

// failed is the reason that ends a visit in the middle. mu held.
func (k *connRef) failed(t *Turn) error {
	if t.flushed {
		k.s.marks.set(isSaid) // words for the fault would become part of the answer
	}
	if why := k.reason(); why != 0 {
		return why
	}
	return ErrClosed
}

// await waits until somebody wakes the owner, which is not on a loop. mu held, but not
// meanwhile.
func (k *connRef) await(x *inflight, what goal) {
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

// wakeOwner ends the owner's wait in the middle of a visit, if there is one. mu held.
func (x *inflight) wakeOwner() {
	if x.goal != noGoal {
		x.goal = noGoal
		x.wakeUp <- struct{}{}
	}
}

// more is Turn.More. The caller is the owner, in a visit.
func (k *connRef) more(d *workspace, used, need int) (in []byte, err error) {
	t, box := &d.turn, &d.box
	if used < 0 || used > box.len() || need < 0 {
		panic("engine: Turn.More gives back more than there is")
	}
	t.yield()
	t.moved = true
	box.served(used, need)
	k.stopFrame()
	k.touch()
	if need > 0 {
		k.s.mu.Lock()
		k.s.suspect = 0 // the time until now was not the peer's
		err = k.endsVisit(t)
		k.s.mu.Unlock()
	}
	for err == nil && box.want > 0 {
		if err = k.moreInput(d); box.want <= 0 {
			err = nil // all is there, whatever else has happened
		}
	}
	if x := k.x.Load(); x != nil {
		x.frame.Store(0)
		x.noteInput(box)
	}
	k.touch()
	return box.bytes(), err
}

// sendEarlier flushes the answers to the messages before this one, and reports whether it
// has: before More waits, since the peer may need them to go on. What this message has
// answered stays, so that it can be taken back.
func (k *connRef) sendEarlier(t *Turn) (sent bool, err error) {
	if t.mark.out == 0 {
		return false, nil
	}
	answer, flushed := append([]byte(nil), t.Out[t.mark.out:]...), t.flushed
	t.Out = t.Out[:t.mark.out]
	err = k.flushMid(t)
	t.Out, t.flushed = append(t.Out, answer...), flushed
	return true, err
}

// endsVisit is why a visit cannot go on, nil if it can. mu held.
func (k *connRef) endsVisit(t *Turn) error {
	if why := k.s.suspect; why != 0 && why != ClosedHere { // EndIdle waits for the visit's end
		k.reconsider()
	}
	if k.s.dead || ends(k.reason()) {
		return k.failed(t)
	}
	return nil
}

// moreInput reads once, and waits before that if it has to.
func (k *connRef) moreInput(d *workspace) error {
	t, srv := &d.turn, k.sh.srv
	if k.holdsTooMuch(&d.box) {
		k.s.mu.Lock()
		defer k.s.mu.Unlock()
		return k.failed(t)
	}
	var n int
	var err error
	if d.g != nil {
		n, err = d.g.readMore(d)
	} else {
		n, err = k.readMore(d)
	}
	if n > 0 {
		k.touch()
		k.sh.counts.bytesIn.Add(uint64(n))
		if x := k.x.Load(); x != nil {
			x.left = max(0, x.left-n)
		}
		d.box.arrived(n)
		t.owed -= min(t.owed, time.Duration(uint64(n)*uint64(time.Second)/srv.rules.rate))
	}
	if err == nil {
		return nil
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.failed(t)
}

// streamRead is what a visit reads at a time after it has waited: there may be thousands
// of them, and most wait.
const streamRead = 16 << 10

// slim swaps a large buffer to read into for one of that size, before a wait, and before
// a visit leaves its loop: whoever goes on with the loop needs a large one. A connection's
// own stays.
func (d *workspace) slim(size int) {
	if len(d.in) <= streamRead || d.g != nil && !d.g.borrows() {
		return
	}
	srv := d.ref.sh.srv
	d.box.giveBack(&srv.input)
	srv.workspaces.Put(&workspace{in: d.in})
	d.in = make([]byte, size)
	d.box.lend(&srv.input, d.in)
}

// startWait starts the clock for bytes that a visit waits for. Only time in which it
// waits counts, and what arrives pays for some, but for none that is still to come: a
// peer that was fast for long must not be silent for as long. mu held.
func (k *connRef) startWait(x *inflight, t *Turn, lacks int) (began tick) {
	began = k.sh.srv.clock.read()
	k.sh.srv.clock.stamp(&x.frame) // and the sweeper is awake
	x.size.Store(uint32(lacks))
	x.frame.Store(max(1, began-tick(t.owed.Milliseconds())))
	return began
}

// endWait stops it. mu held.
func (k *connRef) endWait(x *inflight, t *Turn, began tick) {
	x.frame.Store(0)
	t.owed += time.Duration(k.sh.srv.clock.read()-began) * time.Millisecond
}
