package codec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// Kind classifies what can go wrong with a run or a request. The set is closed, and its names are
// the keys of Result.Errors.
type Kind uint8

// Run returns the kinds up to Silent in an Error. A single request can also fail as Closed or as
// one of the later kinds; then the run goes on.
const (
	BadPlan     Kind = iota // a field of the plan is invalid
	Unreachable             // a connection could not be opened, or not again within Plan.Timeout
	Refused                 // the server refused a connection, in its protocol
	Closed                  // the connection ended before the answer
	Garbage                 // the server violated the protocol
	WrongID                 // an unsolicited or duplicate answer
	Silent                  // no connection has received an answer for Plan.Timeout

	Timeout      // not answered within Plan.Timeout, or not sent within it because no slot became free
	Unanswered   // without an answer when the run ended
	WrongContent // answered with other content than expected
	Failed       // answered with a failure
)

// String returns the kind as in JSON, for example "wrong_id".
func (k Kind) String() string {
	names := [Failed + 1]string{
		"bad_plan", "unreachable", "refused", "closed", "garbage", "wrong_id", "silent",
		"timeout", "unanswered", "wrong_content", "failed",
	}
	if int(k) >= len(names) {
		return fmt.Sprintf("kind_%d", uint8(k))
	}
	return names[k]
}

// Error explains why a run ended early. Its text is one line that ends with what to try next.
type Error struct {
	Kind   Kind
	Target string // Target.String; empty for a BadPlan
	What   string // what happened; empty: use Err's text
	Try    string // what to try next
	Err    error  `json:"-"` // the cause; may be nil
}

// MarshalJSON encodes an error for another process, which knows the cause's text alone.
func (e *Error) MarshalJSON() ([]byte, error) {
	type plain Error // without this method
	sent := plain(*e)
	sent.What = e.what()
	return json.Marshal(sent)
}

func (e *Error) what() string {
	if e.What == "" && e.Err != nil {
		return e.Err.Error()
	}
	return e.What
}

// Error returns the one-line text.
func (e *Error) Error() string {
	line := "load: "
	if e.Target != "" {
		line += e.Target + ": "
	}
	line += cmp.Or(e.what(), e.Kind.String())
	if e.Try != "" {
		line += "; " + e.Try
	}
	return line
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Explain turns a Codec's error into an *Error with all fields set.
func Explain(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	return &Error{
		Kind: Garbage, Err: err,
		What: fmt.Sprintf("the server violates the protocol: %v", err),
		Try:  "check that the address and the protocol are the server's",
	}
}

func tooLarge(limit int) error {
	return &Error{
		Kind: Garbage, What: fmt.Sprintf("the server sends a message longer than the limit of %d bytes", limit),
		Try: "check that the framing is the server's, or raise the limit of an answer",
	}
}

// malformed returns the error for an answer that HTTP/1.1 forbids, or that no server should send.
func malformed(format string, args ...any) error {
	return &Error{
		Kind: Garbage, What: "the server's answer is not valid HTTP/1.1: " + fmt.Sprintf(format, args...),
		Try: "check that the address and the protocol are the server's",
	}
}

// unasked returns the error for an unsolicited answer, in a protocol that answers in order.
func unasked(protocol string) error {
	return &Error{
		Kind: WrongID, What: "the server sends what nobody has asked for, where every request has been answered",
		Try: "check that it answers every request of " + protocol + " once, and sends nothing else",
	}
}

// notHTTP returns an error that guesses which protocol the server speaks.
func notHTTP(in []byte) error {
	const alert, http2 = "\x15\x03", "\x00\x00"
	e := &Error{
		Kind: Garbage, What: fmt.Sprintf("the server does not speak HTTP/1.1: it sends %.40q", in),
		Try: "check the address, and that an HTTP server listens there",
	}
	switch {
	case bytes.HasPrefix(in, []byte(alert)):
		e.Try = "use https:// if it speaks TLS"
	case bytes.HasPrefix(in, []byte(http2)):
		e.Try = "have it speak HTTP/1.1 as well, if this is HTTP/2"
	}
	return e
}

// badTarget returns the error for a target that is invalid, or does not suit the plan.
func badTarget(what, try string) *Error {
	return &Error{Kind: BadPlan, What: "the plan cannot have " + what, Try: try}
}

// speaksHTTP is the error for a server of HTTP where another protocol was expected.
func speaksHTTP(err error) *Error {
	return &Error{Kind: Garbage, Err: err, What: "the server speaks HTTP", Try: "write http:// before its address"}
}
