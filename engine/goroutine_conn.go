package engine

import (
	"runtime"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/transport"
)

// goroutineConn is the state of a connection on a goroutine engine, in addition to its
// slot; also on Events, where a loop cannot serve the socket.
//
// One goroutine owns it: it reads, calls the protocol, writes the replies of each visit,
// and alone closes the socket. What others post is written by a flusher while the owner
// reads, or by a goroutine that lives until a slow peer has read it.
type goroutineConn struct {
	ref connRef
	inflight

	transport.Stream

	burst int // visits since the last yield
	own   *workspace

	inUser atomic.Bool // user code runs for it

	over bool // the owner's: the last step is done
}

// nudge wakes the owner to check its connection. mu held.
func (g *goroutineConn) nudge() {
	s := g.ref.s
	switch {
	case g.goal != noGoal:
		g.wakeOwner()
	case s.marks.has(isWaiting):
		s.marks.clear(isWaiting)
		select {
		case g.wakeUp <- struct{}{}:
		default:
		}
	case g.ref.phase() != life.TakenOver:
		g.Nudge()
	}
}

// yield lets other connections run after a burst. An owner whose socket is never empty
// does not park, and would otherwise keep its processor until the scheduler preempts it
// after 10 ms: with 100 such peers, a second for the last.
func (g *goroutineConn) yield(requests int) {
	if g.burst += 1 + requests/16; g.burst >= 16 {
		g.burst = 0
		runtime.Gosched()
	}
}
