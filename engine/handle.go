package engine

import (
	"errors"
	"net/netip"
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
	s   *session // on a goroutine engine
	l   *loop    // on Events
	key uint64   // there
}

// Push queues parts, one after the other and nothing between them, behind what
// already waits for the peer. The bytes are copied. A peer that does not read
// fast enough (Limits.HardCap) is disconnected and SlowReader returned.
func (c Conn) Push(parts ...[]byte) error {
	return c.post(noTicket, parts)
}

// Close ends the connection for the reason given: nothing more is read, what
// is queued is flushed, then it closes. It does not wait.
func (c Conn) Close(why Reason) {
	switch {
	case c.s != nil:
		c.s.closeFor(why)
	case c.l != nil:
		c.l.closeFor(c.key, why)
	}
}

// RemoteAddr is the peer's address, as a trusted proxy told it where there is
// one; the zero AddrPort for unix sockets.
func (c Conn) RemoteAddr() netip.AddrPort {
	switch {
	case c.s != nil && !c.s.ended.Load():
		return c.s.remoteAddr()
	case c.l != nil:
		return c.l.remoteAddr(c.key)
	}
	return netip.AddrPort{}
}

// Value is what SetValue stored last, or nil. A connection that never stores
// anything pays nothing for it.
func (c Conn) Value() any {
	switch {
	case c.s != nil:
		if p := c.s.value.Load(); p != nil {
			return *p
		}
	case c.l != nil:
		return c.l.value(c.key)
	}
	return nil
}

// SetValue keeps v with the connection until it ends.
func (c Conn) SetValue(v any) {
	switch {
	case c.s != nil && !c.s.ended.Load():
		c.s.value.Store(&v)
	case c.l != nil:
		c.l.setValue(c.key, v)
	}
}

func (c Conn) post(ticket uint64, parts [][]byte) error {
	switch {
	case c.s != nil:
		return c.s.post(ticket, parts)
	case c.l != nil:
		return c.l.post(c.key, ticket, parts)
	}
	return ErrClosed
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

// tickets are the promises of one connection: exact, so that a second answer to
// one request can neither reach the peer nor settle somebody else's. A ticket
// is its slot with the slot's generation above it.
type tickets struct {
	slots      []ticket
	free       []uint32
	open       int
	generation uint32 // of the ticket taken last, so that slots can be forgotten
}

type ticket struct {
	generation uint32
	open       bool
}

func (t *tickets) take() uint64 {
	if len(t.free) == 0 {
		t.slots = append(t.slots, ticket{})
		t.free = append(t.free, uint32(len(t.slots)-1))
	}
	slot := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[slot]
	t.generation++
	s.generation, s.open = t.generation, true
	t.open++
	return uint64(slot) | uint64(s.generation)<<32
}

// keepTickets is how many slots a quiet connection may keep.
const keepTickets = 64

// forget gives the slots of a large burst back when nothing is open.
func (t *tickets) forget() {
	if t.open == 0 && len(t.slots) > keepTickets {
		t.slots, t.free = nil, nil
	}
}

func (t *tickets) settle(n uint64) bool {
	slot := uint32(n)
	if int64(slot) >= int64(len(t.slots)) {
		return false
	}
	s := &t.slots[slot]
	if !s.open || s.generation != uint32(n>>32) {
		return false
	}
	s.open = false
	t.free = append(t.free, slot)
	t.open--
	return true
}

// revoke settles those of them that are open, and returns how many were.
func (t *tickets) revoke(all []uint64) (open int) {
	for _, n := range all {
		if t.settle(n) {
			open++
		}
	}
	return open
}

// abandon closes every promise and keeps the slots' room for another connection.
func (t *tickets) abandon() { t.slots, t.free, t.open = t.slots[:0], t.free[:0], 0 }
