// Package life is the life cycle of a connection as pure functions: facts go in, the next
// step comes out.
package life

// Both kinds of engine collect the facts under the connection's mutex, call Next, and carry
// out the step; whatever is irreversible (no more posts, the socket is given away) is
// published under the same hold of the mutex in which it was decided. Nothing here uses a
// socket, a clock or a lock, so the whole life cycle is tested with plain values.

// Kind is what a reason to end means for the life cycle.
type Kind uint8

// The kinds.
const (
	Lives     Kind = iota // there is no reason
	Left                  // the peer will send no more
	Draining              // the server shuts down: what was sent before that is still served
	Displaced             // its place is needed
	Told                  // the protocol has sent the peer the reason, or need not
	Untold                // the peer is to be sent the reason
)

// Ends reports whether the service ends at once. A drain still serves what was sent before
// it.
func (k Kind) Ends() bool { return k != Lives && k != Draining }

// Phase is a connection's state in its life cycle.
type Phase uint32

// The phases.
const (
	Serving   Phase = iota
	Finishing       // serves no more messages; owed replies are still sent
	Closing         // refused, or closed from here; the last output is flushed
	Lingering       // all output is sent; input is discarded
	TakenOver       // the socket belongs to user code
)

// Facts are what the next step depends on.
type Facts struct {
	Phase      Phase
	Why        Kind // of the reason why the connection ends
	Dead       bool // aborted or broken: nothing may be written any more
	Opened     bool // everything before the first read is done, OnOpen included
	Promised   bool // user code will get the socket
	Stopped    bool // Advance has ended the service: received input is dropped
	Said       bool // the peer has been sent the reason
	Words      bool // there is a final message, see Conn.End
	Settled    bool // no reply is owed, and no output is unsent
	Suspect    bool // the sweeper suspects that a limit was exceeded
	Draining   bool // every connection of the server ends
	Drains     bool // this connection is draining: input that had arrived by then is still served
	Paused     bool // flow control: output must be sent before more input is served
	Ready      bool // the protocol can continue with the buffered input
	Unread     bool // a drain has bytes left to read
	Expects    bool // a drain waits for the rest of a message, see Turn.ExpectRest
	Partial    bool // a message has arrived in part
	Unfinished bool // a reply was sent in part and will not be continued
	Received   bool // of an unfinished reply: the peer's kernel has everything that was sent
}

// Step is what a connection does next. The waits come first: they return the connection
// to whoever will report a change.
type Step uint8

// The steps.
const (
	WaitForUser    Step = iota // user code has the socket
	WaitForPeer                // the peer is to close; what it sends is discarded
	WaitForSettled             // until all replies are sent
	WaitForReceipt             // until the peer's kernel has everything that was sent
	WaitForRoom                // until the peer reads output
	WaitForBytes
	StepOpen       // call OnOpen
	StepReconsider // check the sweeper's suspicion
	StepDrain      // note what has arrived; nothing beyond it will be served
	StepServe      // serve the buffered input
	StepRead       // read what a drain has noted
	StepFinish     // enter finishing
	StepClose      // enter closing
	StepRefuse     // send the peer the reason
	StepHandOver   // give the socket to user code
	StepShut       // shut down the sending direction and linger
	StepReset      // cut the connection off
	StepEnd        // close the socket and call OnClose
)

// Next decides on the next step. The first matching line wins.
func Next(f Facts) Step {
	switch {
	case f.Phase == TakenOver:
		return WaitForUser
	case f.Dead:
		return StepEnd
	case !f.Opened:
		return StepOpen
	case f.Phase == Lingering:
		return WaitForPeer
	case f.Phase != Serving && !f.Settled:
		return WaitForSettled
	case f.Phase == Finishing:
		switch {
		case f.Promised:
			return StepHandOver
		case f.Why == Draining:
			return StepClose
		case f.Words && !f.Said:
			return StepRefuse
		case f.Why == Left && f.Partial && !f.Stopped && !f.Said:
			return StepRefuse // it still reads, and has sent half a message
		}
		return StepEnd
	case f.Phase == Closing:
		switch {
		case f.Unfinished && f.Received:
			return StepReset
		case f.Unfinished: // a reset would destroy replies on their way
			return WaitForReceipt
		case !f.Said && (f.Words || f.Why != Told):
			return StepRefuse
		case f.Why == Displaced:
			return StepEnd // it has sent nothing that could destroy the refusal, and its place is needed
		}
		return StepShut
	}
	switch { // serving
	case f.Promised || f.Stopped || f.Words || f.Why.Ends(): // words are the last that it is sent
		if f.Promised || f.Why == Left || f.Why == Draining {
			return StepFinish
		}
		return StepClose
	case f.Suspect:
		return StepReconsider
	case f.Paused:
		return WaitForRoom
	case f.Drains && !f.Ready && !f.Unread && !f.Expects:
		return StepFinish
	case !f.Drains && (f.Draining || f.Why == Draining):
		return StepDrain
	case f.Ready:
		return StepServe
	case f.Unread:
		return StepRead
	}
	return WaitForBytes
}
