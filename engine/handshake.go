package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/hone-go/hone/engine/internal/secure"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// TLS handshakes. On a loop each needs a goroutine, because crypto/tls cannot continue one that has
// failed to read.

// secure gives a new connection a layer.
func (k held) secure(config *tls.Config) {
	s := k.s
	s.secured, s.opened = true, true
	s.own.set(mustShake)
	s.own.clear(isKnown)
	*k.layerAt() = secure.Server(config, &k.sh.srv.buffers.Buffers)
	k.attach().frame.Begin(&k.sh.srv.clock) // the PROXY header and the handshake have a message's time each
}

// handshake completes the TLS handshake, if there is one, within a message's time.
func (g *goroutineConn) handshake() bool {
	h, ok := g.Conn.(interface{ HandshakeContext(context.Context) error })
	k := &g.ref
	if !ok || k.s.own&(wantsProxy|mustShake) == wantsProxy { // such a header is encrypted
		return true
	}
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

// shake runs the handshake, on a helper that no limit counts: it has a turn, and waits for its peer
// no longer than Limits.FrameTime.
func (k owner) shake(d *workspace) {
	s, c, srv := k.s, k.layer(), k.sh.srv
	addresses := transport.AddressesOnly(netAddr(k.sh.poll.LocalAddr(s.socket)), netAddr(k.conn().RemoteAddr()))
	k.unpack(d)
	c.Feed(d.box.Bytes(), false)
	err := error(Panicked)
	srv.guard(k.conn(), func() {
		err = c.Handshake(srv.ctx, func(p []byte) (int, error) { return k.readShake(d, p) }, addresses)
	})
	k.endTurn()
	s.own.clear(mustShake)
	d.box.Served(d.box.Len(), 0)
	k.pack(d)
	if err != nil {
		k.shakeFailed(err)
		k.answer() // an alert, or what user code says to a peer that does not speak TLS
		k.kill()
		k.drive(d, false)
		return
	}
	k.answer() // its last message
	k.stopFrame()
	k.touch()
	srv.countShaken(c.NetConn())
	s.mu.Lock()
	s.facets.set(isShaken)
	s.mu.Unlock()
	k.welcome(d)
	k.unpack(d)
	k.readAhead(&d.box)
	k.pack(d)
	s.mu.Lock()
	k.held().list() // the loop serves it
	k.held().release()
}

func (s *Server) countShaken(nc net.Conn) {
	s.shaken.done.Add(1)
	if c, ok := nc.(*tls.Conn); ok && c.ConnectionState().DidResume {
		s.shaken.resumed.Add(1)
	}
}

// readShake reads in a handshake, and waits without a turn until there is something.
func (k owner) readShake(d *workspace, p []byte) (n int, err error) {
	d.box.Forget(&k.sh.srv.input) // the handshake has taken all of the hello
	k.x.Load().noteInput(&d.box)
	for n, err = k.sh.poll.Read(k.s.socket, p); err == sys.ErrAgain; n, err = k.sh.poll.Read(k.s.socket, p) {
		k.answer()
		if err := k.awaitShake(); err != nil {
			return 0, err
		}
	}
	if err == sys.ErrClosed {
		err = io.EOF
	}
	return n, err
}

// awaitShake waits until the peer has sent something, and then for a turn.
func (k owner) awaitShake() error {
	busy := &k.sh.srv.helpers.busy
	busy.Add(-1)
	defer busy.Add(1)
	k.endTurn()
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	for what := arrived; ; what = turned {
		switch {
		case k.s.dead || k.s.suspect != 0 || k.reason() != 0 || k.sh.srv.endsAll.Load():
			return os.ErrDeadlineExceeded
		case what == turned && k.held().takeTurn(true):
			return nil
		}
		k.held().await(k.x.Load(), what)
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
	case srv.endsAll.Load():
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

// netAddr makes a net.Addr.
func netAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}
