package engine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/pool"
)

// session is one connection on a goroutine engine.
//
// One goroutine owns it: it reads, calls the protocol, writes the replies of
// each visit, and is the only one to close the socket. Others reach it in three
// ways: post and closeFor (Conn and Reply, any goroutine), a flusher that
// writes what was posted while the owner reads, and the sweeper that judges its
// stamps. They take mu; the right to write to the socket is mu's writing flag.
type session struct {
	srv     *Server
	nc      net.Conn
	raw     syscall.RawConn // nil unless nc is a plain socket
	slot    int             // in srv.sessions; guarded by srv.mu
	in      inbox
	state   uint64 // Turn.State between visits
	burst   int    // served since the last yield
	fd      int    // while readReady runs: the descriptor, known to be open
	tally   *tally
	flusher *flusher
	value   atomic.Pointer[any]

	proxy   bool                             // a PROXY header comes first
	known   bool                             // to OnOpen, so that OnClose must be told
	give    func(nc net.Conn, unread []byte) // user code that takes the socket over
	proxied *netip.AddrPort                  // as a trusted proxy told it
	counted bool                             // its address holds a place; guarded by srv.mu
	stamps

	why     atomic.Uint32 // the first fatal Reason wins
	awake   atomic.Uint32 // reasons to stop waiting for bytes: see nudge
	owed    atomic.Int32  // late replies outstanding; written under mu
	cut     atomic.Bool   // abort has been here
	ended   atomic.Bool   // nobody's any more: a Conn that was kept knows nothing of it
	tired   atomic.Bool   // there is something to give back once it is quiet: see rest
	waiting atomic.Int64  // bytes queued or half written: what HighWater compares

	mu      sync.Mutex
	queue   backlog
	writing bool // somebody holds the right to write
	dirty   bool // in a flusher's list
	over    bool // nothing may be posted or written any more
	goal    goal // what the owner waits for
	resume  chan struct{}
	late    *lateness // made when the first late reply or push needs it
}

const noDescriptor = -1

// goal is what an owner that is not reading waits for.
type goal uint8

const (
	nothing goal = iota
	room         // few enough bytes and replies are outstanding to read on
	settled      // none are
)

// desk is what a connection needs only while bytes are in flight: Direct and
// Buffered connections own one, Parked ones borrow it.
type desk struct {
	turn  Turn
	in    []byte
	owned bool
	out   pool.Buffer // owned desks: whose buffer turn.Out is
	size  int         // owned desks: of the last output
}

// spread gives an owned desk something to write on.
func (d *desk) spread(buffers *pool.Buffers) {
	if d.owned && !d.out.Lent() {
		d.out = buffers.Get(max(d.size, 1))
		d.turn.Out = d.out.Bytes()[:0]
	}
}

// tidy takes it back when it has become too large to keep while nothing happens.
func (d *desk) tidy() {
	if d.owned && cap(d.turn.Out) > keepOut {
		d.out.Release() // and not what append made of it, which a protocol may have sliced
		d.out, d.turn.Out = pool.Buffer{}, nil
	}
}

// maxPooled is the largest buffer that is used again.
const maxPooled = 128 << 10

// keepOut is the output buffer that an idle connection may keep.
const keepOut = 4 << 10

// live is the connection's whole life.
func (c *session) live() {
	resting := false
	defer func() {
		if !resting {
			c.end()
		}
	}()
	if !c.known && !c.begin() {
		return
	}
	if c.parks() {
		if resting = c.readParked(); resting {
			go c.live()
			return
		}
		c.finish(nil)
		return
	}
	d := &desk{in: make([]byte, c.srv.bufferSize()), owned: true}
	c.in.lend(d.in)
	c.readBlocking(d)
	c.finish(d)
	if d.out.Lent() && c.reason() != Panicked {
		d.out.Release()
	}
}

// begin does what comes before the first read.
func (c *session) begin() bool {
	if c.proxy {
		return true
	}
	if !c.handshake() {
		return false
	}
	c.opened()
	return true
}

func (c *session) opened() {
	c.known = true
	if c.srv.OnOpen != nil {
		c.srv.guard(c.conn(), func() { c.srv.OnOpen(c.conn()) })
	}
}

// parks reports whether this connection waits without a buffer.
func (c *session) parks() bool { return c.srv.how.style == parked && c.raw != nil }

// handshake completes a TLS handshake, if there is one, within a message's time.
func (c *session) handshake() bool {
	h, ok := c.nc.(interface{ HandshakeContext(context.Context) error })
	if !ok {
		return true
	}
	c.stamp(&c.frame)
	c.size.Store(0)
	if err := h.HandshakeContext(c.srv.ctx); err != nil {
		if why := c.readFault(err); why != PeerReset || errors.As(err, new(net.Error)) {
			c.fail(why)
		}
		c.fail(Malformed) // it spoke, but no TLS that we do
		return false
	}
	c.frame.Store(0)
	c.touch()
	return true
}

