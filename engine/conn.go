package engine

import (
	"errors"
	"net/netip"
	"slices"
)

// ErrClosed is the answer of a Conn or Reply whose connection has ended.
var ErrClosed = errors.New("engine: connection closed")

// ErrSettled is the answer to a second Send on one Reply, or to a Send after
// the message that promised it panicked.
var ErrSettled = errors.New("engine: reply already settled")

// Conn is a connection as a small comparable value: safe to keep, to use as a
// map key and to call from any goroutine. When its connection has ended it
// answers ErrClosed.
type Conn struct {
	sh  *shard
	key uint64
}

// Push queues parts, one after the other and nothing between them, behind what
// already waits for the peer. The bytes are copied. A peer that does not read
// fast enough (Limits.HardCap) is disconnected and SlowReader returned.
func (c Conn) Push(parts ...[]byte) error {
	return c.post(noTicket, parts)
}

// SendAll settles promises of this connection together, as Reply.Send does each: the
// connection is locked once for all of them. What answers replies[i] begins where the
// one before it ends, and ends at out[ends[i]]. The bytes are copied. It returns how
// many were sent; failed, if it is not nil, is told of each of the others, afterwards.
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

// Close ends the connection for the reason given: nothing more is read, what
// is queued is flushed, then it closes. It does not wait.
func (c Conn) Close(why Reason) {
	if k, ok := c.lock(); ok {
		k.fail(why)
		k.notify()
		k.s.mu.Unlock()
	}
}

// Trust says that the connection has proved who it is: Limits.AuthTime is over for it.
func (c Conn) Trust() {
	if k, ok := c.lock(); ok {
		k.s.trusted = true
		k.s.mu.Unlock()
	}
}

// RemoteAddr is the peer's address, as a trusted proxy told it where there is
// one; the zero AddrPort for unix sockets.
func (c Conn) RemoteAddr() netip.AddrPort {
	k, ok := c.lock()
	if !ok {
		return netip.AddrPort{}
	}
	defer k.s.mu.Unlock()
	return k.addr()
}

// Value is what SetValue stored last, or nil. A connection that never stores
// anything pays nothing for it.
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

// SetValue keeps v with the connection until it ends.
func (c Conn) SetValue(v any) {
	if k, ok := c.lock(); ok {
		k.attach().rarely().value = v
		k.s.mu.Unlock()
	}
}

// lock finds the connection and locks it, unless it has ended.
func (c Conn) lock() (connRef, bool) {
	if c.sh == nil {
		return connRef{}, false
	}
	return c.sh.lock(c.key)
}

// Reply is one promised reply: a small value, safe to keep, to be sent once
// and from any goroutine.
type Reply struct {
	conn   Conn
	ticket uint64
}

// Send settles the promise with parts, which are copied. With no parts it
// settles without a word. It answers ErrClosed when the connection has ended
// and ErrSettled when the promise is no longer open.
func (r Reply) Send(parts ...[]byte) error {
	return r.conn.post(r.ticket, parts)
}

// Conn is the connection the reply belongs to.
func (r Reply) Conn() Conn { return r.conn }

// noTicket marks a push: output that settles nothing.
const noTicket = ^uint64(0)
