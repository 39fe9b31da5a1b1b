package engine

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// A socket in the hands of user code: given away, or lent and taken back.

// promiseSocket remembers who takes the socket over, and the bytes that go along.
func (k *connRef) promiseSocket(d *workspace) {
	serve := d.turn.takeOver
	d.turn.takeOver = nil
	unread := append([]byte(nil), d.box.bytes()...)
	d.box.forget(&k.sh.srv.input)
	k.s.mu.Lock()
	k.attach().rarely().give = func(nc net.Conn) ([]byte, bool) { return serve(nc, unread) }
	k.s.mu.Unlock()
}

// beginLoan gives nc to user code: nothing of ours may fall into it. mu held.
func (k *connRef) beginLoan(nc net.Conn) {
	k.enter(takenOver)
	k.s.marks.set(isShut)
	k.x.Load().rare.given = nc
}

// endLoan has the connection served again. mu held.
func (k *connRef) endLoan() {
	x := k.x.Load()
	x.rare.give, x.rare.given = nil, nil
	x.forgetRare()
	k.s.marks.clear(isShut)
	if k.s.own.has(drains) {
		x.left = k.unread() // user code has read some of it
	}
	k.enter(serving)
	k.touch()
}

// lent is what user code says at the end.
func (k *connRef) lent(nc net.Conn) (left []byte, back bool) {
	k.sh.srv.guard(k.conn(), func() { left, back = k.x.Load().rare.give(nc) })
	if !back {
		k.fail(ClosedHere)
	}
	return left, back
}

// lend gives the socket of a goroutine engine's connection to user code, and reports
// whether the connection goes on. mu is held, and released.
func (g *goroutineConn) lend() bool {
	k, memory := &g.ref, &g.ref.sh.srv.input
	k.beginLoan(g.nc)
	g.nc.SetReadDeadline(time.Time{}) // whoever hurried us has done so by now
	k.s.mu.Unlock()
	left, back := k.lent(g.nc)
	if !back {
		k.kill()
		return false
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if !k.s.dead { // else the deadline is what ends it
		g.nc.SetDeadline(time.Time{})
		g.nudged = false
	}
	box := &g.in
	if g.own != nil {
		box = &g.own.box
		box.lend(memory, g.own.in)
	}
	box.put(memory, left)
	k.endLoan()
	return true
}

// lendBeside gives the socket of an event loop's connection to user code, on a goroutine
// of its own. mu is held, and released.
func (k *connRef) lendBeside() {
	s, srv := k.s, k.sh.srv
	k.setAway(true)
	if s.marks.has(isListed) { // the kernel would go on to report the socket under its other descriptor
		k.sh.poll.Remove(s.socket)
		s.marks.clear(isListed)
	}
	s.want = 0
	nc, err := netConn(s.socket)
	s.socket = sys.NoSocket
	k.beginLoan(nc)
	if err != nil {
		k.fail(NoDescriptors)
	}
	d := &workspace{beside: true, ref: *k} // k may be another connection's in a moment
	s.mu.Unlock()
	srv.goroutines.Add(1)
	go func() {
		back := false
		defer srv.goroutines.Done()
		defer func() { // also when user code has ended the goroutine
			if !back {
				d.ref.end(d)
			}
		}()
		if err != nil {
			return
		}
		defer nc.Close()
		var left []byte
		if left, back = d.ref.lent(nc); back {
			back = d.ref.takeBack(nc, left)
		}
	}()
}

// takeBack has a loop serve a connection again that was lent, and reports whether that is
// possible.
func (k *connRef) takeBack(nc net.Conn, left []byte) bool {
	socket, err := sys.Take(nc.(syscall.Conn))
	if err != nil {
		k.fail(NoDescriptors)
		return false
	}
	k.s.mu.Lock()
	k.s.socket = socket
	k.x.Load().in.put(&k.sh.srv.input, left)
	k.endLoan()
	k.s.mu.Unlock()
	k.sh.srv.helpers.serve(job{l: k.sh.loop, key: k.key})
	return true
}

// Socket gives the socket away for good, within the visit: Out is written first, and the
// visit has left its event loop. From here on the server neither reads nor writes it, keeps
// no limit, and neither waits for it nor closes it when it shuts down: whoever has it does.
// The connection ends as ClosedHere when the visit does; what Advance returns does not
// count, and what was read and not used is Advance's to pass on. Nothing can be posted any
// more. The error is the Reason for which the connection ends, or why there is no
// descriptor for a net.Conn. Outside an engine it is errors.ErrUnsupported.
func (t *Turn) Socket() (net.Conn, error) {
	if t.ref == nil {
		return nil, errors.ErrUnsupported
	}
	t.Hold() // or a push could be half written
	t.Leave()
	if err := t.Flush(); err != nil {
		return nil, err
	}
	return t.ref.giveAway(t)
}

// giveAway is the end of Turn.Socket: as far as the engine goes the connection is dead.
func (k *connRef) giveAway(t *Turn) (nc net.Conn, err error) {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	x := k.x.Load()
	for x != nil && x.writing && !s.dead {
		k.await(x, written)
	}
	if s.dead || ends(k.reason()) {
		return nil, k.failed(t)
	}
	if x != nil && x.g != nil {
		x.g.clearNudge()
		nc = x.g.nc
		x.g.nc, x.g.fd = givenAway{nc.LocalAddr(), nc.RemoteAddr()}, noDescriptor
		k.fail(ClosedHere)
	} else {
		if s.marks.has(isListed) {
			k.sh.poll.Remove(s.socket)
			s.marks.clear(isListed)
		}
		nc, err = netConn(s.socket)
		s.want, s.socket = 0, sys.NoSocket
		k.fail(ClosedHere)
	}
	s.dead = true
	return nc, err
}

// givenAway stands for a socket that is somebody else's: only its addresses are known.
type givenAway struct{ local, remote net.Addr }

func (a givenAway) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (a givenAway) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (a givenAway) Close() error                     { return nil }
func (a givenAway) LocalAddr() net.Addr              { return a.local }
func (a givenAway) RemoteAddr() net.Addr             { return a.remote }
func (a givenAway) SetDeadline(time.Time) error      { return net.ErrClosed }
func (a givenAway) SetReadDeadline(time.Time) error  { return net.ErrClosed }
func (a givenAway) SetWriteDeadline(time.Time) error { return net.ErrClosed }
