package engine

import (
	"cmp"

	"github.com/hone-go/hone/engine/internal/life"
)

// A connection's life on a goroutine engine: its goroutine carries out the steps in
// sequence, and blocks where there is something to wait for.

// live runs the connection's steps until the end. It keeps few frames below a waiting
// read, so that an idle connection's stack stays small.
func (g *goroutineConn) live() {
	defer g.leave()
	k, s, own := &g.ref, g.ref.s, g.own
	for {
		s.mu.Lock()
		switch st := life.Next(k.held().facts(own)); st {
		case life.StepEnd:
			s.dead = true // under this hold of mu: anything posted from now on would be lost
			s.mu.Unlock()
			g.over = true
			return
		case life.StepHandOver:
			if !g.lend() {
				g.over = true
				return
			}
		case life.WaitForRoom, life.WaitForSettled, life.WaitForReceipt:
			switch st {
			case life.WaitForRoom:
				k.held().paceFrame(&g.inflight, &g.in, true)
			case life.WaitForReceipt:
				k.held().startStall(&g.inflight)
			}
			if !g.writing && g.nextFront() {
				g.writeFront() // by the owner, which is idle and holds no workspace
				if !s.dead && !g.queue.Waits() {
					k.held().list() // it was posted meanwhile, and the owner may read or serve next
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
		case life.WaitForPeer:
			g.ClearNudge()
			s.mu.Unlock()
			g.Settle()
			g.discard()
		case life.WaitForBytes:
			if s.marks.has(isTired) {
				s.marks.clear(isTired)
				g.used.Store(false)
				g.promises.Forget()
				g.resting = true
				s.mu.Unlock()
				return
			}
			g.ClearNudge()
			if own == nil {
				k.held().paceFrame(&g.inflight, &g.in, false)
				s.mu.Unlock()
				g.readParked() // of a plain socket
			} else {
				k.held().paceFrame(&g.inflight, &own.box, false)
				s.mu.Unlock()
				g.Settle()
				g.readBlocking(own)
			}
		default:
			g.carryOutOn(st, own)
		}
	}
}

// leave ends the connection, unless it continues on a new goroutine: a Parked one, because
// a stack that a visit has grown never shrinks below 4 KiB, and a new one waits on 2; and
// any after runtime.Goexit in user code, to send what is owed.
func (g *goroutineConn) leave() {
	if g.resting {
		g.resting = false
		go g.live()
		return
	}
	if d := cmp.Or(g.own, g.borrowed); d != nil && !g.over && g.ref.phase() != life.TakenOver {
		go g.resumeAfterExit(d)
		return
	}
	if g.own != nil {
		defer g.own.release(g.ref.reason()) // even if Ended or OnClose ends the goroutine
	}
	g.ref.owner().end(&workspace{offLoop: true, ref: g.ref, g: g})
}

// resumeAfterExit continues after user code has ended the goroutine of a visit.
func (g *goroutineConn) resumeAfterExit(d *workspace) {
	k := &g.ref
	k.fail(Panicked)
	k.s.own.set(isStopped)
	d.dropBuffers()
	k.owner().flush(d, true)
	if g.borrowed != nil {
		g.giveBack(d)
	} else {
		d.returnOut()
	}
	g.live()
}

// carryOutOn carries out a step that needs a workspace: own, or a borrowed one. mu is
// held, and released. After runtime.Goexit in user code, resumeAfterExit does the rest.
func (g *goroutineConn) carryOutOn(st life.Step, own *workspace) {
	k, d := &g.ref, own
	if own == nil {
		d = g.borrow()
		k.owner().unpack(d)
	}
	switch st {
	case life.StepServe:
		k.s.mu.Unlock()
		d.lendOut()
		k.owner().serve(d)
	case life.StepRead:
		g.ReadArrived()
		k.s.mu.Unlock()
		g.Settle()
		d.lendOut()
		g.readDrain(d)
	default:
		k.held().carryOut(st, d)
	}
	if own == nil {
		g.giveBack(d)
	} else {
		d.returnOut()
	}
}
