package engine

import (
	"errors"
	"net"
	"time"
)

// Turn is one visit: a call of the protocol with a connection's input. It is valid until
// Advance returns. The zero Turn, outside any engine, always has room and serves to test
// a protocol with plain values.
type Turn struct {
	// Out collects the replies; Advance appends to it.
	Out []byte
	// State is eight bytes of protocol state for this connection, kept from visit to
	// visit, initially zero.
	State uint64

	ref      *connRef // nil outside an engine
	granted  int      // messages until flow control is checked again
	left     int      // messages this visit may still serve
	full     int      // Room returns false at this many bytes of Out
	refused  bool     // Room returned false
	requests int
	promised []uint64 // tickets of the message since Mark
	later    int      // promises of this visit that were not rolled back
	spare    [mostSpare]uint64
	spares   int  // unused tickets in spare, taken for this visit
	room     bool // flow control allows more when there are no spares
	serial   uint32
	mark     struct{ out, used int }
	takeOver func(nc net.Conn, unread []byte) (left []byte, back bool)
	becomes  uint8 // protocol of the next visit

	d       *workspace
	watched bool          // Context was called in this visit
	yields  int           // calls of Flush and More in this visit
	largest int           // most bytes that Flush has written at once in this visit
	flushed bool          // since Mark: a part of the reply was sent
	moved   bool          // since Mark: Advance's input is no longer the unserved input
	owed    time.Duration // how long More has waited, less what the bytes that arrived have earned
	within  time.Duration // of ExpectRest
}

// Room reports whether one more message may be served. Call it before every message: it
// applies flow control, and a protocol that does not call it lets one client's amplified
// or late replies grow without bound.
func (t *Turn) Room() bool {
	if t.ref == nil {
		return true
	}
	full := t.left == 0 || len(t.Out) >= t.full
	if !full && (t.granted == 0 || t.ref.reason() != 0) {
		t.granted = t.ref.owner().admit(t.requests == 0)
	}
	if full || t.granted == 0 {
		t.refused = true
		return false
	}
	t.left--
	t.granted--
	return true
}

// Mark declares that the message at in[used] is about to reach user code. If that panics,
// the engine rolls back everything since and passes in[used:] to Refuse.
func (t *Turn) Mark(used int) {
	t.mark.out, t.mark.used = len(t.Out), used
	t.flushed, t.moved = false, false
	t.promised = t.promised[:0]
	t.requests++
	t.serial++
}

// Serial changes with every Mark and at the end of the visit, so that user code that uses
// a stale Turn can be detected instead of accessing another connection's data.
func (t *Turn) Serial() uint32 { return t.serial }

// mostSpare bounds how many tickets a visit takes at a time, with one lock of the
// connection's mutex and one check of flow control. Until the visit ends they count as
// owed.
const mostSpare = 8

// Promised returns how many replies have been promised since Mark.
func (t *Turn) Promised() int { return len(t.promised) }

// Conn returns the handle of the connection, which may be kept.
func (t *Turn) Conn() Conn {
	if t.ref == nil {
		return Conn{}
	}
	return t.ref.conn()
}

// TakeOver calls serve with the socket and the unused input, after this visit's output is
// flushed and all owed replies are sent, within Limits.IdleTime. Until serve returns,
// nothing can be posted to the connection, and the engine enforces no limits. When serve
// returns the socket, the protocol is visited again, with the bytes that serve has read
// too far; nothing else may use nc by then. Otherwise the connection ends. Advance must
// return right after TakeOver; an error that it returns takes precedence. Outside an
// engine TakeOver returns errors.ErrUnsupported.
func (t *Turn) TakeOver(serve func(nc net.Conn, unread []byte) (left []byte, back bool)) error {
	if t.ref == nil {
		return errors.ErrUnsupported
	}
	t.takeOver = serve
	t.left = 0
	return nil
}

// Hold delays everything that is posted to the connection from now on, late replies
// included, until this visit's output is written: a push to a peer that has just been
// accepted must not overtake the message that accepts it. A visit that waits keeps
// delaying them; more than twice Limits.HardCap of them ends the connection as
// SlowReader.
func (t *Turn) Hold() {
	if t.ref != nil {
		t.ref.owner().startVisit()
	}
}

// ExpectRest declares that the message at the front of the unused input will be served
// once the rest of it has arrived. Advance calls it before it returns need > 0. From its
// first byte to its last the message may then take within, instead of Limits.FrameTime
// plus its size at FrameRate, and a Shutdown waits for it.
func (t *Turn) ExpectRest(within time.Duration) { t.within = max(within, time.Millisecond) }

// giveBack returns the tickets that a visit has not used. mu held.
func (t *Turn) giveBack(x *inflight) {
	if t.spares > 0 {
		x.promises.Revoke(t.spare[:t.spares])
		t.spares = 0
	}
}
