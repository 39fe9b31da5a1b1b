package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
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
	Shed         // not sent, because it was later than Plan.Deadline

	kinds = int(iota)
)

// String returns the kind as in JSON, for example "wrong_id".
func (k Kind) String() string {
	names := [kinds]string{
		"bad_plan", "unreachable", "refused", "closed", "garbage", "wrong_id", "silent",
		"timeout", "unanswered", "wrong_content", "failed", "shed",
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

// dialError explains why a connection could not be opened after open others.
func dialError(err error, open int64, limit time.Duration) *Error {
	if own := new(Error); errors.As(err, &own) {
		return own // the target's
	}
	e := &Error{Kind: Unreachable, Err: err}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.What = "nothing listens there (connection refused)"
		e.Try = "start the server, or correct the address"
	case errors.Is(err, os.ErrNotExist):
		e.What = "there is no such socket"
		e.Try = "start the server, or correct the path"
	case sys.Exhausted(err):
		e.What = fmt.Sprintf("out of descriptors after %d connections", open)
		e.Try = "raise the limit (ulimit -n) or use fewer connections"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
		e.What, e.Try = noAddress(err, open)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		e.What = fmt.Sprintf("no connection within %v", limit)
		e.Try = "check the address and the firewall, or open connections more slowly"
	default:
		e.What = fmt.Sprintf("cannot connect: %v", err)
		e.Try = "check the address, and that the server runs"
	}
	return e
}

// decodeError turns a Caller's error into an *Error with all fields set.
func decodeError(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	return &Error{
		Kind: Garbage, Err: err,
		What: fmt.Sprintf("the server violates the protocol: %v", err),
		Try:  "check that the address, the protocol and the dialect are the server's",
	}
}
