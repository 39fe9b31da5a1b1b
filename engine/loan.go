package engine

import (
	"errors"
	"net"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/internal/sys"
)

// Sockets in the hands of user code: given away, or lent and returned.

// promiseSocket records which function gets the socket, and the bytes that go with it.
func (k owner) promiseSocket(d *workspace) {
	serve := d.turn.takeOver
	d.turn.takeOver = nil
	unread := append([]byte(nil), d.box.Bytes()...)
	d.box.Forget(&k.sh.srv.input)
	k.stopFrame() // the message is user code's, and may not be over when the loan is
	k.s.mu.Lock()
	k.held().attach().rarely().give = func(nc net.Conn) ([]byte, bool) { return serve(nc, unread) }
	k.s.mu.Unlock()
}

// beginLoan gives nc to user code: from here the engine must not read or write it.
func (k held) beginLoan(nc net.Conn) {
	k.enter(life.TakenOver)
	k.s.marks.set(isShut)
	k.x.Load().rare.given = nc
}

// endLoan resumes serving the connection.
func (k held) endLoan() {
	x := k.x.Load()
	x.rare.give, x.rare.given = nil, nil
	x.forgetRare()
	k.s.marks.clear(isShut)
	if k.s.own.has(drains) {
		x.left = k.link().Unread() // user code has read some of it
	}
	k.enter(life.Serving)
	k.touch()
}

// lent calls user code with the socket and returns its result.
func (k owner) lent(nc net.Conn) (left []byte, back bool) {
	k.sh.srv.guard(k.conn(), func() { left, back = k.x.Load().rare.give(nc) })
	if !back {
		k.fail(ClosedHere)
	}
	return left, back
}

// lend gives the socket of a goroutine engine's connection to user code, and reports
// whether the connection continues. mu is held, and released.
func (g *goroutineConn) lend() bool {
	k, memory := &g.ref, &g.ref.sh.srv.input
	k.held().beginLoan(g.Conn)
	g.Lend()
	k.s.mu.Unlock()
	g.Settle()
	left, back := k.owner().lent(g.Conn)
	if !back {
		k.kill()
		return false
	}
	k.s.mu.Lock()
	defer func() {
		k.s.mu.Unlock()
		g.Settle()
	}()
	if !k.s.dead { // otherwise the deadline ends it
		g.Recover()
	}
	box := &g.in
	if g.own != nil {
		box = &g.own.box
		box.Lend(memory, g.own.in)
	}
	box.Put(memory, left)
	k.held().endLoan()
	return true
}

// leavePoll takes the socket from the event loop. User code gets given, which is nc or TLS on it.
func (k held) leavePoll() (given, nc net.Conn, err error) {
	s := k.s
	if s.marks.has(isListed) { // the kernel would keep reporting the socket through its duplicate descriptor
		k.sh.poll.Remove(s.socket)
		s.marks.clear(isListed)
	}
	nc, err = k.sh.poll.Lend(s.socket)
	s.want, s.socket = 0, sys.NoSocket
	if given = nc; s.secured && err == nil {
		given = k.layer().Lend(nc)
	}
	return given, nc, err
}

// lendOffLoop gives the socket of an event loop's connection to user code, on a new
// goroutine. It unlocks.
func (k held) lendOffLoop() {
	s := k.s
	k.setAway(true)
	given, nc, err := k.leavePoll()
	k.beginLoan(given)
	if err != nil {
		k.fail(NoDescriptors)
	}
	d := &workspace{offLoop: true, ref: *k.connRef} // k may soon refer to another connection
	s.mu.Unlock()
	k.sh.srv.goroutines.Go(func() {
		back := false
		defer func() { // also after runtime.Goexit in user code
			if !back {
				d.ref.owner().end(d)
			}
		}()
		if err != nil {
			return
		}
		defer func() {
			if !back && !d.ref.isGiven() {
				given.Close()
			}
		}()
		var left []byte
		if left, back = d.ref.owner().lent(given); back {
			given = nc // its user has not closed it
			back = d.ref.owner().takeBack(nc, left)
		}
	})
}

// takeBack returns a lent connection to a loop, and reports whether that is possible.
func (k owner) takeBack(nc net.Conn, left []byte) bool {
	socket, err := k.sh.poll.TakeBack(nc)
	if err != nil {
		k.fail(NoDescriptors)
		return false
	}
	k.s.mu.Lock()
	k.s.socket = socket
	in := &k.x.Load().in
	in.Put(&k.sh.srv.input, left)
	if k.s.secured {
		k.layer().Return()
	}
	k.held().endLoan()
	k.s.facets.set(isHandedOff)
	k.s.mu.Unlock()
	if k.s.secured {
		if k.readAhead(in); in.Len() == 0 {
			in.Forget(&k.sh.srv.input)
		}
	}
	k.sh.srv.helpers.serve(job{l: k.sh.loop, key: k.key})
	return true
}

// Socket gives the socket away for good, within the visit: it writes Out first, and moves
// the visit off its event loop. From here on the server neither reads nor writes the
// socket, enforces no limits, and neither waits for it nor closes it on shutdown, even
// while the visit still runs: its new owner must. The connection ends as ClosedHere at the
// end of the visit, and counts against Limits.Conns until then; Advance's results are
// ignored, and Advance must pass on any unused input. Nothing can be posted any more. The
// error is the Reason for which the connection ends, or why there is no descriptor for a
// net.Conn. Outside an engine it is errors.ErrUnsupported.
func (t *Turn) Socket() (net.Conn, error) {
	if t.ref == nil {
		return nil, errors.ErrUnsupported
	}
	t.Hold() // otherwise a push could be half written
	t.Leave()
	if err := t.Flush(); err != nil {
		return nil, err
	}
	return t.ref.owner().giveAway(t)
}

// GiveAway makes the socket that TakeOver's function has belong to user code for good, as
// Turn.Socket does: the engine does not close it when the function has returned.
func (c Conn) GiveAway() {
	k, ok := c.lock()
	if !ok {
		return
	}
	x, done := k.x.Load(), func() {}
	lent := x != nil && x.rare != nil && x.rare.given != nil && !k.s.dead
	if lent {
		if x.g != nil {
			_, done = x.g.GiveAway()
		}
		k.held().disown()
	}
	k.s.mu.Unlock()
	if lent {
		done()
		k.sh.srv.waitNoMore()
	}
}

// giveAway ends Turn.Socket.
func (k owner) giveAway(t *Turn) (nc net.Conn, err error) {
	s, done := k.s, func() {}
	s.mu.Lock()
	defer func() {
		given := s.facets.has(isGiven)
		s.mu.Unlock()
		if done(); given {
			k.sh.srv.waitNoMore()
		}
	}()
	x := k.x.Load()
	for x != nil && x.writing && !s.dead {
		k.held().await(x, written)
	}
	if s.dead || ends(k.reason()) {
		return nil, k.held().failed(t)
	}
	if x != nil && x.g != nil {
		nc, done = x.g.GiveAway()
	} else {
		nc, _, err = k.held().leavePoll()
	}
	k.held().disown()
	return nc, err
}

// isGiven reports whether the socket was given away.
func (k *connRef) isGiven() bool {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.s.facets.has(isGiven)
}

// disown ends the engine's part in the connection. The caller then calls waitNoMore, without mu.
func (k held) disown() {
	k.fail(ClosedHere)
	k.s.dead = true
	k.s.facets.set(isGiven)
}

// waitNoMore makes a drain wait for one connection less.
func (s *Server) waitNoMore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	s.checkEmpty()
}
