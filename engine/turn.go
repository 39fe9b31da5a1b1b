package engine

import (
	"errors"
	"log/slog"
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

// Rollback undoes what happened since Mark: it cuts the output, and cancels replies
// promised with Later. It reports false when such a reply, or a part of the reply
// (Flush), has been sent already: the peer must not get a second one.
func (t *Turn) Rollback() (unanswered bool) {
	t.Out = t.Out[:t.mark.out]
	unanswered = !t.flushed
	if len(t.promised) > 0 && t.ref != nil {
		open := t.ref.owner().revoke(t.promised)
		unanswered = unanswered && open == len(t.promised)
		t.later -= open
		t.granted = 0
	}
	t.promised = t.promised[:0]
	return unanswered
}

// Serial changes with every Mark and at the end of the visit, so that user code that uses
// a stale Turn can be detected instead of accessing another connection's data.
func (t *Turn) Serial() uint32 { return t.serial }

// Later promises one more reply, to be sent from any goroutine at any time. The
// connection stays open until it is sent, even when half-closed.
func (t *Turn) Later() Reply {
	if t.ref == nil {
		t.promised = append(t.promised, noTicket)
		return Reply{}
	}
	if t.spares == 0 { // as many as the visit has used: a visit with one promise may not make more
		t.spares, t.room = t.ref.owner().promise(t.spare[:min(max(1, t.later), mostSpare)])
		if t.ref.sh.srv.ordered { // at most one at a time
			t.left = 0 // its reply precedes all that follow, even if it is sent at once
		}
	}
	t.spares--
	ticket := t.spare[t.spares]
	t.promised, t.later = append(t.promised, ticket), t.later+1
	t.granted = 0
	if t.spares > 0 || t.room {
		t.granted = 1
	}
	return Reply{conn: t.ref.conn(), ticket: ticket}
}

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

// Leave declares that this visit may block: another goroutine takes over the event loop
// at once. The engine detects a visit that blocks anyway, but its loop then stalls for a
// millisecond or two. Leave costs a few microseconds, and nothing on a goroutine engine.
func (t *Turn) Leave() {
	if t.ref != nil {
		t.ref.owner().leaveLoop(t.d)
	}
}

// Flush writes and empties Out, and waits until the kernel has accepted it, for as long
// as Limits.StallTime lets the peer read nothing. The error is the Reason for which the
// connection ends; Advance must return it. What was written cannot be rolled back: if the
// message panics now, the connection is reset when the peer has received everything. Use
// Flush to send a large reply with little memory; replies promised by Later do not wait
// for it.
func (t *Turn) Flush() error {
	if t.ref == nil {
		return nil
	}
	return t.ref.owner().flushMid(t)
}

// More consumes used bytes of the input of Advance, or of the last More, and waits until
// need more bytes have arrived than were left. It returns all unserved input; the slice
// that it returned before is no longer valid, and the count that Advance returns is
// relative to the new slice. The peer must send at Limits.FrameRate; only the time that
// the visit waits here counts. With need = 0 it does not wait; when nothing is left, a
// Flush after it frees the visit's read buffer (64 KiB on an event loop), which is
// worthwhile before a long reply. The error is the Reason for which the connection ends;
// Advance must return it. Outside an engine More returns errors.ErrUnsupported.
func (t *Turn) More(used, need int) (in []byte, err error) {
	if t.ref == nil {
		return nil, errors.ErrUnsupported
	}
	return t.ref.owner().more(t.d, used, need)
}

// ExpectRest declares that the message at the front of the unused input will be served
// once the rest of it has arrived. Advance calls it before it returns need > 0. From its
// first byte to its last the message may then take within, instead of Limits.FrameTime
// plus its size at FrameRate, and a Shutdown waits for it.
func (t *Turn) ExpectRest(within time.Duration) { t.within = max(within, time.Millisecond) }

// begin prepares t for a visit of a connection.
func (t *Turn) begin(d *workspace) {
	k := &d.ref
	srv := k.sh.srv
	t.d, t.ref, t.State = d, k, k.s.state
	t.yields, t.largest, t.flushed, t.moved, t.owed = 0, 0, false, false, 0
	t.granted, t.left, t.full = 0, -1, srv.limits.HighWater
	t.refused, t.requests, t.later, t.promised, t.takeOver = false, 0, 0, t.promised[:0], nil
	t.spares, t.becomes, t.within = 0, k.s.speaks, 0
	t.mark.out, t.mark.used = len(t.Out), 0
	t.serial++
}

// end accounts for the visit.
func (t *Turn) end(why Reason) {
	k := t.ref
	t.serial++
	if t.requests > 0 {
		k.sh.counts.requests.Add(uint64(t.requests))
	}
	if t.watched {
		t.watched = false
		k.owner().visitUnwatched(t)
	}
	if t.later > 0 {
		k.sh.counts.promised.Add(uint64(t.later))
	}
	t.ref = nil
	if t.becomes != k.s.speaks && why == 0 {
		k.s.mu.Lock()
		k.s.speaks = t.becomes
		k.s.mu.Unlock()
	}
	k.s.state = t.State
	if why != 0 {
		k.fail(why)
	}
}

// visit calls the protocol once, and recovers panics.
func (s *Server) visit(t *Turn, in []byte) (used, need int, why Reason) {
	finished := false
	defer func() {
		fault := Reason(0)
		if !finished {
			v := recover() // nil for runtime.Goexit, which ends this goroutine after us
			used, need, why, fault = t.mark.used, 0, Panicked, Panicked
			unserved := t.d.box.Bytes()
			if t.moved {
				used, unserved = 0, nil // the panic occurred somewhere within the message
			}
			unanswered := t.Rollback()
			t.takeOver = nil
			s.reportPanic(t.Conn(), v)
			if unanswered {
				s.guard(t.Conn(), func() { t.Out = t.ref.speaks().Refuse(t.Out, unserved[used:], Panicked) })
			} else if t.flushed {
				t.ref.owner().breakOff()
			}
		}
		t.end(fault)
	}()
	used, need, err := t.ref.speaks().Advance(t, in)
	if uint(used) > uint(t.d.box.Len()) {
		panic("engine: Protocol.Advance used more than its input")
	}
	if err != nil {
		if why = asReason(err); !errors.As(err, new(Reason)) {
			s.faults.Write(s.Logger, slog.LevelError, "protocol_error", func() (string, []any) {
				return "the protocol has failed", []any{"remote", t.Conn().RemoteAddr(), "error", err}
			})
		}
	} else if used == 0 && need == 0 && !t.refused && t.takeOver == nil && t.yields == 0 && len(in) > 0 && t.becomes == t.ref.s.speaks {
		panic("engine: Protocol.Advance used no input, needs none and was not refused room")
	}
	finished = true
	return used, need, why
}

func asReason(err error) Reason {
	var why Reason
	if errors.As(err, &why) && why != 0 {
		return why
	}
	return Malformed
}

// guard recovers panics of user code.
func (s *Server) guard(c Conn, call func()) {
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(c, v)
		}
	}()
	call()
}
