package engine

import (
	"errors"
	"slices"
)

// Connections that switch protocols.

// Pinger is a Protocol with a keepalive message. The engine sends the bytes that Ping
// returned to a connection that has been silent for half of Limits.IdleTime; a reply
// resets the idle timeout. Ping is called once per protocol of a server, so that pinging
// needs no timer per connection.
type Pinger interface{ Ping() []byte }

// Yielder is a Protocol whose connections may be closed between two messages, for the
// reason Displaced, when the server has Limits.Conns connections and another one arrives:
// the one that has been idle for longest, first among those from the newcomer's address.
// GivesWay is called once per protocol of a server.
type Yielder interface{ GivesWay() bool }

// Ender is a Protocol with a callback for the end of a connection that speaks it: called
// once, after its last visit and before Server.OnClose, with the last value of
// Turn.State.
type Ender interface {
	Ended(c Conn, state uint64, why Reason)
}

// spoken is a protocol in use by a server.
type spoken struct {
	Protocol
	ended    func(c Conn, state uint64, why Reason) // nil: not an Ender
	ping     []byte
	givesWay bool
}

func newSpoken(p Protocol) *spoken {
	sp := &spoken{Protocol: p}
	if e, ok := p.(Ender); ok {
		sp.ended = e.Ended
	}
	if asks, ok := p.(Pinger); ok {
		sp.ping = asks.Ping()
	}
	if y, ok := p.(Yielder); ok {
		sp.givesWay = y.GivesWay()
	}
	return sp
}

// mostSpoken is the maximum number of protocols of a server: a slot stores the index in a
// byte.
const mostSpoken = 256

var errTooManyProtocols = errors.New("engine: Turn.Become was called with more than 255 protocols; create each protocol once and share it between connections")

// speaks returns the connection's protocol. The caller is the owner, or holds mu.
func (k *connRef) speaks() *spoken { return (*k.sh.srv.spoken.Load())[k.s.speaks] }

// protocolOf returns the index of p among the server's protocols.
func (s *Server) protocolOf(p Protocol) (uint8, error) {
	known := func(all []*spoken) int {
		return slices.IndexFunc(all, func(sp *spoken) bool { return sp.Protocol == p })
	}
	if n := known((*s.spoken.Load())[1:]); n >= 0 {
		return uint8(n + 1), nil
	}
	s.learning.Lock() // not mu: Ping is user code
	defer s.learning.Unlock()
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

// Become switches the connection to p from the next visit on, which follows at once when
// Advance returns without an error: p gets the unused bytes, and also writes the
// refusals. Turn.State then belongs to p: it is 0, and whatever Advance sets it to from
// here on. p is compared with ==, so it is usually a pointer; one value serves all
// connections, and a server supports 255 at most. Outside an engine Become returns
// errors.ErrUnsupported.
func (t *Turn) Become(p Protocol) (err error) {
	if t.ref == nil {
		return errors.ErrUnsupported
	}
	if t.becomes, err = t.ref.sh.srv.protocolOf(p); err == nil {
		t.State = 0
	}
	return err
}

// End ends the connection like Close, with words as the final bytes sent to the peer:
// they follow all output posted before, and replace Protocol.Refuse. When the connection
// is already ending, words are dropped, and End returns ErrClosed.
func (c Conn) End(why Reason, words []byte) error {
	k, ok := c.lock()
	if !ok {
		return ErrClosed
	}
	defer k.s.mu.Unlock()
	if k.s.dead || ends(k.reason()) && k.reason() != PeerClosed || k.s.marks.has(isShut) || k.s.marks.has(isSaid) {
		return ErrClosed
	}
	k.held().attach().rarely().words = append([]byte{}, words...)
	k.fail(why)
	k.held().notify()
	return nil
}
