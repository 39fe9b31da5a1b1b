package wire

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Result is an ack's result code. Every code except [OK] is also an error: parsers and
// clients return it, and a handler may return it to answer its request with that code.
// Compare with errors.Is or ==; storing a Result in an interface does not allocate.
//
// The set is open: a peer may send a code that is newer than this package.
// docs/protocol.md lists for each code who sends it and whether the connection stays
// open.
type Result uint8

const (
	OK             Result = 0  // success; never return it as an error
	Failed         Result = 1  // the handler returned an error
	Malformed      Result = 2  // a length under MinFrame, or a payload too short for its command
	TooLarge       Result = 3  // a length over the receiver's limit
	UnknownCommand Result = 4  // a first byte that is not a command
	Overloaded     Result = 5  // too many connections, or too much unprocessed input
	Unauthorised   Result = 6  // the handler rejects the client's credentials
	ShuttingDown   Result = 7  // the server is draining
	TooSlow        Result = 8  // a frame took too long to arrive
	Idle           Result = 9  // idle timeout: the client sent nothing for too long
	Internal       Result = 10 // the handler panicked
)

// Error returns "wire: " and the code's name in docs/protocol.md, as in "wire: too
// large". An unknown code prints as "wire: result 200"; only that allocates.
func (r Result) Error() string {
	if int(r) < len(resultTexts) {
		return resultTexts[r]
	}
	return "wire: result " + strconv.Itoa(int(r))
}

var resultTexts = [...]string{
	OK:             "wire: ok",
	Failed:         "wire: failed",
	Malformed:      "wire: malformed",
	TooLarge:       "wire: too large",
	UnknownCommand: "wire: unknown command",
	Overloaded:     "wire: overloaded",
	Unauthorised:   "wire: unauthorised",
	ShuttingDown:   "wire: shutting down",
	TooSlow:        "wire: too slow",
	Idle:           "wire: idle",
	Internal:       "wire: internal",
}

// AppendWithin appends the content of a refusal that asks its peer to come back within d.
func AppendWithin(dst []byte, d time.Duration) []byte {
	return strconv.AppendInt(dst, d.Milliseconds(), 10)
}

// mostWithin bounds for how long a client stays away because of a refusal.
const mostWithin = time.Minute

// ComeBack returns after how long to connect again: a random part of the time that the content
// of a refusal names, at most a minute, or 0 if it names none.
func ComeBack(content []byte) time.Duration {
	ms, err := strconv.ParseUint(string(content), 10, 32)
	if err != nil || ms == 0 {
		return 0
	}
	return 1 + rand.N(min(mostWithin, time.Duration(ms)*time.Millisecond))
}
