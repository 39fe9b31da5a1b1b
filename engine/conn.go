package engine

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/hone-go/hone/engine/internal/life"
)

// ErrClosed is returned by a Conn or Reply whose connection has ended.
var ErrClosed = errors.New("engine: connection closed")

// ErrSettled is returned by a second Send on one Reply, and by a Send after the message
// that promised it has panicked.
var ErrSettled = errors.New("engine: reply already settled")

// Conn is a handle to a connection: a small comparable value, safe to keep, to use as a
// map key and to call from any goroutine. After the connection has ended, its methods
// return ErrClosed.
type Conn struct {
	sh  *shard
	key uint64
}

// Push appends parts to the connection's output queue, as one piece. It copies the bytes.
// If the peer does not read fast enough (Limits.HardCap), Push disconnects it and returns
// SlowReader.
func (c Conn) Push(parts ...[]byte) error {
	return c.post(noTicket, parts)
}

// SendAll sends several replies of this connection like Reply.Send, but locks the
// connection only once. The reply to replies[i] begins where the previous one ends, and
// ends at out[ends[i]]. It copies the bytes. It returns how many were sent; afterwards it
// calls failed, if not nil, for each of the others.
func (c Conn) SendAll(replies []Reply, out []byte, ends []int, failed func(i int, err error)) (sent int) {
	from := 0
	for at := 0; at < len(replies); {
		n, settled, err := c.postAll(replies[at:], out, ends[at:], from)
		if err == nil {
			sent += n - len(settled)
		}
		for i := 0; failed != nil && err != nil && i < n; i++ {
			if !slices.Contains(settled, i) {
				failed(at+i, err)
			}
		}
		for _, i := range settled {
			if failed != nil {
				failed(at+i, ErrSettled)
			}
		}
		at += n
		from = ends[at-1]
	}
	return sent
}

// Close starts to end the connection for the given reason, and returns at once: the
// engine stops reading, flushes the queued output and then closes.
func (c Conn) Close(why Reason) {
	if k, ok := c.lock(); ok {
		k.fail(why)
		k.held().notify()
		k.s.mu.Unlock()
	}
}

// Trust marks the connection as authenticated: it stops the timeout of Limits.AuthTime.
func (c Conn) Trust() {
	if k, ok := c.lock(); ok {
		k.s.facets.set(isTrusted)
		k.s.mu.Unlock()
	}
}

// Distrust takes Trust back: Limits.AuthTime begins now.
func (c Conn) Distrust() {
	if k, ok := c.lock(); ok {
		k.s.facets.clear(isTrusted)
		if k.phase() == life.Serving {
			k.sh.srv.clock.Stamp(&k.s.since)
		}
		k.s.mu.Unlock()
	}
}

// RemoteAddr returns the peer's address, from the PROXY header when a trusted proxy sent
// one; it returns the zero AddrPort for unix sockets.
func (c Conn) RemoteAddr() netip.AddrPort {
	k, ok := c.lock()
	if !ok {
		return netip.AddrPort{}
	}
	defer k.s.mu.Unlock()
	return k.held().addr()
}

// Unsent returns how many bytes of output wait for the kernel to accept them, because the
// peer reads more slowly than it is written to: 0 after the connection has ended. What the
// kernel has accepted does not count, even if the peer has not received it.
func (c Conn) Unsent() int {
	k, ok := c.lock()
	if !ok {
		return 0
	}
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil {
		return int(x.waiting)
	}
	return 0
}

// Value returns what SetValue stored last, or nil. A connection that stores nothing uses
// no memory for it.
func (c Conn) Value() any {
	k, ok := c.lock()
	if !ok {
		return nil
	}
	defer k.s.mu.Unlock()
	if x := k.x.Load(); x != nil && x.rare != nil {
		return x.rare.value
	}
	return nil
}

// SetValue attaches v to the connection until it ends.
func (c Conn) SetValue(v any) {
	if k, ok := c.lock(); ok {
		k.held().attach().rarely().value = v
		k.s.mu.Unlock()
	}
}

// lock finds and locks the connection, unless it has ended.
func (c Conn) lock() (connRef, bool) {
	if c.sh == nil {
		return connRef{}, false
	}
	return c.sh.lock(c.key)
}

// Reply is a handle to one promised reply: a small value, safe to keep, to be sent once
// and from any goroutine.
type Reply struct {
	conn   Conn
	ticket uint64
}

// Send sends parts as the reply, and copies them. With no parts it settles the promise
// without output. It returns ErrClosed when the connection has ended and ErrSettled when
// the promise is no longer open.
func (r Reply) Send(parts ...[]byte) error {
	return r.conn.post(r.ticket, parts)
}

// Conn returns the reply's connection.
func (r Reply) Conn() Conn { return r.conn }

// noTicket marks a push: output that settles no promise.
const noTicket = ^uint64(0)
