package wire

import "strconv"

// Result is an ack's result code. Every code but [OK] is also an error: one that
// a parser or a client returns, and one that a handler may return to have its
// request answered with it. Compare with errors.Is or ==; an interface holding a
// Result costs no allocation.
//
// The set is open: a peer may send a code that is newer than this package.
// docs/protocol.md says of each who sends it and whether the connection lives.
type Result uint8

const (
	OK             Result = 0  // done; never return it as an error
	Failed         Result = 1  // the handler returned an error
	Malformed      Result = 2  // a length under MinFrame, or a payload too short for its command
	TooLarge       Result = 3  // a length over the receiver's limit
	UnknownCommand Result = 4  // a first byte that is not a command
	Overloaded     Result = 5  // too many connections, or too much unfinished input
	Unauthorised   Result = 6  // the handler does not accept who asks
	ShuttingDown   Result = 7  // the server drains
	TooSlow        Result = 8  // a frame took longer than its time to arrive
	Idle           Result = 9  // the connection said nothing for too long
	Internal       Result = 10 // the handler panicked
)

// Error returns "wire: " and the code's name in docs/protocol.md, as in
// "wire: too large". A code without a name prints as "wire: result 200"; only
// that allocates.
func (r Result) Error() string {
	switch r {
	case OK:
		return "wire: ok"
	case Failed:
		return "wire: failed"
	case Malformed:
		return "wire: malformed"
	case TooLarge:
		return "wire: too large"
	case UnknownCommand:
		return "wire: unknown command"
	case Overloaded:
		return "wire: overloaded"
	case Unauthorised:
		return "wire: unauthorised"
	case ShuttingDown:
		return "wire: shutting down"
	case TooSlow:
		return "wire: too slow"
	case Idle:
		return "wire: idle"
	case Internal:
		return "wire: internal"
	}
	return "wire: result " + strconv.Itoa(int(r))
}
