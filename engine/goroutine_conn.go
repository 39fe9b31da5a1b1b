package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// goroutineConn is what a connection has beside its slot on a goroutine engine, and
// wherever an event loop cannot serve its socket.
//
// One goroutine owns it: it reads, calls the protocol, writes the replies of each
// visit, and is the only one to close the socket. What others post is written by a
// flusher while the owner reads, or by a goroutine that lives until a slow peer has
// taken it.
type goroutineConn struct {
	ref connRef
	inflight

	nc    net.Conn
	raw   syscall.RawConn // nil unless nc is a plain socket
	fd    int             // while readParked has a workspace: the descriptor
	burst int             // visits since the last yield
	own   *workspace      // nil where the connection borrows one
	used  atomic.Bool     // a Parked connection has been served since it last rested

	resting   bool // the owner's: it goes on as a fresh goroutine
	borrowing bool // the owner's: it has a workspace

	ended  bool       // under mu: what was in flight is dropped, and off the books
	nudged bool       // under mu: the read deadline is in the past, so that the owner looks
	now    *nowWriter // under mu; nil until a flusher has written
}

const noDescriptor = -1

// startGoroutine has a connection served by a goroutine of its own. The server has
// admitted it.
func (s *Server) startGoroutine(nc net.Conn, from netip.AddrPort, proxy, counted bool) {
	sh := &s.flushers[s.accepted.Load()%uint64(len(s.flushers))].shard
	k, err := sh.take()
	if err != nil {
		nc.Close()
		s.uncount(notTaken(err), from.Addr(), counted, false)
		return
	}
	g := &goroutineConn{ref: k, nc: nc, fd: noDescriptor}
	g.inflight.g = g
	if isSocket(nc) {
		g.raw = rawConn(nc.(syscall.Conn))
	}
	if !g.borrows() {
		g.own = &workspace{in: make([]byte, s.bufferSize()), g: g, ref: k, beside: true}
		g.own.box.lend(&s.input, g.own.in)
	}
	k.begin(from, sys.NoSocket, g, proxy, counted)
	if s.forced.Load() {
		k.abort(Forced)
	}
	k.s.mu.Unlock()
	s.came(k.conn())
	go g.live()
}

// rawConn is a plain socket's descriptor, where the system lets us use it.
func rawConn(socket syscall.Conn) syscall.RawConn {
	if !sys.Readiness {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// borrows reports whether the connection waits without a buffer.
func (g *goroutineConn) borrows() bool {
	return g.ref.sh.srv.how.style == parked && g.raw != nil
}

// manyBorrowed is how many workspaces a shard lends. Where more goroutines than that
// are in the middle of something, as when thousands of them wait for a processor, the
// others get small ones.
const manyBorrowed = 16

// borrow is a workspace for as long as bytes are in flight.
func (g *goroutineConn) borrow() *workspace {
	sh := g.ref.sh
	from := &sh.srv.workspaces
	g.borrowing = true
	if sh.borrowed.Add(1) > manyBorrowed {
		from = &sh.srv.smallSpaces
	}
	d := from.Get().(*workspace)
	d.g, d.ref, d.beside = g, g.ref, true
	return d
}

// giveBack keeps the input that is not served and gives a borrowed workspace back.
func (g *goroutineConn) giveBack(d *workspace) {
	g.ref.pack(d)
	g.fd = noDescriptor
	d.g, d.beside = nil, false
	sh, to, keep := g.ref.sh, &g.ref.sh.srv.workspaces, maxPooled
	g.borrowing = false
	sh.borrowed.Add(-1)
	if len(d.in) < sh.srv.how.size {
		to, keep = &sh.srv.smallSpaces, keepOut
	}
	if d.turn.Out = d.turn.Out[:0]; cap(d.turn.Out) > keep {
		d.turn.Out = nil // one large reply is no reason to stay large
	}
	to.Put(d)
}

// tired reports whether a rest would give memory back: to a Parked connection the
// stack that its last visit has grown, to others the tickets of a burst.
func (g *goroutineConn) tired() bool {
	if g.borrows() {
		return g.used.Load()
	}
	return g.promises.open == 0 && len(g.promises.slots) > keepTickets
}

// nudge has the owner look at its connection. mu held.
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
	case !g.nudged && g.ref.phase() != takenOver:
		g.nudged = true
		g.nc.SetReadDeadline(past())
	}
}

// clearNudge takes back what a nudge has done, before the owner reads. mu held.
func (g *goroutineConn) clearNudge() {
	if g.nudged {
		g.nudged = false
		g.nc.SetReadDeadline(time.Time{})
	}
}

// interrupt ends whatever reads or writes the socket; hard also drops what the
// kernel has not sent. mu held.
func (g *goroutineConn) interrupt(hard bool) {
	if s, ok := g.nc.(interface{ SetLinger(int) error }); ok && hard {
		s.SetLinger(0)
	}
	g.nudged = true
	g.nc.SetDeadline(past())
}

// past is a deadline that has been.
func past() time.Time { return time.Unix(1, 0) }

// handshake completes a TLS handshake, if there is one, within a message's time.
func (g *goroutineConn) handshake() bool {
	h, ok := g.nc.(interface{ HandshakeContext(context.Context) error })
	if !ok {
		return true
	}
	k := &g.ref
	k.sh.srv.clock.stamp(&g.frame)
	err := h.HandshakeContext(k.sh.srv.ctx)
	g.frame.Store(0)
	k.touch()
	if err == nil {
		return true
	}
	k.s.mu.Lock()
	suspect := k.s.suspect
	k.s.mu.Unlock()
	switch {
	case suspect != 0:
		k.fail(suspect)
	case k.sh.srv.draining.Load():
		k.fail(ShuttingDown)
	case errors.Is(err, io.EOF):
		k.fail(PeerClosed)
	case errors.As(err, new(net.Error)):
		k.fail(PeerReset)
	}
	k.fail(k.sh.srv.failedHandshake(k.conn(), err)) // it spoke, but not as we want
	return false
}

// failedHandshake is why a connection ends whose peer has failed a handshake.
func (s *Server) failedHandshake(c Conn, err error) Reason {
	why := Reason(0)
	if s.HandshakeFailed != nil {
		s.guard(c, func() { why = s.HandshakeFailed(err) })
	}
	if why == 0 {
		why = asReason(err)
	}
	return why
}

// yield lets other connections run after a burst. An owner whose socket is never
// empty does not park, and would otherwise keep its processor until the
// scheduler takes it, after 10 ms: with 100 such peers, a second for the last.
func (g *goroutineConn) yield(requests int) {
	if g.burst += 1 + requests/16; g.burst >= 16 {
		g.burst = 0
		runtime.Gosched()
	}
}

// unreadBytes is how many bytes have arrived and are not read yet: what the kernel
// says, or a guess for what hides its socket.
func (g *goroutineConn) unreadBytes() (n int) {
	if g.raw == nil {
		return drainGuess
	}
	g.raw.Control(func(fd uintptr) { n = sys.Unread(fd) })
	return n
}

const (
	drainRead  = 5 * time.Millisecond // bytes that are there need no waiting
	drainGuess = 64 << 10
)

// timedOut reports whether a read has ended because somebody nudged.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
