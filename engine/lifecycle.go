package engine

// The life of a connection, as one pure function: facts go in, the next step
// comes out. Both engine families gather the facts under the connection's mutex,
// ask next, and carry the step out; what cannot be undone (no more posts, the
// socket is given away) is published under the same hold of the mutex in which
// it was decided. Nothing here touches a socket, a clock or a lock, so the whole
// life is tested with plain values.

// phase is how far a connection has come.
type phase uint32

const (
	serving   phase = iota
	finishing       // nothing more is served; what is owed is still answered
	closing         // refused, or closed from here; the last output is flushed
	lingering       // everything is said; the peer's rest is dropped
	takenOver       // the socket belongs to user code
)

// facts are what the next step depends on.
type facts struct {
	phase    phase
	why      Reason // why the connection ends; 0 while it does not
	dead     bool   // aborted or broken: nothing may be written any more
	opened   bool   // what comes before the first read is done, OnOpen included
	promised bool   // user code is to have the socket
	stopped  bool   // Advance has ended the service: what has arrived is dropped
	said     bool   // the peer has been told why
	words    bool   // there are words to tell it, see Conn.End
	settled  bool   // nothing is owed to the peer, and nothing waits for it
	suspect  bool   // the sweeper believes that a limit has struck
	draining bool   // the server shuts down
	drains   bool   // this connection drains: what had arrived by then is still served
	paused   bool   // flow control: output has to go before more input is served
	ready    bool   // the protocol can go on with input that is here
	unread   bool   // a drain has bytes left to read
}

// step is what a connection does next. The waits come first: they return the
// connection to whoever will report that something has changed.
type step uint8

const (
	waitForUser    step = iota // user code has the socket
	waitForPeer                // the peer is to close; what it sends is dropped
	waitForSettled             // for all replies to be sent and taken
	waitForRoom                // for the peer to take output
	waitForBytes
	stepOpen       // tell user code of the new connection
	stepReconsider // judge the sweeper's suspicion
	stepDrain      // note what has arrived; nothing beyond it will be served
	stepServe      // serve the input that is here
	stepRead       // read what a drain has noted
	stepFinish     // enter finishing
	stepClose      // enter closing
	stepRefuse     // tell the peer why
	stepHandOver   // give the socket to user code
	stepShut       // close the writing side and linger
	stepEnd        // close the socket and tell user code
)

// next is the decision. The first line that fits wins.
func next(f facts) step {
	switch {
	case f.phase == takenOver:
		return waitForUser
	case f.dead:
		return stepEnd
	case !f.opened:
		return stepOpen
	case f.phase == lingering:
		return waitForPeer
	case f.phase != serving && !f.settled:
		return waitForSettled
	case f.phase == finishing:
		switch {
		case f.promised:
			return stepHandOver
		case f.why == ShuttingDown:
			return stepClose
		}
		return stepEnd
	case f.phase == closing:
		switch {
		case !f.said && (f.words || !needsNoWords(f.why)):
			return stepRefuse
		case f.why == Displaced:
			return stepEnd // it has sent nothing that could destroy these words, and somebody needs its place
		}
		return stepShut
	}
	switch { // serving
	case f.promised || f.stopped || ends(f.why):
		if f.promised || f.why == PeerClosed || f.why == ShuttingDown {
			return stepFinish
		}
		return stepClose
	case f.suspect:
		return stepReconsider
	case f.paused:
		return waitForRoom
	case f.drains && !f.ready && !f.unread:
		return stepFinish
	case !f.drains && (f.draining || f.why == ShuttingDown):
		return stepDrain
	case f.ready:
		return stepServe
	case f.drains:
		return stepRead
	}
	return waitForBytes
}

// ends reports whether why ends the service at once. A drain still serves what
// was sent before it.
func ends(why Reason) bool { return why != 0 && why != ShuttingDown }

// needsNoWords reports whether the peer has been told why by the protocol, or
// need not be.
func needsNoWords(why Reason) bool {
	switch why {
	case TooLarge, Malformed, UnknownCommand, Panicked, ClosedHere:
		return true
	}
	return false
}

// result is what a visit of the protocol leaves behind.
type result struct {
	why      Reason // Advance's error, or Panicked
	takeOver bool   // Turn.TakeOver was called
	ending   bool   // somebody else has ended the service meanwhile
	hungry   bool   // nothing more can be done before bytes arrive
}

// afterVisit is what follows a visit.
type afterVisit uint8

const (
	visitAgain afterVisit = iota // if flow control lets it
	visitLater                   // when bytes have arrived
	stopVisits                   // the protocol has ended the service
	promise                      // the protocol gives the socket away
	leave                        // next decides
)

// after is the second decision. An error wins over a take-over: a protocol that
// has lost its place in the bytes has nothing to hand over.
func after(r result) afterVisit {
	switch {
	case r.why != 0:
		return stopVisits
	case r.takeOver:
		return promise
	case r.ending:
		return leave
	case r.hungry:
		return visitLater
	}
	return visitAgain
}
