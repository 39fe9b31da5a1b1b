package engine

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"os"

	"github.com/hone-go/hone/engine/internal/admission"
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/secure"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// TLS on an event loop. A layer (package secure) lies between the socket and everything else: what
// is read is decrypted at once, and output is sealed when it is taken for writing, so queues hold
// plaintext. The handshake needs a goroutine, because crypto/tls cannot continue one that has
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

// layerAt returns where the connection's layer is stored.
func (k held) layerAt() **secure.Conn {
	i := int(uint32(k.key))
	side := (*k.sh.chunks.Load())[i/chunkSlots].side
	if side.layers.Load() == nil {
		side.layers.CompareAndSwap(nil, new([chunkSlots]*secure.Conn))
	}
	return &side.layers.Load()[i%chunkSlots]
}

// layer returns the layer of a connection that has one, to its owner or to whoever holds its mutex.
func (k *connRef) layer() *secure.Conn {
	i := int(uint32(k.key))
	return (*k.sh.chunks.Load())[i/chunkSlots].side.layers.Load()[i%chunkSlots]
}

// pull reads once and decrypts all that has arrived: what crypto/tls kept back would never be
// reported as readable. It has counted the n bytes already. In a drain only a handler that waits for
// more reads beyond what had arrived.
func (k owner) pull(d *workspace, waits bool) (n int, err error) {
	if k.s.own.has(isOver) {
		return 0, sys.ErrClosed
	}
	if d.fed == nil {
		d.fed = make([]byte, max(helperRead, len(d.in)*3/4)) // what it completes fits the other buffer, mostly
	}
	p, x := d.fed, k.x.Load()
	if k.s.own.has(drains) && !waits {
		p = p[:min(len(p), x.left)]
	}
	m, err := k.sh.poll.Read(k.s.socket, p)
	if x != nil {
		x.left = max(0, x.left-m)
	}
	if err != nil && err != sys.ErrClosed {
		return 0, err
	}
	k.layer().Feed(p[:m], err != nil)
	return k.unseal(&d.box)
}

// unseal decrypts what the layer was fed. It returns sys.ErrClosed at the end, but first what has come
// before it.
func (k owner) unseal(in *input.Buffer) (n int, err error) {
	c := k.layer()
	for m := 0; err == nil; n += m {
		m, err = c.Open(in.Space(&k.sh.srv.input))
		in.Arrived(m)
	}
	k.sh.counts.bytesIn.Add(uint64(n))
	k.answer()
	if err == sys.ErrClosed {
		k.s.own.set(isOver) // which no event reports
	}
	if err == sys.ErrAgain || err == sys.ErrClosed && n > 0 {
		err = nil
	}
	return n, err
}

// readAhead decrypts what the layer has read too far: in a handshake, or on loan.
func (k owner) readAhead(in *input.Buffer) {
	if _, err := k.unseal(in); err != nil && err != sys.ErrClosed {
		k.broke()
	}
}

// sendSealed is send with TLS, for at most q of all bytes.
func (k held) sendSealed(x *inflight, q []byte, all int) (n int, err error) {
	c := k.layer()
	n, written, err := c.Send(k.sh.poll, k.s.socket, q)
	k.sh.counts.bytesOut.Add(uint64(written))
	if x != nil {
		x.written.Add(uint32(written))
	}
	switch {
	case err == nil && n < all:
		err = sys.ErrAgain
	case err != nil && err != sys.ErrAgain:
		c.Drop() // now: the connection may end without an inflight, or lose it first
	}
	return n, err
}

// answer sends what the layer has written by itself.
func (k owner) answer() {
	if k.layer().Memory() > 0 {
		k.s.mu.Lock()
		k.held().sendOwn()
		k.s.mu.Unlock()
	}
}

// sendOwn is answer with mu held. When the socket is full, nothing is read before all is sent: a
// peer that asks for such answers and reads none gets no more of them.
func (k held) sendOwn() {
	if k.s.dead || k.layer().Memory() == 0 {
		return
	}
	x := k.attach()
	if !x.front.Lent() {
		x.front, x.sent = k.sh.srv.buffers.Get(1), 0
		x.front.SetLen(0)
		k.write(x, true)
	}
	if x.front.Lent() {
		x.blocked.Store(true)
	}
}

// isLast reports whether a drain only waits for the rest of one message. The record that brings it
// may bring more, which is dropped.
func (k owner) isLast() bool {
	return k.s.secured && k.s.own.has(drains) && k.x.Load().frame.IsAllowed()
}

// saysGoodbye sends a close_notify, once, and reports whether it still waits to be written.
func (k held) saysGoodbye() (waits bool) {
	s := k.s
	if s.dead || !s.facets.has(isShaken) {
		return false
	}
	s.marks.set(isShut) // nothing can follow
	k.layer().Goodbye()
	k.sendOwn()
	x := k.x.Load()
	return x != nil && x.front.Lent() && !s.dead
}

// turn is what a connection has of Server.turns.
type turn uint8

const (
	noTurn turn = iota
	inLine
	itsTurn
)

// takeTurn reports whether the handshake may compute. If not, the connection waits in line.
func (k held) takeTurn(begun bool) bool {
	x := k.attach()
	if x.turn == noTurn {
		x.turn = inLine
		if k.sh.srv.turns.Take(admission.Host(k.addr().Addr()), k.conn(), begun) {
			x.turn = itsTurn
		}
	}
	return x.turn == itsTurn
}

// endTurn passes the connection's turn, if it has one, to the next in line.
func (k owner) endTurn() {
	k.s.mu.Lock()
	x := k.x.Load()
	passes := x != nil && x.turn == itsTurn
	if passes {
		x.turn = noTurn
	}
	k.s.mu.Unlock()
	for passes {
		next, waits := k.sh.srv.turns.Pass()
		passes = waits && !next.giveTurn()
	}
}

// giveTurn reports whether the connection still waits, and has got the turn.
func (c Conn) giveTurn() bool {
	k, ok := c.lock()
	if !ok {
		return false
	}
	defer k.s.mu.Unlock()
	x := k.x.Load()
	if k.s.dead || x == nil || x.turn != inLine {
		return false
	}
	x.turn = itsTurn
	k.held().notify()
	return true
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
		case k.s.dead || k.s.suspect != 0 || k.reason() != 0 || k.sh.srv.draining.Load():
			return os.ErrDeadlineExceeded
		case what == turned && k.held().takeTurn(true):
			return nil
		}
		k.held().await(k.x.Load(), what)
	}
}

// netAddr makes a net.Addr.
func netAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}