// serve gives the protocol what has arrived until it wants more bytes, and
// writes its replies. It reports false when the connection is to end.
func (c *session) serve(d *desk) bool {
	t := &d.turn
	if c.parks() && !c.tired.Load() {
		c.tired.Store(true)
	}
	d.spread(&c.srv.buffers)
	defer d.tidy()
	for {
		used, need, why := c.visit(t)
		c.in.served(used, need)
		if used > 0 {
			c.stopFrame()
		}
		d.size = len(t.Out)
		if !c.flush(t) {
			return false
		}
		c.yield(t.requests)
		switch {
		case why != 0:
			c.fail(why)
			return false
		case t.takeOver != nil:
			c.give, t.takeOver = t.takeOver, nil
			c.fail(ClosedHere)
			return false
		case c.ending(): // closed from a handler, or cut off
			return false
		case need > 0 || used == 0 && c.in.len() == 0:
			c.startFrame(need)
			c.touch()
			return true
		case !c.hasRoom():
			c.stopFrame() // a message that we do not read is not the peer's to hurry
			if !c.await(room) {
				return false
			}
		}
	}
}

// yield lets other connections run after a burst. An owner whose socket is never
// empty does not park, and would otherwise keep its processor until the
// scheduler takes it, after 10 ms: with 100 such peers, a second for the last.
func (c *session) yield(requests int) {
	if c.burst += 1 + requests/16; c.burst >= 16 {
		c.burst = 0
		runtime.Gosched()
	}
}

// startFrame starts the clock of the message that has begun to arrive and lacks
// need bytes; a message that goes on keeps its clock.
func (c *session) startFrame(need int) {
	if c.in.len() == 0 {
		return
	}
	c.size.Store(uint32(c.in.len() + need))
	if c.frame.Load() == 0 {
		c.stamp(&c.frame)
	}
}

func (c *session) stopFrame() {
	if c.frame.Load() != 0 {
		c.frame.Store(0)
	}
}

// visit gives the protocol, or a PROXY header's reader, what has arrived.
func (c *session) visit(t *Turn) (used, need int, why Reason) {
	if c.srv.ordered {
		c.startVisit()
	}
	c.beginTurn(t)
	if c.proxy {
		defer t.end(0)
		return c.readProxyHeader(c.in.bytes())
	}
	return c.srv.visit(t, c.in.bytes())
}

func (c *session) beginTurn(t *Turn) { t.begin(c.srv, c, &c.why, c.conn(), c.tally, c.state) }

func (c *session) visited(state uint64, why Reason) {
	c.state = state
	if why != 0 {
		c.fail(why)
	}
}

// conn is c as a value that may be kept.
func (c *session) conn() Conn { return Conn{s: c} }

// admit is how many messages flow control lets be served before it is asked again.
func (c *session) admit(first bool) int {
	if !c.hasRoom() {
		return 0
	}
	if first && c.srv.ordered {
		c.startVisit() // a reply that came since the visit began is still an earlier one
	}
	if c.owed.Load() > 0 || c.waiting.Load() > 0 {
		return 1
	}
	return mostGranted
}

// hasRoom reports whether flow control lets one more message be served.
func (c *session) hasRoom() bool {
	return !c.ending() && c.owed.Load() < int32(c.srv.limits.InFlight) && c.waiting.Load() < int64(c.srv.limits.HighWater)
}

// ending reports whether nothing more is to be served. A drain still serves
// what was sent before it.
func (c *session) ending() bool {
	why := c.reason()
	return why != 0 && why != ShuttingDown
}

// reason is why the connection is ending, 0 while it is not.
func (c *session) reason() Reason { return Reason(c.why.Load()) }

func (c *session) fail(why Reason) { fail(&c.why, why) }

// fail records why a connection ends. The first reason wins, except that a peer
// which has only said that it will send no more can still fail otherwise.
func fail(reason *atomic.Uint32, why Reason) {
	if !reason.CompareAndSwap(0, uint32(why)) {
		reason.CompareAndSwap(uint32(PeerClosed), uint32(why))
	}
}

// touch says that the connection is not idle.
func (c *session) touch() { c.stamp(&c.seen) }

// nudge makes a reader that waits for bytes look at why.
func (c *session) nudge(why Reason) {
	c.awake.CompareAndSwap(0, uint32(why))
	c.hurry()
}

// hurry ends a read of ours that waits. A socket that has been given away has
// its new owner's deadlines.
func (c *session) hurry() {
	c.mu.Lock()
	if phase(c.phase.Load()) != takenOver {
		c.nc.SetReadDeadline(past())
	}
	c.mu.Unlock()
}

// closeFor ends the connection from outside, politely.
func (c *session) closeFor(why Reason) {
	c.fail(why)
	c.hurry()
	c.mu.Lock()
	c.wake()
	c.mu.Unlock()
}

// abort ends the connection at once: what waits for the peer is dropped.
func (c *session) abort(why Reason) {
	switch why {
	case 0: // its time to linger is over; why it lingers has been said
	case Forced:
		c.why.Store(uint32(Forced)) // whatever it was about to end for, it was not let
	default:
		c.fail(why)
	}
	c.cut.Store(true)
	c.mu.Lock()
	c.over = true
	c.wake()
	c.mu.Unlock()
	if s, ok := c.nc.(interface{ SetLinger(int) error }); ok && why != 0 {
		s.SetLinger(0) // a peer that does not read must not keep our bytes in the kernel
	}
	c.nc.SetDeadline(past())
}

func (c *session) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *session) remoteAddr() netip.AddrPort {
	if c.proxied != nil {
		return *c.proxied
	}
	return remoteAddr(c.nc)
}

func remoteAddr(nc net.Conn) netip.AddrPort {
	if a, ok := nc.RemoteAddr().(interface{ AddrPort() netip.AddrPort }); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}
