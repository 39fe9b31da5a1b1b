package engine

import (
	"errors"
	"net"
	"runtime/debug"
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
	takeOver func(nc net.Conn, unread []byte)
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
	if len(t.promised) > 0 && t.ref != nil {
		open := t.ref.revoke(t.promised)
		unanswered = open == len(t.promised)
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
// and not used; the connection ends when serve returns. Advance returns right after
// it; an error that it returns wins. Outside an engine it answers
// errors.ErrUnsupported.
func (t *Turn) TakeOver(serve func(nc net.Conn, unread []byte)) error {
	if t.ref == nil {
		return errors.ErrUnsupported
	}
	t.takeOver = serve
	t.left = 0
	return nil
}

// begin prepares t for a visit of the connection.
func (t *Turn) begin(k *connRef) {
	srv := k.sh.srv
	t.ref, t.State = k, k.s.state
	t.granted, t.left, t.full = 0, srv.perVisit, srv.limits.HighWater
	t.refused, t.requests, t.later, t.promised, t.takeOver = false, 0, 0, t.promised[:0], nil
	t.spares = 0
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
	if t.later > 0 {
		k.sh.counts.promised.Add(uint64(t.later))
	}
	t.ref = nil
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
			unanswered := t.Rollback()
			t.takeOver = nil
			s.reportPanic(t.Conn(), v, debug.Stack())
			if unanswered {
				t.Out = s.refuse(t.Conn(), t.Out, in[used:], Panicked)
			}
		}
		t.end(fault)
	}()
	used, need, err := s.Protocol.Advance(t, in)
	if err != nil {
		why = asReason(err)
	} else if used == 0 && need == 0 && !t.refused && t.takeOver == nil && len(in) > 0 {
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

// refuse is Protocol.Refuse, kept from taking the process along.
func (s *Server) refuse(c Conn, dst, unserved []byte, why Reason) []byte {
	out := dst
	s.guard(c, func() { out = s.Protocol.Refuse(dst, unserved, why) })
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
