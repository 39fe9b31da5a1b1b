package engine

import "github.com/hone-go/hone/pool"

// Output of a goroutine engine takes one of two ways. The owner writes the replies of a
// visit directly from Turn.Out: the common case, without a copy. What is posted meanwhile
// or by others is queued, and whoever writes next includes it; otherwise a flusher sends
// it, see goroutine_flusher.go.

// flush writes the output of a visit, and what was posted during it, and blocks
// for as long as the sweeper allows. It reports false when the connection is dead.
func (g *goroutineConn) flush(t *Turn, said bool) bool {
	k, s := &g.ref, g.ref.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t.giveBack(&g.inflight)
	if said {
		s.marks.set(isSaid)
	}
	k.held().visitOwes(&g.inflight, t)
	out := t.Out
	t.Out = t.Out[:0]
	switch {
	case s.dead:
		return false
	case len(out) > 0 && !g.unwritten():
		k.held().queue(&g.inflight, out)
	case len(out) > 0:
		g.waiting += int64(len(out))
		g.writeWaiting(out, cap(out))
	}
	g.waiting -= int64(g.queue.EndVisit(&k.sh.srv.buffers, said))
	g.share.EndVisit(&k.sh.srv.output)
	for !s.dead && !g.writing && !g.blocked.Load() && g.nextFront() {
		g.writeFront()
	}
	return !s.dead
}

// nextFront makes the queued output the front buffer, and reports whether there is any.
// mu held.
func (g *goroutineConn) nextFront() bool {
	g.ref.held().countLate(&g.inflight)
	if !g.front.Lent() && !g.queue.Waits() {
		g.front, g.sent = g.queue.Take(), 0
	}
	return g.front.Lent()
}

// writeFront writes the front buffer and blocks until it is sent. mu held, but not
// meanwhile.
func (g *goroutineConn) writeFront() (alive bool) {
	b, from := g.front, g.sent
	g.front = pool.Buffer{}
	p := b.Bytes()
	alive = g.writeWaiting(p[from:], cap(p))
	g.ref.sh.srv.buffers.GiveBack(b)
	if alive {
		g.blocked.Store(false)
	}
	return alive
}

// writeWaiting writes p, which is already counted as waiting and whose buffer has that
// capacity, and blocks until it is sent. mu held, but not meanwhile. It reports false
// when the connection has ended meanwhile: then mu is another connection's, and not held.
// That cannot happen to the owner.
func (g *goroutineConn) writeWaiting(p []byte, capacity int) (alive bool) {
	k, s := &g.ref, g.ref.s
	g.writing, g.lent = true, capacity
	k.held().recount(&g.inflight)
	g.share.EndVisit(&k.sh.srv.output)
	k.held().startStall(&g.inflight)
	s.mu.Unlock()
	var err error
	total, wide := 0, false
	for total < len(p) && err == nil {
		var n int
		n, err = g.Conn.Write(p[total:min(len(p), total+writeChunk)])
		g.written.Add(uint32(n))
		if total += n; total >= provenFast && !wide {
			wide = true
			k.link().LimitUnsent(moreUnsent)
		}
	}
	k.sh.counts.bytesOut.Add(uint64(total))
	began := g.stall.Swap(0)
	if !g.relock() {
		return false
	}
	if c := &k.sh.srv.clock; c.Now()-began > k.sh.srv.rules.Period {
		k.touch() // a peer that reads slowly is not idle
	}
	g.writing, g.lent = false, 0
	g.waiting -= int64(len(p))
	if wide {
		k.link().LimitUnsent(maxUnsent)
	}
	k.held().recount(&g.inflight)
	if err != nil {
		g.writeFailed()
	}
	k.held().resume(&g.inflight)
	return true
}

// writeChunk is what an adapter must accept within Limits.StallTime, because there is no
// way to know what its peer has acknowledged.
const writeChunk = 32 << 10

// writeFailed ends the connection after a failed write. mu held.
func (g *goroutineConn) writeFailed() {
	g.ref.fail(PeerReset) // no effect if a limit or a shutdown has interrupted the write, and set its own reason
	g.ref.s.dead = true
	g.nudge()
}

// relock locks the mutex again, unless the connection has ended.
func (g *goroutineConn) relock() bool {
	k, ok := g.ref.sh.lock(g.ref.key)
	if ok && g.ended {
		k.s.mu.Unlock()
		return false
	}
	return ok
}

// flushMid writes a visit's output so far, and waits until the kernel has accepted
// it. mu held, but not meanwhile.
func (g *goroutineConn) flushMid(t *Turn) {
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

// startWriter starts a goroutine that writes the front buffer, and what is queued
// meanwhile. mu held.
func (g *goroutineConn) startWriter() {
	if g.writing {
		return
	}
	g.writing = true
	srv := g.ref.sh.srv
	srv.goroutines.Go(func() {
		if !g.relock() {
			return
		}
		g.writing = false
		for !g.ref.s.dead && !g.writing && g.goal == noGoal && g.nextFront() {
			if !g.writeFront() {
				return
			}
		}
		g.wakeOwner() // an owner that waits in a visit continues to write
		g.ref.held().resume(&g.inflight)
		g.ref.s.mu.Unlock()
	})
}
