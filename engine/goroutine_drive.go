package engine

import "time"

// A goroutine's side of a connection's life: it carries the steps out one after the
// other, and blocks where there is something to wait for.

// live is the connection's whole life: it carries out steps until the end. The frames
// below it while a read waits are few, so that an idle connection's stack stays small.
func (g *goroutineConn) live() {
	defer g.leave()
	k, s, own := &g.ref, g.ref.s, g.own
	for {
		s.mu.Lock()
		switch st := next(k.facts(own)); st {
		case stepEnd:
			s.dead = true // under this hold: what is posted from now on would be lost
			s.mu.Unlock()
			return
		case stepHandOver:
			if !g.lend() {
				return
			}
		case waitForRoom, waitForSettled:
			if st == waitForRoom {
				k.paceFrame(&g.inflight, &g.in, true)
			}
			if !g.writing && g.nextFront() {
				g.writeFront() // by the owner, who has nothing else to do and holds no workspace
				if !s.dead && !g.queue.held() {
					k.list() // it was posted meanwhile, and the owner may read next, or serve
				}
				s.mu.Unlock()
				break
			}
			s.marks.set(isWaiting)
			if g.wakeUp == nil {
				g.wakeUp = make(chan struct{}, 1)
			}
			s.mu.Unlock()
			<-g.wakeUp
		case waitForPeer:
			g.clearNudge()
			s.mu.Unlock()
			g.discard()
		case waitForBytes:
			if s.marks.has(isTired) {
				s.marks.clear(isTired)
				g.used.Store(false)
				g.promises.forget()
				g.resting = true
				s.mu.Unlock()
				return
			}
			g.clearNudge()
			if own == nil {
				k.paceFrame(&g.inflight, &g.in, false)
				s.mu.Unlock()
				g.readParked()
			} else {
				k.paceFrame(&g.inflight, &own.box, false)
				s.mu.Unlock()
				g.readBlocking(own)
			}
		default:
			g.carryOutOn(st, own)
		}
	}
}

// leave ends the connection, also when user code has ended the goroutine, unless a
// Parked one goes on as a fresh goroutine: the stack that a visit has grown never
// shrinks below 4 KiB, and a fresh one waits on 2.
func (g *goroutineConn) leave() {
	if g.resting {
		g.resting = false
		go g.live()
		return
	}
	if g.borrowing { // user code has ended the goroutine, and nobody else may have the workspace
		g.ref.sh.borrowed.Add(-1)
	}
	why := g.ref.reason()
	g.ref.end(&workspace{beside: true, ref: g.ref, g: g})
	switch own, memory := g.own, &g.ref.sh.srv.input; {
	case own == nil:
	case why == 0 || why == Panicked: // user code may still hold them
		own.box.lose(memory)
	default:
		own.box.forget(memory)
		if own.out.Lent() {
			own.out.Release()
		}
	}
}

// carryOutOn does what a step says that needs a workspace: own, or a borrowed one. mu
// is held, and released. When user code ends the goroutine, the workspace is not
// used again.
func (g *goroutineConn) carryOutOn(st step, own *workspace) {
	k, d := &g.ref, own
	if own == nil {
		d = g.borrow()
		k.unpack(d)
	}
	switch st {
	case stepServe:
		k.s.mu.Unlock()
		d.lendOut()
		k.serve(d)
	case stepRead:
		g.nudged = true // the deadline is ours; clearNudge takes it back
		g.nc.SetReadDeadline(time.Now().Add(drainRead))
		k.s.mu.Unlock()
		d.lendOut()
		g.readDrain(d)
	default:
		k.carryOut(st, d)
	}
	if own == nil {
		g.giveBack(d)
	} else {
		d.returnOut()
	}
}
