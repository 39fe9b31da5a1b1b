package engine

import (
	"errors"
	"net"
)

// Turn is one visit of a connection's bytes to the protocol. It is valid until
// Advance returns. The zero Turn, outside any engine, always has room and
// serves to test a protocol with plain values.
type Turn struct {
	// Out collects the replies; Advance appends to it.
	Out []byte
	// State is the protocol's eight bytes for this connection, kept from visit
	// to visit, zero at first.
	State uint64

	conn     *session
	left     int  // messages this visit may still serve
	full     int  // Room says no at this many bytes of Out
	refused  bool // Room said no
	requests int
	promised []uint64 // tickets of the message since Mark
	serial   uint32
	mark     struct{ out, used int }
	takeOver func(nc net.Conn, unread []byte)
}

// Room reports whether one more message may be served. Ask before every
// message: flow control lives here, and a protocol that does not ask lets one
// client's amplified replies or late replies grow without bound.
func (t *Turn) Room() bool {
	if t.conn == nil {
		return true
	}
	if t.left == 0 || len(t.Out) >= t.full || !t.conn.hasRoom() {
		t.refused = true
		return false
	}
	if t.conn.srv.ordered && t.requests == 0 {
		t.conn.startVisit() // a reply that came since the visit began is still an earlier one
	}
	t.left--
	return true
}

// Mark says that the message beginning at in[used] is about to reach user
// code. If that panics, everything since is undone and Refuse sees in[used:].
func (t *Turn) Mark(used int) {
	t.mark.out, t.mark.used = len(t.Out), used
	t.promised = t.promised[:0]
	t.requests++
	t.serial++
}

// Rollback undoes what happened since Mark: the output is cut, and replies
// promised with Later are no longer owed. It reports false when such a reply has
// been sent already: the peer has its answer, and must not get a second one.
func (t *Turn) Rollback() (unanswered bool) {
	t.Out = t.Out[:t.mark.out]
	unanswered = true
	if len(t.promised) > 0 && t.conn != nil {
		unanswered = t.conn.revoke(t.promised)
	}
	t.promised = t.promised[:0]
	return unanswered
}

// Serial changes with every Mark and at the end of the visit: user code that
// kept something of a Turn can be told so instead of being served another
// connection's data.
func (t *Turn) Serial() uint32 { return t.serial }

// Later promises one more reply, to be sent from any goroutine at any time.
// The connection stays open for it, a half-closed one too.
func (t *Turn) Later() Reply {
	if t.conn == nil {
		t.promised = append(t.promised, noTicket)
		return Reply{}
	}
	if t.conn.srv.ordered {
		t.left = 0 // its reply comes before all that follow, even if it is sent at once
	}
	ticket := t.conn.promise()
	t.promised = append(t.promised, ticket)
	return Reply{conn: t.conn, ticket: ticket}
}

// Promised is how many replies have been promised since Mark.
func (t *Turn) Promised() int { return len(t.promised) }

// Conn is the connection as a value that may be kept.
func (t *Turn) Conn() Conn { return Conn{t.conn} }

// TakeOver gives the socket to serve once this visit's output is flushed, with
// the bytes that were read and not used; the connection ends when serve
// returns. Advance returns right after it. Engines that own their sockets
// refuse with errors.ErrUnsupported; the goroutine engines never do.
func (t *Turn) TakeOver(serve func(nc net.Conn, unread []byte)) error {
	if t.conn == nil {
		return errors.ErrUnsupported
	}
	t.takeOver = serve
	t.left = 0
	return nil
}

// begin prepares t for a visit of c.
func (t *Turn) begin(c *session) {
	t.conn, t.State = c, c.state
	t.left, t.full = c.srv.perVisit, c.srv.limits.HighWater
	t.refused, t.requests, t.promised, t.takeOver = false, 0, t.promised[:0], nil
	t.mark.out, t.mark.used = len(t.Out), 0
	t.serial++
}

// end settles the visit's account with its connection.
func (t *Turn) end() {
	c := t.conn
	c.state = t.State
	t.serial++
	t.conn = nil
	if t.requests > 0 {
		c.tally.requests.Add(uint64(t.requests))
	}
}
