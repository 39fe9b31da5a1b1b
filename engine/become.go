package engine

import (
	"errors"
	"slices"
)

// Connections that begin as one protocol and go on as another.

// Pinger is a Protocol that asks peers whether they are still there. What Ping returns is
// sent to a connection that has been silent for half of Limits.IdleTime; one that answers
// is not idle. Ping is called once for each protocol of a server, so that asking costs a
// connection no timer.
type Pinger interface{ Ping() []byte }

// Ender is a Protocol that is told when a connection that speaks it has ended: once, after
// its last visit and before Server.OnClose, with what was in Turn.State last.
type Ender interface {
	Ended(c Conn, state uint64, why Reason)
}

// spoken is a protocol of a server's connections.
type spoken struct {
	Protocol
	ended func(c Conn, state uint64, why Reason) // nil: it need not be told
	ping  []byte
}

func newSpoken(p Protocol) *spoken {
	sp := &spoken{Protocol: p}
	if e, ok := p.(Ender); ok {
		sp.ended = e.Ended
	}
	if asks, ok := p.(Pinger); ok {
		sp.ping = asks.Ping()
	}
	return sp
}

// mostSpoken is how many protocols a server can have: a slot has a byte for them.
const mostSpoken = 256

var errTooManyProtocols = errors.New("engine: Turn.Become was called with more than 255 protocols; make each once, and use it for all connections")

// speaks is the protocol of the connection: the owner's to ask for, or under mu.
func (k *connRef) speaks() *spoken { return (*k.sh.srv.spoken.Load())[k.s.speaks] }

// protocolOf is the number of p among the server's protocols.
func (s *Server) protocolOf(p Protocol) (uint8, error) {
	known := func(all []*spoken) int {
		return slices.IndexFunc(all, func(sp *spoken) bool { return sp.Protocol == p })
	}
	if n := known((*s.spoken.Load())[1:]); n >= 0 {
		return uint8(n + 1), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := *s.spoken.Load()
	if n := known(all[1:]); n >= 0 {
		return uint8(n + 1), nil
	}
	if len(all) == mostSpoken {
		return 0, errTooManyProtocols
	}
	more := append(slices.Clone(all), newSpoken(p))
	s.spoken.Store(&more)
	return uint8(len(all)), nil
}

// Become has the connection speak p from the next visit on, which follows at once when
// Advance returns without an error: the bytes that it has not used are p's, and so are
// refusals and the end. Turn.State is p's as well: 0, and what Advance sets it to from here
// on. p is compared with ==, so it is a pointer mostly; one value serves all connections,
// and a server takes 255 at most. Outside an engine Become answers errors.ErrUnsupported.
func (t *Turn) Become(p Protocol) (err error) {
	if t.ref == nil {
		return errors.ErrUnsupported
	}
	if t.becomes, err = t.ref.sh.srv.protocolOf(p); err == nil {
		t.State = 0
	}
	return err
}

// End ends the connection as Close does, with words that are the last that the peer hears:
// they go behind all that was posted before, and Protocol.Refuse is not asked for any. When
// the connection is ending already, there are no further words, and ErrClosed is returned.
func (c Conn) End(why Reason, words []byte) error {
	k, ok := c.lock()
	if !ok {
		return ErrClosed
	}
	defer k.s.mu.Unlock()
	if k.s.dead || ends(k.reason()) && k.reason() != PeerClosed || k.s.marks.has(isShut) || k.s.marks.has(isSaid) {
		return ErrClosed
	}
	k.attach().rarely().words = append([]byte{}, words...)
	k.fail(why)
	k.notify()
	return nil
}
