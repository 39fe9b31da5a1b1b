package engine

import (
	"errors"
	"net"
	"runtime/debug"
	"time"
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

	ref      *connRef // nil outside an engine
	granted  int      // messages until flow control is asked again
	left     int      // messages this visit may still serve
	full     int      // Room says no at this many bytes of Out
	refused  bool     // Room said no
	requests int
	promised []uint64 // tickets of the message since Mark
	later    int      // promises of this visit that were not taken back
	spare    [mostSpare]uint64
	spares   int  // tickets in spare: taken for this visit, and not promised yet
	room     bool // flow control lets more be served when there are no spares
	serial   uint32
	mark     struct{ out, used int }
	takeOver func(nc net.Conn, unread []byte) (left []byte, back bool)
	becomes  uint8 // the protocol of the next visit

	d       *workspace
	watched bool          // Context was called in this visit
	yields  int           // calls of Flush and More in this visit
	largest int           // the most that Flush has written at once in this visit
	flushed bool          // since Mark: a part of the answer has gone
	moved   bool          // since Mark: what Advance was given is no longer what is unserved
	owed    time.Duration // how long More has waited, less what the bytes that came were good for
}

// Room reports whether one more message may be served. Ask before every
// message: flow control lives here, and a protocol that does not ask lets one
// client's amplified replies or late replies grow without bound.
func (t *Turn) Room() bool {
	if t.ref == nil {
		return true
	}
	full := t.left == 0 || len(t.Out) >= t.full
	if !full && (t.granted == 0 || t.ref.reason() != 0) {
		t.granted = t.ref.admit(t.requests == 0)
	}
	if full || t.granted == 0 {
		t.refused = true
		return false
	}
	t.left--
	t.granted--
	return true
}

// Mark says that the message beginning at in[used] is about to reach user
// code. If that panics, everything since is undone and Refuse sees in[used:].
func (t *Turn) Mark(used int) {
	t.mark.out, t.mark.used = len(t.Out), used
	t.flushed, t.moved = false, false
	t.promised = t.promised[:0]
	t.requests++
	t.serial++
}

