package engine

import (
	"time"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/timing"
)

// forecast is the model of one connection: what its client must receive, in which order,
// and when and why the connection must end. While the connection is exact, the model also
// knows when each thing happens, and the driver waits for it. Otherwise (shared limits, or
// moves whose order is not defined) it knows only the order of the replies, and assumes
// that nothing ever waits.
//
// Late replies and pushes are not predicted: those that the server has accepted are
// recorded, see guest.posts, and must arrive in that order.
type forecast struct {
	id       uint16
	exact    bool
	inFlight int // Limits.InFlight; 0: no limit
	tongue   uint8
	time     timing.Tick // the server's clock

	answers []frame // what handlers and Refuse write, in order
	pending []asked // sent, and not begun
	missing int     // bytes of the last request that are not sent yet
	served  int     // requests whose handler has ended
	entered int     // gates that were reached
	permits int     // gates to be passed
	owed    int     // replies

	now  *asked // being served, or nil
	left []act  // its program
	gate bool   // it waits at a gate
	loan *act   // after it: user code gets the socket
	own  struct {
		seq                         uint16
		mark, parts, promised, open int // mark: answers before it, or before its last flush
		flushed                     bool
	}

	why    Reason    // why it ends; 0 while it does not
	causes reasons64 // what else it may end for
	said   bool      // the client knows why it ends, or need not know
	words  []frame   // of Conn.End; the first are the last that the client gets
	cut    bool      // the client need not receive all of answers and posts
	lossy  bool      // nor all of posts

	shut, draining, spoken bool
	drains                 bool        // it has noticed that it is draining
	mayDrain               bool        // the same, without predictions
	closes                 bool        // a handler has ended it
	blind                  bool        // what is served is not defined
	vague                  bool        // an unfinished message may not have been looked at
	lent                   int         // served, at the last loan; -1: none
	seen                   timing.Tick // last activity
	partial                timing.Tick // when the first unserved message began to wait for bytes; 0: it does not
	ending                 timing.Tick // when it began to end, or to wait for its loan
}

// asked is a request and its number on its connection.
type asked struct {
	*request
	seq uint16
}

// sent records requests that the client sends, except for the last missing bytes.
func (f *forecast) sent(all []asked, missing int) {
	f.pending, f.missing, f.spoken = append(f.pending, all...), missing, true
	f.advance()
}

// settled records a late reply to the request with that number.
func (f *forecast) settled(seq uint16) {
	if f.owed--; f.now != nil && f.own.seq == seq {
		f.own.open--
	}
	f.advance()
}

// released records that a gate is opened.
func (f *forecast) released() {
	f.permits++
	f.advance()
}

// advance lets the connection do all that it can.
func (f *forecast) advance() {
	f.seen = f.time
	for f.step() {
	}
	if f.why != 0 && f.now == nil && f.loan == nil && (f.owed == 0 || !f.exact) && !f.said {
		f.said = true
		switch {
		case f.words != nil:
			f.answers = append(f.answers, f.words[0])
		case f.why == PeerClosed && !(len(f.pending) == 1 && !f.complete()): // no half a message to refuse
		case f.why.kind() != life.Told:
			f.answers = append(f.answers, f.refusal(f.why))
		}
	}
	f.vague = f.now == nil && f.exact && f.inFlight > 0 && f.owed >= f.inFlight && len(f.pending) == 1 && !f.complete()
	switch waits := !f.cut && !f.vague && (f.now != nil && f.lacks() || f.now == nil && f.loan == nil && f.why == 0 && len(f.pending) == 1 && !f.complete()); {
	case !waits:
		f.partial = 0
	case f.partial == 0:
		f.partial = f.time
	}
}

