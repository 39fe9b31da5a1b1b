package engine

// The life cycle of a connection, as one pure function: facts go in, the next step comes
// out. Both kinds of engine collect the facts under the connection's mutex, call next,
// and carry out the step; whatever is irreversible (no more posts, the socket is given
// away) is published under the same hold of the mutex in which it was decided. Nothing
// here uses a socket, a clock or a lock, so the whole life cycle is tested with plain
// values.

// phase is a connection's state in its life cycle.
type phase uint32

const (
	serving   phase = iota
	finishing       // serves no more messages; owed replies are still sent
	closing         // refused, or closed from here; the last output is flushed
	lingering       // all output is sent; input is discarded
	takenOver       // the socket belongs to user code
)

// facts are what the next step depends on.
type facts struct {
	phase      phase
	why        Reason // why the connection ends; 0 while it does not
	dead       bool   // aborted or broken: nothing may be written any more
	opened     bool   // everything before the first read is done, OnOpen included
	promised   bool   // user code will get the socket
	stopped    bool   // Advance has ended the service: received input is dropped
	said       bool   // the peer has been sent the reason
	words      bool   // there is a final message, see Conn.End
	settled    bool   // no reply is owed, and no output is unsent
	suspect    bool   // the sweeper suspects that a limit was exceeded
	draining   bool   // the server is shutting down
	drains     bool   // this connection is draining: input that had arrived by then is still served
	paused     bool   // flow control: output must be sent before more input is served
	ready      bool   // the protocol can continue with the buffered input
	unread     bool   // a drain has bytes left to read
	expects    bool   // a drain waits for the rest of a message, see Turn.ExpectRest
	partial    bool   // a message has arrived in part
	unfinished bool   // a reply was sent in part and will not be continued
	received   bool   // of an unfinished reply: the peer's kernel has everything that was sent
}

// step is what a connection does next. The waits come first: they return the connection
// to whoever will report a change.
type step uint8

const (
	waitForUser    step = iota // user code has the socket
	waitForPeer                // the peer is to close; what it sends is discarded
	waitForSettled             // until all replies are sent
	waitForReceipt             // until the peer's kernel has everything that was sent
	waitForRoom                // until the peer reads output
	waitForBytes
	stepOpen       // call OnOpen
	stepReconsider // check the sweeper's suspicion
	stepDrain      // note what has arrived; nothing beyond it will be served
	stepServe      // serve the buffered input
	stepRead       // read what a drain has noted
	stepFinish     // enter finishing
	stepClose      // enter closing
	stepRefuse     // send the peer the reason
	stepHandOver   // give the socket to user code
	stepShut       // shut down the sending direction and linger
	stepReset      // cut the connection off
	stepEnd        // close the socket and call OnClose
)

// next decides on the next step. The first matching line wins.
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
		case f.why == PeerClosed && f.partial && !f.stopped && !f.said:
			return stepRefuse // it still reads, and has sent half a message
		}
		return stepEnd
	case f.phase == closing:
		switch {
		case f.unfinished && f.received:
			return stepReset
		case f.unfinished: // a reset would destroy replies on their way
			return waitForReceipt
		case !f.said && (f.words || !needsNoRefusal(f.why)):
			return stepRefuse
		case f.why == Displaced:
			return stepEnd // it has sent nothing that could destroy the refusal, and its place is needed
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
	case f.drains && !f.ready && !f.unread && !f.expects:
		return stepFinish
	case !f.drains && (f.draining || f.why == ShuttingDown):
		return stepDrain
	case f.ready:
		return stepServe
	case f.unread:
		return stepRead
	}
	return waitForBytes
}

// ends reports whether why ends the service at once. A drain still serves what was sent
// before it.
func ends(why Reason) bool { return why != 0 && why != ShuttingDown }

// needsNoRefusal reports whether the protocol has already sent the reason, or need not.
func needsNoRefusal(why Reason) bool {
	switch why {
	case TooLarge, Malformed, UnknownCommand, Panicked, ClosedHere:
		return true
	}
	return false
}

// result is the result of a visit.
type result struct {
	why      Reason // Advance's error, or Panicked
	takeOver bool   // Turn.TakeOver was called
	ending   bool   // somebody else has ended the service meanwhile
	hungry   bool   // nothing more can be done before bytes arrive
}

// afterVisit is what follows a visit.
type afterVisit uint8

const (
	visitAgain afterVisit = iota // if flow control allows
	visitLater                   // when bytes have arrived
	stopVisits                   // the protocol has ended the service
	promise                      // the protocol gives the socket away
	leave                        // next decides
)

// after decides what follows a visit. An error takes precedence over TakeOver: a protocol
// that has lost its position in the input has nothing to hand over.
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
