package engine

// Visits that wait, on a goroutine engine.

// flushAndWait writes a visit's output so far, and waits until the kernel has accepted
// it. mu held, but not meanwhile.
func (g *goroutineConn) flushAndWait(t *Turn) {
	k, s := &g.ref, g.ref.s
	gone := false
	if len(t.Out) > 0 && !s.dead {
		g.waiting += int64(len(t.Out))
		if gone = g.unwritten(); gone {
			g.writeWaiting(t.Out, cap(t.Out))
		} else if g.queue.insert(k.sh.srv, t.Out) {
			k.recount(&g.inflight)
		}
	}
	for g.queue.letEarlierGo(); !gone && !s.dead; {
		if g.writing {
			k.await(&g.inflight, written)
			continue
		}
		gone = !g.front.Lent() // otherwise the queue, with Out, comes after it
		if !g.nextFront() {
			break
		}
		g.writeFront()
	}
	if !s.dead && !g.writing && !g.queue.held() {
		k.list() // others may post without end, so a flusher writes it
	}
}

// readMore reads in the middle of a visit, and blocks until there is something. It
// returns 0, nil when the wait was interrupted and the visit continues.
func (g *goroutineConn) readMore(d *workspace) (n int, err error) {
	k, t, memory := &g.ref, &d.turn, &g.ref.sh.srv.input
	if g.fd != noDescriptor {
		n, err = readSocket(uintptr(g.fd), d.box.space(memory))
		switch {
		case err == nil:
			return n, nil
		case err != errParked:
			g.readFailed(err)
			return 0, err
		}
	}
	if sent, err := k.sendEarlier(t); sent {
		return 0, err
	}
	d.slim(streamRead)
	p := d.box.space(memory)
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if err := k.endsVisit(t); err != nil {
		return 0, err
	}
	if g.queue.letEarlierGo(); !g.writing && !g.queue.held() {
		k.list() // the peer may wait for it
	}
	nudged := g.nudged
	g.clearNudge()
	began := k.startWait(&g.inflight, t, d.box.want)
	g.noteInput(&d.box)
	k.s.mu.Unlock()
	n, err = readSome(g.nc, p)
	if err != nil {
		g.readFailed(err)
	}
	k.s.mu.Lock()
	err = k.endsVisit(t)
	k.endWait(&g.inflight, t, began)
	if nudged {
		g.nudge() // its cause is handled after the visit
	}
	return n, err
}
