package engine

import (
	"errors"
	"io"

	"github.com/hone-go/hone/engine/internal/transport"
)

// readBlocking reads and serves as long as the protocol only needs more bytes: Direct and
// Buffered.
func (g *goroutineConn) readBlocking(d *workspace) {
	k := &g.ref
	drains := k.s.own.has(drains) // it reads the rest of a message, and nothing beyond it
	exact := drains || k.sh.srv.how.style == direct
	for !k.owner().holdsTooMuch(&d.box) {
		p := d.box.Space(&k.sh.srv.input)
		if exact {
			p = p[:min(len(p), max(1, d.box.Want()))]
		}
		n, err := g.Read(p)
		hungry := true
		if n > 0 {
			d.lendOut()
			hungry = k.owner().received(d, n)
			d.returnOut()
			if d.box.IsKept() || g.input.Load() > 0 {
				g.noteInput(&d.box)
			}
		}
		if err != nil {
			g.readFailed(err)
			return
		}
		if !hungry || drains {
			return
		}
	}
}

// readParked does the same without holding a buffer while nothing arrives. Go's poller
// forgets an edge that it has seen between two calls of RawConn.Read, so each call first
// reads until nothing is left. Visits run outside of these calls, because the callback
// holds the read lock: Turn.More would deadlock.
func (g *goroutineConn) readParked() {
	k := &g.ref
	var d *workspace
	var n int
	var end error
	read := func(fd uintptr) (done bool) {
		if d == nil {
			d = g.borrow()
			k.owner().unpack(d)
			g.fd = int(fd)
		}
		p := d.box.Space(&k.sh.srv.input)
		if k.s.own.has(drains) {
			p = p[:min(len(p), max(1, d.box.Want()))] // the rest of a message, and nothing beyond it
		}
		if n, end = transport.ReadReady(fd, p); end == transport.ErrParked {
			g.giveBack(d)
			d = nil
			return false
		}
		return true
	}
	for {
		n, end = 0, nil
		if err := g.Raw.Read(read); err != nil {
			end = err // d is nil, unless a nudge came in between
		}
		if n > 0 {
			if !g.used.Load() {
				g.used.Store(true)
			}
			if !k.owner().received(d, n) {
				end = transport.ErrParked // next decides
			}
		}
		switch {
		case end == nil && k.sh.srv.draining.Load(): // a flood must not hide the shutdown
		case end == nil && !k.owner().holdsTooMuch(&d.box):
			continue
		case end != nil && end != transport.ErrParked:
			g.readFailed(end)
		}
		if d != nil {
			g.giveBack(d)
		}
		return
	}
}

// readFailed handles the error of a read.
func (g *goroutineConn) readFailed(err error) {
	switch {
	case transport.TimedOut(err): // nudged; next finds out why
	case errors.Is(err, io.EOF):
		g.ref.fail(PeerClosed)
		g.ref.owner().stopFrame()
	default:
		g.ref.broke()
	}
}

// readDrain reads what a drain has noted, and nothing that is sent from now on: a peer
// that keeps sending requests must not delay the shutdown.
func (g *goroutineConn) readDrain(d *workspace) {
	p := d.box.Space(&g.ref.sh.srv.input)
	n, err := g.Conn.Read(p[:min(len(p), g.left)])
	if n > 0 {
		g.ref.owner().received(d, n)
	}
	switch {
	case transport.TimedOut(err) && g.Raw != nil:
		g.left = min(g.left, g.ref.link().Unread()) // on a busy machine the deadline may pass before the read begins
	case err != nil:
		g.left = 0
	}
}

// discard reads and drops what a refused peer still sends: closing a socket with unread
// bytes resets it and can destroy the last replies in transit.
func (g *goroutineConn) discard() {
	waste := g.ref.sh.srv.buffers.Get(transport.LingerRead)
	defer waste.Release()
	n, err := g.Conn.Read(waste.Bytes())
	if transport.TimedOut(err) {
		n++ // bounds this loop too
	}
	if g.left -= n; g.left <= 0 || err != nil && !transport.TimedOut(err) {
		g.ref.kill()
	}
}

// readsInput reads and serves what has arrived, and reports whether there was anything.
func (g *goroutineConn) readsInput(d *workspace) bool {
	d.lendOut()
	p := d.box.Space(&g.ref.sh.srv.input)
	n, err := g.Conn.Read(p[:min(len(p), max(1, d.box.Want()))])
	if n > 0 {
		g.ref.owner().received(d, n)
	}
	if err != nil && !transport.TimedOut(err) {
		g.readFailed(err)
	}
	return n > 0
}
