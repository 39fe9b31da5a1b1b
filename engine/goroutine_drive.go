package engine

import "time"

// A connection's life on a goroutine engine: its goroutine carries out the steps in
// sequence, and blocks where there is something to wait for.

// live runs the connection's steps until the end. It keeps few frames below a waiting
// read, so that an idle connection's stack stays small.
func (g *goroutineConn) live() {
	defer g.leave()
	k, s, own := &g.ref, g.ref.s, g.own
	for {
		s.mu.Lock()
		switch st := next(k.facts(own)); st {
		case stepEnd:
			s.dead = true // under this hold of mu: anything posted from now on would be lost
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
				g.writeFront() // by the owner, which is idle and holds no workspace
				if !s.dead && !g.queue.held() {
					k.list() // it was posted meanwhile, and the owner may read or serve next
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

// leave ends the connection, also after runtime.Goexit in user code, unless a Parked one
// continues on a new goroutine: a stack that a visit has grown never shrinks below 4 KiB,
// and a new one waits on 2.
func (g *goroutineConn) leave() {
	if g.resting {
		g.resting = false
		go g.live()
		return
	}
	if g.borrowing { // after runtime.Goexit in user code, which may still refer to the workspace
		g.ref.sh.borrowed.Add(-1)
	}
	why := g.ref.reason()
	g.ref.end(&workspace{offLoop: true, ref: g.ref, g: g})
	switch own, memory := g.own, &g.ref.sh.srv.input; {
	case own == nil:
	case why == 0 || why == Panicked: // user code may still refer to them
		own.box.lose(memory)
	default:
		own.box.forget(memory)
		if own.out.Lent() {
			own.out.Release()
		}
	}
}

// carryOutOn carries out a step that needs a workspace: own, or a borrowed one. mu is
// held, and released. After runtime.Goexit in user code, the workspace is not reused.
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
		g.nudged = true // marks our own deadline; clearNudge resets it
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