// step does what the connection does next, and reports whether it did something.
func (f *forecast) step() bool {
	f.drains = f.drains || f.exact && f.draining && f.now == nil && f.loan == nil && f.why == 0
	switch {
	case f.cut:
		return false
	case f.now != nil:
		return f.serve()
	case f.loan != nil:
		return f.lend()
	case f.why != 0:
		return false
	case f.complete():
		if f.exact && f.inFlight > 0 && f.owed >= f.inFlight {
			return false
		}
		f.now, f.pending = &f.pending[0], f.pending[1:]
		f.left = f.now.acts
		f.own.seq, f.own.mark, f.own.parts, f.own.promised, f.own.open, f.own.flushed = f.now.seq, len(f.answers), 0, 0, 0, false
		return true
	case f.shut:
		f.fail(PeerClosed)
		return true
	case f.draining:
		f.fail(ShuttingDown)
		return true
	}
	return false
}

// endsHere begins to end the connection from a handler. In a drain that has begun, that
// does not keep the server from serving what it has been sent before.
func (f *forecast) endsHere() {
	switch {
	case f.drains:
	case !f.exact && f.mayDrain:
		f.blind = true
		f.causes.add(ClosedHere)
	default:
		f.closes = true
		f.fail(ClosedHere)
	}
}

// drain records that what was sent until now is the last to be served.
func (f *forecast) drain() {
	if f.exact && (f.shut && !f.over() || len(f.pending) > 0 || f.now != nil && f.lacks()) { // which comes first is not defined
		f.loosen()
	}
	if f.exact {
		f.draining = true
		f.advance()
	} else {
		f.mayDrain, f.blind = true, f.blind || f.closes
	}
}

// complete reports whether the next request can be served.
func (f *forecast) complete() bool {
	return len(f.pending) > 1 || len(f.pending) == 1 && f.missing <= f.pending[0].tail
}

// lacks reports whether the handler waits for bytes that are not sent yet.
func (f *forecast) lacks() bool {
	return len(f.left) > 0 && f.left[0].do == "more" && f.missing > 0 && len(f.pending) == 0
}

// fail begins to end the connection, unless there is an earlier reason.
func (f *forecast) fail(why Reason) {
	if f.causes.add(why); f.drains {
		why = ShuttingDown
		f.causes.add(why)
	}
	if f.why == 0 || f.why == PeerClosed {
		f.why = why
	}
	f.ending = f.time
}

// cutOff ends the connection at once: the client may not receive everything.
func (f *forecast) cutOff(why Reason) {
	f.fail(why)
	f.now, f.loan, f.cut, f.said = nil, nil, true, true
}

// loosen ends the predictions of time; these are further reasons for an end.
func (f *forecast) loosen(causes ...Reason) {
	f.causes.add(causes...)
	if f.exact {
		f.exact, f.mayDrain, f.draining = false, f.draining, false
		f.advance()
	}
}

// over reports whether the client must see the end of the connection.
func (f *forecast) over() bool {
	return f.cut || f.why != 0 && f.now == nil && f.loan == nil && f.owed == 0
}

// atRest reports whether nothing is sent, owed or begun.
func (f *forecast) atRest() bool {
	return f.now == nil && f.loan == nil && len(f.pending) == 0 && f.owed == 0
}

// passes reports whether a handler may pass a gate.
func (f *forecast) passes() bool {
	if !f.exact {
		return true
	}
	if !f.gate {
		f.gate = true
		f.entered++
	}
	if f.permits == 0 {
		return false
	}
	f.permits--
	f.gate = false
	return true
}

// serve runs the program of a handler, and reports whether it has ended.
func (f *forecast) serve() bool {
	for ; len(f.left) > 0; f.left = f.left[1:] {
		switch a := f.left[0]; a.do {
		case "more":
			if !f.lacks() {
				break
			}
			if f.shut {
				f.fail(PeerClosed)
			}
			if f.why == 0 {
				return false
			}
			f.missing = 0
			return f.leave()
		case "gate":
			if !f.passes() {
				return false
			}
		case "part":
			f.answers = append(f.answers, frame{kind: aPart, tongue: f.tongue, id: f.id, seq: f.own.seq, part: uint16(f.own.parts), size: uint32(a.n)})
			f.own.parts++
		case "flush":
			f.own.flushed = f.own.flushed || len(f.answers) > f.own.mark
			f.own.mark = len(f.answers)
		case "later":
			f.owed++
			f.own.promised++
			f.own.open++
		case "answer":
			if f.own.open > 0 {
				f.own.open--
				f.owed--
			}
		case "panic":
			f.panics()
			return f.leave()
		case "exit": // how much of the visit is sent is not defined
			f.cutOff(Panicked)
			f.loosen()
			return f.leave()
		case "close":
			f.endsHere()
		case "say":
			f.endsHere()
			f.words = append(f.words, *f.frame(aWord, a.n))
		case "refuse":
			f.said = true
			f.answers = append(f.answers, f.refusal(Malformed))
			f.fail(Malformed)
			return f.leave()
		case "become":
			f.reply()
			f.tongue = uint8(a.n)
			return f.leave()
		case "lend", "lend ahead", "lend keep", "lend panic", "lend exit":
			f.loan, f.ending = &a, f.time
			return f.leave()
		case "give": // replies that are owed are dropped
			f.answers = append(f.answers, *f.frame(aLoan, 0))
			f.said, f.lossy, f.owed = true, true, 0
			f.fail(ClosedHere)
			return f.leave()
		}
	}
	f.reply()
	return f.leave()
}

