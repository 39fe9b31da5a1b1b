package engine

import (
	"net"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
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
				g.frame.Pace(&k.sh.srv.clock, true) // the timer of a message stops while we do not read
			case life.WaitForReceipt:
				k.held().startStall(&g.inflight)
			}
			if !g.writing && g.nextFront() {
				g.writeFront() // by the owner, which is idle
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
			g.ClearNudge()
			if own.box.Len() > 0 {
				g.frame.Pace(&k.sh.srv.clock, false)
			}
			s.mu.Unlock()
			g.Settle()
			g.readBlocking(own)
		default:
			g.carryOutOn(st)
		}
	}
}

// leave ends the connection. After runtime.Goexit in user code it continues on a new goroutine, to
// send what is owed.
func (g *goroutineConn) leave() {
	if !g.over && g.ref.phase() != life.TakenOver {
		go g.resumeAfterExit()
		return
	}
	defer g.own.release(g.ref.reason()) // even if Ended or OnClose ends the goroutine
	g.ref.owner().end(g.own)
}

// resumeAfterExit continues after user code has ended the goroutine of a visit.
func (g *goroutineConn) resumeAfterExit() {
	k, d := &g.ref, g.own
	k.fail(Panicked)
	k.s.own.set(isStopped)
	d.dropBuffers()
	k.owner().flush(d, true)
	d.returnOut()
	g.live()
}

// carryOutOn carries out a step that needs the workspace. mu is held, and released. After
// runtime.Goexit in user code, resumeAfterExit does the rest.
func (g *goroutineConn) carryOutOn(st life.Step) {
	k, d := &g.ref, g.own
	switch st {
	case life.StepOpen:
		k.s.mu.Unlock()
		if !g.handshake() {
			k.kill()
		}
		if k.s.mu.Lock(); k.s.dead {
			k.s.mu.Unlock()
			break
		}
		k.held().carryOut(st, d)
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
	d.returnOut()
}

// startGoroutine serves an admitted connection on a goroutine of its own. With a config nc is TLS, of
// which a PROXY header is no part.
func (s *Server) startGoroutine(nc net.Conn, a arrival) {
	sh := &s.flushers[s.accepted.Load()%uint64(len(s.flushers))].shard
	k, why := sh.take()
	if why != 0 {
		nc.Close()
		s.uncount(why, a.from.Addr(), a.counted, 0)
		return
	}
	g := &goroutineConn{ref: k, Stream: transport.StreamOf(nc, &s.goroutines)}
	g.inflight.g = g
	g.own = &workspace{in: make([]byte, s.how.size), g: g, ref: k, offLoop: true}
	g.own.box.Lend(&s.input, g.own.in)
	k.owner().begin(&a, sys.NoSocket, g)
	if a.config != nil && a.proxy {
		k.s.own.set(mustShake)
	}
	if s.forced.Load() {
		k.held().abort(Forced)
	}
	k.s.mu.Unlock()
	s.queueSilent(k.conn(), a.crowded)
	go g.live()
}
