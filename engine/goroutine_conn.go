package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
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

// handshake completes the TLS handshake, if there is one, within a message's time.
func (g *goroutineConn) handshake() bool {
	h, ok := g.Conn.(interface{ HandshakeContext(context.Context) error })
	if !ok {
		return true
	}
	k := &g.ref
	g.frame.Begin(&k.sh.srv.clock)
	err := error(nil)
	if k.s.own.has(mustShake) {
		var why Reason
		if why, err = g.readHeader(); why != 0 {
			k.fail(why)
			return false
		}
	}
	if err == nil {
		err = Panicked
		k.sh.srv.guard(k.conn(), func() { err = h.HandshakeContext(k.sh.srv.ctx) })
	}
	g.frame.Pause()
	k.touch()
	k.s.own.clear(mustShake)
	if err == nil {
		k.sh.srv.countShaken(g.Conn)
		return true
	}
	k.owner().shakeFailed(err)
	return false
}

// readHeader reads the PROXY header before a TLS handshake, and nothing beyond it.
func (g *goroutineConn) readHeader() (why Reason, err error) {
	from := g.Conn.(*tls.Conn).NetConn()
	var in []byte
	for {
		_, need, why := g.ref.owner().readProxyHeader(in)
		if why != 0 || need == 0 {
			return why, nil
		}
		in = append(in, make([]byte, need)...)
		if _, err := io.ReadFull(from, in[len(in)-need:]); err != nil {
			return 0, err
		}
	}
}

// shakeFailed counts and logs a TLS handshake that has failed, or never begun, and records why the
// connection ends.
func (k owner) shakeFailed(err error) {
	srv := k.sh.srv
	srv.shaken.failed.Add(1)
	k.s.mu.Lock()
	why, remote := k.s.suspect, k.held().addr()
	k.s.mu.Unlock()
	srv.faults.Write(srv.Logger, slog.LevelWarn, "tls_handshake", func() (string, []any) {
		return "TLS handshake failed", []any{"remote", remote, "error", err}
	})
	switch {
	case k.reason() != 0:
		return
	case why != 0:
	case srv.draining.Load():
		why = ShuttingDown
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = PeerClosed
	case errors.As(err, new(net.Error)):
		why = PeerReset
	default: // the peer sent something, but not a valid handshake
		if failed := srv.HandshakeFailed; failed != nil {
			srv.guard(k.conn(), func() { why = failed(err) })
		}
		why = cmp.Or(why, asReason(err))
	}
	k.fail(why)
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
