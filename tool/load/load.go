// Package load drives a target on a schedule and measures it honestly.
//
//	target, err := load.ParseTarget("tcp://127.0.0.1:7000", wire.Standard)
//	...
//	result, err := load.Run(ctx, load.Plan{Target: target, Conns: 100, Depth: 64, Rate: 50_000})
//
// A target of hone's frames is a Frames, as here; an HTTP is a web service, a WebSocket one
// that answers messages, and a Messages whatever else exchanges messages over a stream.
//
// A plan without a rate is a closed loop: every connection keeps Depth requests
// outstanding and sends the next when an answer comes, so a server that stops
// for a while is hardly asked meanwhile, and the figures hardly show that it
// stopped. A plan with a rate is an open loop: every request has its moment, and
// its response time counts from that moment, whatever kept it from being sent.
//
// Every request has three moments: intended, written and answered. The response
// time is answered − intended, the service time answered − written. A request that
// was waited for in vain, or never sent, is in the response times with the time that it
// waited, and counted as an error under its Kind. One whose connection broke has
// neither time. Every answer is verified. A Result says first whether it is valid, and
// what to try when it is not: an invalid result is not a failed one.
//
// The package shares the bytes of package wire with hone's server, and none of
// the server's code: neither can flatter the other.
package load

import (
	"context"
	"net"
)

// Target is what a plan drives: where it is and what is spoken there. Its
// methods may be called at the same time. Frames, HTTP, WebSocket and
// Messages are targets.
type Target interface {
	// Dial opens one connection, ready for requests. It must give up when ctx
	// ends.
	Dial(ctx context.Context) (net.Conn, error)
	// Caller makes the protocol's state for one connection.
	Caller() Caller
	// String is the target as its user wrote it, for messages.
	String() string
}

// Caller speaks the protocol on one connection. Its methods are never called at
// the same time, and must not wait for anything.
//
// Which request an answer belongs to is the Caller's to know: one whose protocol
// carries ids repeats the answer's, one whose protocol answers in order keeps the
// ids that it was given in a queue.
//
// A Caller may also be a forgetter, a repeater or a replier, by having their methods.
type Caller interface {
	// AppendRequest appends one whole request to dst and returns it. The id is
	// never 0 and unique among the connection's unanswered requests.
	AppendRequest(dst []byte, id uint64, content []byte) []byte
	// Decode decodes the first answer of in into a, which is zero, and says how
	// many bytes it took; 0 means that more must come first. A Caller that keeps
	// the state of a half read answer may take its bytes as they come, with ID 0:
	// then a long answer needs no long buffer. An error ends the run: an *Error
	// says which kind it is, any other is Garbage.
	//
	// in is empty once, when the server has ended the stream: an answer that this
	// completes, if there is one, is put into a and is its Last. An *Error of the
	// kind Closed says then that the stream ended within an answer; it does not end
	// the run.
	Decode(a *Answer, in []byte) (used int, err error)
}

// forgetter is a Caller whose connection can go on although one answer stays away,
// because answers come in any order. Run replaces the connections of other Callers
// when a request times out.
type forgetter interface {
	// Forget gives up the answer to id, which Decode passes over when it comes after
	// all. It reports false when the Caller cannot keep more such ids in mind.
	Forget(id uint64) bool
}

// repeater is a Caller with requests that may be sent again when their connection
// has ended and nobody can know whether they were carried out. Without one they fail
// as Closed.
type repeater interface {
	// Repeats reports whether the unanswered request may: it changes nothing at the
	// server, and Decode has taken nothing of its answer.
	Repeats(id uint64) bool
}

// replier is a Caller whose protocol has clients reply to messages other than answers, such as pings.
type replier interface {
	Caller
	// AppendReplies appends what is to be sent for what Decode has seen, once.
	AppendReplies(dst []byte) []byte
	// Ignore has Decode pass over, from now on, what nobody has asked for.
	Ignore()
}

// Answer is what a server sent.
type Answer struct {
	ID      uint64 // the id of its request; 0 for what nobody asked for and for a part, which are passed over
	Content []byte // may alias what was decoded; valid until the next call of Decode
	Err     error  // not nil when the server says that the request failed
	// Wrong says that the server is content and the target is not: Err is of the
	// answer itself, and counted as WrongContent.
	Wrong bool
	// Code is the protocol's number for the outcome, below 1,000, to be counted in
	// Result.Statuses. 0: it has none.
	Code uint16
	// Last says that the server has announced that it closes the connection after
	// this answer. Run opens another in its place, and sends there again what is
	// still unanswered. With ID 0 the announcement stands alone, and says nothing of
	// what is unanswered; with Err the server drains.
	Last bool
}
