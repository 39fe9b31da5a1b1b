package engine

import (
	"errors"
	"slices"
)

// Connections that switch protocols.

// mostSpoken is the maximum number of protocols of a server: a slot stores the index in a
// byte.
const mostSpoken = 256

var errTooManyProtocols = errors.New("engine: Turn.Become was called with more than 255 protocols; create each protocol once and share it between connections")

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
