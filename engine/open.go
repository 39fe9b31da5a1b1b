package engine

import (
	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/proxy"
	"github.com/hone-go/hone/internal/sys"
)

// What comes before the first message.

// begin initialises a slot for a connection. The caller then calls release.
func (k owner) begin(a *arrival, socket sys.Socket, g *goroutineConn) {
	s, srv := k.s, k.sh.srv
	s.mu.Lock()
	s.why.Store(0)
	s.phase.Store(uint32(life.Serving))
	s.since.Store(0)
	s.state, s.socket, s.tickets, s.speaks = a.state, socket, 0, a.speaks
	s.own, s.marks, s.opened, s.dead, s.slowVisits, s.epoch = 0, 0, false, false, 0, 0
	s.want, s.suspect, s.counted, s.weight = 0, 0, a.counted, 0
	s.spoken, s.facets, s.secured = a.speaks != 0, 0, false
	if g != nil {
		k.x.Store(&g.inflight)
	}
	k.link().LimitUnsent(maxUnsent)
	k.held().setAddr(a.from)
	k.touch()
	srv.clock.Stamp(&s.since)
	switch {
	case a.proxy:
		s.own.set(wantsProxy)
		k.held().attach().frame.Begin(&srv.clock) // the PROXY header has a message's time from here on
	case len(a.unread) > 0 && g != nil:
		g.own.box.Put(&srv.input, a.unread)
	case len(a.unread) > 0:
		k.held().attach().in.Put(&srv.input, a.unread)
	case srv.OnOpen == nil && g == nil && a.speaks == 0:
		s.own.set(isKnown)
		s.opened = true
	}
	k.held().setAway(true) // ours, for now
}

// open does what comes before the first read.
func (k owner) open(d *workspace) {
	if k.s.own&(wantsProxy|mustShake) == wantsProxy {
		return // OnOpen must see the address in the header
	}
	k.welcome(d)
}

// welcome calls OnOpen.
func (k owner) welcome(d *workspace) {
	k.s.own.set(isKnown)
	if srv := k.sh.srv; srv.OnOpen != nil {
		k.call(d, func() { srv.OnOpen(k.conn()) })
	}
}

// readProxyHeader parses the PROXY header at the front of in.
func (k owner) readProxyHeader(in []byte) (used, need int, why Reason) {
	used, need, addr, err := proxy.Parse(in)
	if err != nil {
		return 0, 0, BadProxyHeader
	}
	if need > 0 {
		return 0, need, 0
	}
	s, srv := k.s, k.sh.srv
	s.own.clear(wantsProxy)
	s.mu.Lock()
	if addr.IsValid() {
		k.held().setAddr(addr)
	}
	from := k.held().addr().Addr()
	s.mu.Unlock()
	srv.mu.Lock()
	ok := srv.addresses.Count(from, &s.counted)
	srv.mu.Unlock()
	if !ok {
		return used, 0, TooManyPerAddress
	}
	if s.own.has(mustShake) {
		return used, 0, 0
	}
	s.own.set(isKnown)
	if srv.OnOpen != nil {
		srv.guard(k.conn(), func() { srv.OnOpen(k.conn()) })
	}
	return used, 0, 0
}
