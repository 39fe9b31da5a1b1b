package engine

import (
	"errors"
	"log/slog"
)

// A visit: one call of the protocol, and the replies that it promises.

// visit calls the protocol, or the parser of the PROXY header, under the watchdog.
func (k owner) visit(d *workspace) (used, need int, why Reason) {
	srv, t := k.sh.srv, &d.turn
	if srv.ordered {
		k.startVisit()
	}
	if !k.s.spoken && d.box.Len() > 0 {
		k.markSpoken() // after a PROXY header
	}
	if t.begin(d); k.isLast() {
		t.left = 1
	}
	k.enterUser(d)
	defer k.exitUser(d)
	if k.s.own.has(wantsProxy) {
		defer t.end(0)
		return k.readProxyHeader(d.box.Bytes())
	}
	return srv.advance(t, d.box.Bytes())
}

// advance calls the protocol once, and recovers panics.
func (s *Server) advance(t *Turn, in []byte) (used, need int, why Reason) {
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

// LaterInOrder is Later for a protocol whose replies keep the order of the requests: no other message
// of the connection is served before the reply is sent, which follows what this visit has appended to
// Out. A visit that waits keeps delaying the reply, as with Hold.
func (t *Turn) LaterInOrder() Reply {
	t.Hold()
	r := t.Later()
	if t.left = 0; t.ref != nil {
		t.ref.s.mu.Lock()
		t.ref.x.Load().inOrder = true
		t.ref.s.mu.Unlock()
	}
	return r
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

// promise records one more owed reply, or as many as fit into and Limits.InFlight allows,
// and returns the number. It also returns whether flow control allows one more message
// after these.
func (k owner) promise(into []uint64) (n int, more bool) {
	k.s.mu.Lock()
	x := k.held().attach()
	x.inOrder = false
	n = min(len(into), max(1, k.sh.srv.limits.InFlight-int(x.promises.Open())))
	if k.sh.srv.requests.IsHalfFull() {
		n = 1 // tickets taken in advance by many visits would far exceed Limits.TotalInFlight
	}
	for i := range into[:n] {
		into[i] = x.promises.Take()
	}
	x.debt.Promised(&k.sh.srv.requests, x.promises.Open())
	more = k.held().below(x) && !k.sh.srv.requests.IsFull()
	k.s.mu.Unlock()
	return n, more
}

// revoke takes promises back and returns how many of them were still open.
func (k owner) revoke(tickets []uint64) (open int) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().attach().promises.Revoke(tickets)
}
