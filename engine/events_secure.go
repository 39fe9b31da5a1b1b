package engine

import (
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/internal/sys"
)

// TLS on an event loop. A layer (package secure) lies between the socket and everything else: what
// is read is decrypted at once, and output is sealed when it is taken for writing, so queues hold
// plaintext. The handshake needs a goroutine, because crypto/tls cannot continue one that has
// failed to read.

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
