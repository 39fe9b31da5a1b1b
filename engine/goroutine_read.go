package engine

import (
	"errors"
	"io"
	"os"

	"github.com/hone-go/hone/internal/sys"
)

// readBlocking reads and serves until the protocol does not simply want more bytes:
// Direct and Buffered.
func (g *goroutineConn) readBlocking(d *workspace) {
	k := &g.ref
	exact := k.sh.srv.how.style == direct
	for !k.holdsTooMuch(&d.box) {
		p := d.box.space(&k.sh.srv.input)
		if exact {
			p = p[:min(len(p), max(1, d.box.want))]
		}
		n, err := g.nc.Read(p)
		hungry := true
		if n > 0 {
			d.lendOut()
			hungry = k.received(d, n)
			d.returnOut()
			if d.box.kept.Lent() || g.input.Load() > 0 {
				g.noteInput(&d.box)
			}
		}
		if err != nil {
			g.readFailed(err)
			return
		}
		if !hungry {
			return
		}
	}
}

// readParked does the same, holding no buffer while nothing arrives. It is one call
// of RawConn.Read: between two of them an edge that Go's poller has seen would be
// forgotten, so the first thing in each is to read until nothing is left.
func (g *goroutineConn) readParked() {
	var end error
	err := g.raw.Read(func(fd uintptr) (done bool) {
		end = g.readReady(fd)
		return end != errParked
	})
	if err == nil {
		err = end
	}
	if err != nil {
		g.readFailed(err)
	}
}

// errParked says that everything that had arrived is served.
var errParked = errors.New("engine: parked")

// readReady serves what has arrived on fd. It answers errParked to wait for more,
// nil when next is to decide, and a read's error otherwise.
func (g *goroutineConn) readReady(fd uintptr) (err error) {
	k := &g.ref
	d := g.borrow()
	k.unpack(d)
	g.fd = int(fd)
	defer func() { // also when user code ends this goroutine: then nobody else has the workspace
		g.fd = noDescriptor
	}()
	for !k.holdsTooMuch(&d.box) {
		if k.sh.srv.draining.Load() {
			err = os.ErrDeadlineExceeded // a flood must not hide that we are leaving
			break
		}
		var n int
		if n, err = readSocket(fd, d.box.space(&k.sh.srv.input)); n > 0 {
			if !g.used.Load() {
				g.used.Store(true)
			}
			if k.received(d, n) {
				continue
			}
			err = nil
		}
		break
	}
	g.giveBack(d)
	return err
}

// readSocket is one read of a ready descriptor. It answers errParked when
// nothing is left, and only then has every FIN been seen: Go's poller reports
// edges, and data and FIN may share one.
func readSocket(fd uintptr, p []byte) (int, error) {
	n, err := sys.Read(fd, p)
	switch err {
	case sys.ErrAgain:
		return 0, errParked
	case sys.ErrClosed:
		return 0, io.EOF
	}
	return n, err
}

// readFailed says what the end of a read means.
func (g *goroutineConn) readFailed(err error) {
	switch {
	case timedOut(err): // somebody nudged; next finds out why
	case errors.Is(err, io.EOF):
		g.ref.fail(PeerClosed)
	default:
		g.ref.broke()
	}
}

// readDrain reads what a drain has noted. What is sent from now on is not read: a
// peer that goes on asking does not hold us up.
func (g *goroutineConn) readDrain(d *workspace) {
	p := d.box.space(&g.ref.sh.srv.input)
	n, err := g.nc.Read(p[:min(len(p), g.left)])
	if n > 0 {
		g.ref.received(d, n)
	}
	if err != nil {
		g.left = 0
	}
}

// discard reads and drops what a refused peer still sends: closing a socket with
// unread bytes resets it and can destroy the last replies on their way.
func (g *goroutineConn) discard() {
	waste := g.ref.sh.srv.buffers.Get(lingerRead)
	defer waste.Release()
	n, err := g.nc.Read(waste.Bytes())
	if timedOut(err) {
		n++ // nor is that for ever
	}
	if g.left -= n; g.left <= 0 || err != nil && !timedOut(err) {
		g.ref.kill()
	}
}