// Rollback undoes what happened since Mark: the output is cut, and replies
// promised with Later are no longer owed. It reports false when such a reply, or a part
// of the answer (Flush), has been sent already: the peer must not get a second one.
func (t *Turn) Rollback() (unanswered bool) {
	t.Out = t.Out[:t.mark.out]
	unanswered = !t.flushed
	if len(t.promised) > 0 && t.ref != nil {
		open := t.ref.revoke(t.promised)
		unanswered = unanswered && open == len(t.promised)
		t.later -= open
		t.granted = 0
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
	if t.ref == nil {
		t.promised = append(t.promised, noTicket)
		return Reply{}
	}
	if t.spares == 0 { // as many as the visit has had: whoever promises once may not do it again
		t.spares, t.room = t.ref.promise(t.spare[:min(max(1, t.later), mostSpare)])
		if t.ref.sh.srv.ordered { // never more than one at a time
			t.left = 0 // its reply comes before all that follow, even if it is sent at once
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

// mostSpare bounds how many tickets a visit takes at a time: the connection's mutex is
// locked, and flow control asked, once for all of them. Until the visit ends they count
// as owed.
const mostSpare = 8

// Promised is how many replies have been promised since Mark.
func (t *Turn) Promised() int { return len(t.promised) }

// Conn is the connection as a value that may be kept.
func (t *Turn) Conn() Conn {
	if t.ref == nil {
		return Conn{}
	}
	return t.ref.conn()
}

// TakeOver gives the socket to serve once this visit's output is flushed and what is
// owed to the peer is answered, within Limits.IdleTime, with the bytes that were read
// and not used. Until serve returns nothing can be posted to the connection, and no limit
// is kept but by serve. When it gives the socket back, the protocol is visited again, with
// the bytes that serve has read too much; by then nobody else may use nc. Else the
// connection ends. Advance returns right after TakeOver; an error that it returns wins.
// Outside an engine TakeOver answers errors.ErrUnsupported.
func (t *Turn) TakeOver(serve func(nc net.Conn, unread []byte) (left []byte, back bool)) error {
	if t.ref == nil {
		return errors.ErrUnsupported
	}
	t.takeOver = serve
	t.left = 0
	return nil
}

// Hold has everything that is posted to the connection from now on, late replies too,
// wait until this visit's output has gone: a push to a peer that has just been let in must
// not pass the words that let it in. A visit that waits keeps them waiting; more than twice
// Limits.HardCap of them ends the connection as SlowReader.
func (t *Turn) Hold() {
	if t.ref != nil {
		t.ref.hold()
	}
}

// Leave says that this visit may block: an event loop goes on without it at once. A visit
// that blocks is found out anyway, but its loop then stands still for a millisecond or
// two. It costs some microseconds, and nothing on a goroutine engine.
func (t *Turn) Leave() {
	if t.ref != nil {
		t.ref.leaveLoop(t.d)
	}
}

// Flush writes Out, which is empty afterwards, and waits until the kernel has it, for as
// long as Limits.StallTime lets the peer take nothing. The error is the Reason for which
// the connection ends; Advance is to return it. What has gone cannot be taken back: when
// the message panics now, the connection is reset. With Flush a large answer takes little
// memory; replies that were promised by Later do not wait for it.
func (t *Turn) Flush() error {
	if t.ref == nil {
		return nil
	}
	return t.ref.flushMid(t)
}

// More gives back used bytes of what Advance, or the last More, was given, and waits until
// need more have arrived than were left. It returns all that is unserved now; what it
// returned before is no longer valid, and what Advance returns as used counts from the
// beginning of in. The peer must send Limits.FrameRate; only the time counts in which
// the visit waits here. With need = 0 it does not wait; when nothing is left, a Flush after
// it gives the buffer back that the visit was read into (64 KiB on an event loop), which is
// worth it before a long answer. The error is the Reason for which the connection ends;
// Advance is to return it. Outside an engine More answers errors.ErrUnsupported.
func (t *Turn) More(used, need int) (in []byte, err error) {
	if t.ref == nil {
		return nil, errors.ErrUnsupported
	}
	return t.ref.more(t.d, used, need)
}

// begin prepares t for a visit of a connection.
func (t *Turn) begin(d *workspace) {
	k := &d.ref
	srv := k.sh.srv
	t.d, t.ref, t.State = d, k, k.s.state
	t.yields, t.largest, t.flushed, t.moved, t.owed = 0, 0, false, false, 0
	t.granted, t.left, t.full = 0, srv.perVisit, srv.limits.HighWater
	t.refused, t.requests, t.later, t.promised, t.takeOver = false, 0, 0, t.promised[:0], nil
	t.spares, t.becomes = 0, k.s.speaks
	t.mark.out, t.mark.used = len(t.Out), 0
	t.serial++
}

// end settles the visit's account with its connection.
func (t *Turn) end(why Reason) {
	k := t.ref
	t.serial++
	if t.requests > 0 {
		k.sh.counts.requests.Add(uint64(t.requests))
	}
	if t.watched {
		t.watched = false
		k.visitUnwatched(t)
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
	k.visited(t.State, why)
}

// visit is one call of the protocol, whatever happens in it.
func (s *Server) visit(t *Turn, in []byte) (used, need int, why Reason) {
	finished := false
	defer func() {
		fault := Reason(0)
		if !finished {
			v := recover() // nil for runtime.Goexit, which ends this goroutine after us
			used, need, why, fault = t.mark.used, 0, Panicked, Panicked
			unserved := t.d.box.bytes()
			if t.moved {
				used, unserved = 0, nil // it begins somewhere in the message
			}
			unanswered := t.Rollback()
			t.takeOver = nil
			s.reportPanic(t.Conn(), v, debug.Stack())
			if unanswered {
				t.Out = s.refuse(t.ref, t.Out, unserved[used:], Panicked)
			} else if t.flushed {
				t.ref.reset(Panicked) // an end in peace would look like the whole answer
			}
		}
		t.end(fault)
	}()
	used, need, err := t.ref.speaks().Advance(t, in)
	if err != nil {
		why = asReason(err)
	} else if used == 0 && need == 0 && !t.refused && t.takeOver == nil && t.yields == 0 && len(in) > 0 && t.becomes == t.ref.s.speaks {
		panic("engine: Protocol.Advance used nothing, wants nothing and was not refused room")
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

// refuse is Protocol.Refuse of a connection, kept from taking the process along.
func (s *Server) refuse(k *connRef, dst, unserved []byte, why Reason) []byte {
	out := dst
	s.guard(k.conn(), func() { out = k.speaks().Refuse(dst, unserved, why) })
	return out
}

// guard keeps a panic of user code from taking the process along.
func (s *Server) guard(c Conn, call func()) {
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(c, v, debug.Stack())
		}
	}()
	call()
}
