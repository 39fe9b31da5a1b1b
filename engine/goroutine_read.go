package engine

import (
	"errors"
	"io"

	"github.com/hone-go/hone/engine/internal/transport"
)

// readBlocking reads and serves as long as the protocol only needs more bytes.
func (g *goroutineConn) readBlocking(d *workspace) {
	k := &g.ref
	drains := k.s.own.has(drains) // it reads the rest of a message, and nothing beyond it
	for !k.owner().holdsTooMuch(&d.box) {
		p := d.box.Space(&k.sh.srv.input)
		if drains {
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

// readMore reads in the middle of a visit, and blocks until there is something. It
// returns 0, nil when the wait was interrupted and the visit continues.
func (g *goroutineConn) readMore(d *workspace) (n int, err error) {
	k, t, memory := &g.ref, &d.turn, &g.ref.sh.srv.input
	if sent, err := k.owner().sendEarlier(t); sent {
		return 0, err
	}
	d.slim(streamRead)
	p := d.box.Space(memory)
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if err := k.held().endsVisit(t); err != nil {
		return 0, err
	}
	if g.queue.LetEarlierGo(); !g.writing && !g.queue.Waits() {
		k.held().list() // the peer may wait for it
	}
	nudged := g.IsNudged()
	g.ClearNudge()
	began := k.held().startWait(&g.inflight, t, d.box.Want())
	g.noteInput(&d.box)
	k.s.mu.Unlock()
	g.Settle()
	n, err = g.Read(p)
	if err != nil {
		g.readFailed(err)
	}
	k.s.mu.Lock()
	if ends := k.held().endsVisit(t); ends != nil || transport.TimedOut(err) { // a peer that sends nothing more ends it even in a drain
		err = ends
	}
	k.held().endWait(&g.inflight, t, began)
	if nudged {
		g.nudge() // its cause is handled after the visit
	}
	return n, err
}