// leave ends a handler.
func (f *forecast) leave() bool {
	f.now = nil
	f.served++
	return true
}

// reply ends the reply of a handler that has promised none.
func (f *forecast) reply() {
	if f.own.promised == 0 {
		f.answers = append(f.answers, *f.frame(anAnswer, f.now.size))
	}
}

// panics rolls back a handler.
func (f *forecast) panics() {
	f.answers = f.answers[:f.own.mark]
	f.owed -= f.own.open
	switch {
	case f.own.flushed:
		f.cutOff(Panicked)
	case f.own.open == f.own.promised:
		f.answers = append(f.answers, f.refusal(Panicked))
		fallthrough
	default:
		f.said = true
		f.fail(Panicked)
	}
}

// lend gives the socket to user code, and reports whether it is back.
func (f *forecast) lend() bool {
	if f.exact && f.owed > 0 || f.loan.n > 0 && !f.passes() {
		return false
	}
	f.answers = append(f.answers, *f.frame(aLoan, 0))
	way := f.loan.do
	f.loan, f.lent = nil, f.served
	switch way {
	case "lend keep", "lend panic":
		f.said = true
		f.fail(ClosedHere)
	case "lend exit":
		f.said = true
		f.fail(Panicked)
	}
	return true
}

// endIdle predicts EndIdle.
func (f *forecast) endIdle() {
	switch {
	case !f.exact || f.now != nil && !f.lacks():
		f.loosen(ClosedHere)
	case f.spoken && f.atRest() && f.why == 0:
		f.fail(ClosedHere)
		f.advance()
	}
}

// expire predicts the timeouts of an exact connection.
func (f *forecast) expire(limits Limits, period timing.Tick) {
	due := func(since timing.Tick, limit time.Duration) bool {
		age, least := f.time-since, timing.Tick(limit.Milliseconds())
		if age >= least && age < least+2*period {
			f.loosen(IdleTimeout, FrameTimeout, WriteStall)
		}
		return f.exact && age >= least+2*period
	}
	switch {
	case f.over():
	case f.vague:
		f.loosen(FrameTimeout)
	case f.partial != 0:
		if due(f.partial, limits.FrameTime) {
			if f.fail(FrameTimeout); f.now != nil {
				f.leave()
			}
			f.advance()
		}
	case f.now != nil:
	case f.loan != nil || f.why == PeerClosed || f.why == ShuttingDown:
		if f.owed > 0 && due(f.ending, limits.IdleTime) {
			f.cutOff(IdleTimeout)
		}
	case f.why != 0:
		if due(f.ending, limits.StallTime) {
			f.cutOff(WriteStall)
		}
	case f.atRest():
		if due(f.seen, limits.IdleTime) {
			f.fail(IdleTimeout)
			f.advance()
		}
	}
}

func (f *forecast) frame(kind byte, size int) *frame {
	return &frame{kind: kind, tongue: f.tongue, id: f.id, seq: f.own.seq, size: uint32(size)}
}

func (f *forecast) refusal(why Reason) frame {
	return frame{kind: aRefusal, tongue: f.tongue, id: f.id, seq: uint16(why)}
}
