package engine

import (
	"net"
	"net/netip"
	"os"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// enterLeaving begins to take leave of the peer, for the reason that is known.
func (k *link) enterLeaving() {
	if k.reason() == PeerClosed {
		k.enterPhase(finishing)
	} else {
		k.enterPhase(closing)
	}
}

// depart goes on with the leave-taking of a connection that owes nothing any
// more. It reports whether there is more to do.
func (k *link) depart(d *seat) bool {
	s, why := k.s, k.reason()
	switch {
	case k.phase() == finishing && why != ShuttingDown:
		k.end(d)
		return false
	case k.phase() == finishing:
		k.enterPhase(closing)
		return true
	case !s.own.has(hasSaid) && !spoken(why):
		s.own.set(hasSaid)
		var unserved []byte
		if x := k.x.Load(); x != nil && x.rest.Lent() {
			unserved = x.rest.Bytes()[x.from:]
		}
		k.refuse(d, unserved, why)
		return true
	}
	if x := k.x.Load(); x != nil && x.give != nil {
		k.handOver(x.give)
		return false
	}
	s.mu.Lock()
	if s.socket.CloseWrite() != nil {
		s.over = true // and not the other way round: an abort may have come first
	}
	s.marks.set(isShut)
	x := k.fly()
	x.left = lingerBytes
	if x.rest.Lent() {
		x.rest.Release()
		x.rest, x.ready = pool.Buffer{}, false
	}
	x.promises.abandon()
	s.mu.Unlock()
	k.enterPhase(lingering)
	return true
}

// refuse tells the peer why the connection ends.
func (k *link) refuse(d *seat, unserved []byte, why Reason) {
	k.call(d, func() { d.turn.Out = k.l.srv.Protocol.Refuse(d.turn.Out[:0], unserved, why) })
	k.flush(&d.turn)
}

// discard drops what a refused peer still sends.
func (k *link) discard(d *seat) {
	k.s.mu.Lock()
	x := k.fly()
	k.s.mu.Unlock()
	n, err := k.l.poll.Read(k.s.socket, d.in[:min(len(d.in), handRead)])
	x.left -= n
	if err != nil && err != sys.ErrAgain || x.left <= 0 {
		k.s.mu.Lock()
		k.s.over = true
		k.s.mu.Unlock()
	}
}

// end closes the socket and tells who needs to know.
func (k *link) end(d *seat) {
	s, srv := k.s, k.l.srv
	if k.reason() == 0 {
		k.fail(Panicked)
	}
	s.mu.Lock()
	s.over = true
	s.away.Store(true) // nobody's any more
	s.marks.clear(isListed)
	s.want = 0
	x := k.x.Load()
	if x != nil {
		k.drop(x)
	}
	s.socket.Close()
	s.socket = sys.NoSocket
	holds := netip.Addr{}
	if s.counted {
		holds = k.addr().Addr()
	}
	s.mu.Unlock()
	why := k.reason()
	if known := s.own.has(isKnown); srv.OnClose != nil && known {
		s.own.clear(isKnown)
		k.call(d, func() { srv.OnClose(k.conn(), why) })
	}
	srv.strike(why, holds)
	k.free()
}

// drop throws away what is in flight. mu held.
func (k *link) drop(x *flight) {
	k.charge(x, -int(x.waiting))
	k.l.tally.late.Add(x.late)
	x.late = 0
	for _, b := range [...]pool.Buffer{x.front, x.queue.take(), x.rest} {
		if b.Lent() {
			b.Release()
		}
	}
	x.front, x.rest = pool.Buffer{}, pool.Buffer{}
	x.promises.abandon()
	x.stall.Store(0)
}

// giveAway remembers who takes the socket over.
func (k *link) giveAway(d *seat) {
	serve := d.turn.takeOver
	d.turn.takeOver = nil
	unread := append([]byte(nil), d.box.bytes()...)
	d.box.forget()
	k.s.mu.Lock()
	k.fly().give = func(nc net.Conn) { serve(nc, unread) }
	k.s.mu.Unlock()
	k.fail(ClosedHere)
}

// handOver gives the socket to user code until it returns, on a goroutine of its
// own.
func (k *link) handOver(give func(net.Conn)) {
	s, srv := k.s, k.l.srv
	k.enterPhase(takenOver)
	s.mu.Lock()
	s.marks.set(isShut) // the socket is theirs: no push of ours may fall into it
	s.away.Store(true)
	k.arm(true)
	nc, err := netConn(s.socket)
	s.socket = sys.NoSocket
	k.fly().given = nc
	s.mu.Unlock()
	mine := *k
	srv.goroutines.Add(1)
	go func() {
		defer srv.goroutines.Done()
		d := &seat{off: true}
		d.link = mine
		defer d.link.end(d)
		if err == nil {
			defer nc.Close()
			srv.guard(mine.conn(), func() { give(nc) })
		}
	}()
}

// netConn makes a net.Conn of a socket, which is closed.
func netConn(s sys.Socket) (net.Conn, error) {
	f := os.NewFile(uintptr(s), "connection")
	defer f.Close()
	return net.FileConn(f)
}
