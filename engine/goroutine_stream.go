package engine

import "github.com/hone-go/hone/engine/internal/transport"

// Visits that wait, on a goroutine engine.

// flushAndWait writes a visit's output so far, and waits until the kernel has accepted
// it. mu held, but not meanwhile.
func (g *goroutineConn) flushAndWait(t *Turn) {
	k, s := &g.ref, g.ref.s
	if len(t.Out) > 0 && !s.dead {
		if g.unwritten() {
			g.waiting += int64(len(t.Out))
			g.writeWaiting(t.Out, cap(t.Out))
		} else {
			k.held().queue(&g.inflight, t.Out)
		}
	}
	g.queue.LetEarlierGo()
	for until := g.queue.End(); !s.dead; { // others may post without end
		if g.writing {
			k.held().await(&g.inflight, written)
			continue
		}
		if !g.front.Lent() && g.queue.IsTaken(until) || !g.nextFront() {
			break
		}
		g.writeFront()
	}
	if !s.dead && !g.writing && !g.queue.Waits() {
		k.held().list() // a flusher writes it
	}
}

// readMore reads in the middle of a visit, and blocks until there is something. It
// returns 0, nil when the wait was interrupted and the visit continues.
func (g *goroutineConn) readMore(d *workspace) (n int, err error) {
	k, t, memory := &g.ref, &d.turn, &g.ref.sh.srv.input
	if sent, err := k.owner().sendEarlier(t); sent {
		return 0, err
	}
	d.slim(streamRead)
	p := d.box.Space(memory)
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if err := k.held().endsVisit(t); err != nil {
		return 0, err
	}
	if g.queue.LetEarlierGo(); !g.writing && !g.queue.Waits() {
		k.held().list() // the peer may wait for it
	}
	nudged := g.IsNudged()
	g.ClearNudge()
	began := k.held().startWait(&g.inflight, t, d.box.Want())
	g.noteInput(&d.box)
	k.s.mu.Unlock()
	g.Settle()
	n, err = g.Read(p)
	if err != nil {
		g.readFailed(err)
	}
	k.s.mu.Lock()
	if ends := k.held().endsVisit(t); ends != nil || transport.TimedOut(err) { // a peer that sends nothing more ends it even in a drain
		err = ends
	}
	k.held().endWait(&g.inflight, t, began)
	if nudged {
		g.nudge() // its cause is handled after the visit
	}
	return n, err
}
