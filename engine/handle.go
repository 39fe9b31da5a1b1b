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
type Conn struct{ s *session }

// Push queues parts, one after the other and nothing between them, behind what
// already waits for the peer. The bytes are copied. A peer that does not read
// fast enough (Limits.HardCap) is disconnected and SlowReader returned.
func (c Conn) Push(parts ...[]byte) error {
	if c.s == nil {
		return ErrClosed
	}
	return c.s.post(noTicket, parts)
}

// Close ends the connection for the reason given: nothing more is read, what
// is queued is flushed, then it closes. It does not wait.
func (c Conn) Close(why Reason) {
	if c.s != nil {
		c.s.closeFor(why)
	}
}

// RemoteAddr is the peer's address, as a trusted proxy told it where there is
// one; the zero AddrPort for unix sockets.
func (c Conn) RemoteAddr() netip.AddrPort {
	if c.s == nil {
		return netip.AddrPort{}
	}
	return c.s.remoteAddr()
}

// Value is what SetValue stored last, or nil. A connection that never stores
// anything pays nothing for it.
func (c Conn) Value() any {
	if c.s == nil {
		return nil
	}
	if p := c.s.value.Load(); p != nil {
		return *p
	}
	return nil
}

// SetValue keeps v with the connection until it ends.
func (c Conn) SetValue(v any) {
	if c.s != nil {
		c.s.value.Store(&v)
	}
}

// Reply is one promised reply: a small value, safe to keep, to be sent once
// and from any goroutine.
type Reply struct {
	conn   *session
	ticket uint64
}

// Send settles the promise with parts, which are copied. With no parts it
// settles without a word. It answers ErrClosed when the connection has ended
// and ErrSettled when the promise is no longer open.
func (r Reply) Send(parts ...[]byte) error {
	if r.conn == nil {
		return ErrClosed
	}
	return r.conn.post(r.ticket, parts)
}

// Conn is the connection the reply belongs to.
func (r Reply) Conn() Conn { return Conn{r.conn} }

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
