// Package load sends requests to a target on a schedule and measures its response times.
//
//	target, err := load.ParseTarget("tcp://127.0.0.1:7000", wire.Standard)
//	...
//	result, err := load.Run(ctx, load.Plan{Target: target, Conns: 100, Depth: 64, Rate: 50_000})
//
// A target is one of four kinds: Frames speaks hone's own protocol, as here; HTTP is a web
// service; WebSocket is a server that answers messages; Messages is any other protocol that
// exchanges messages over a stream.
//
// A plan without a rate is a closed loop: every connection keeps Depth requests outstanding and
// sends the next when an answer comes. So a stalled server receives hardly any requests, and the
// figures hardly show the stall (coordinated omission). A plan with a rate is an open loop: every
// request has a scheduled moment, and its response time counts from that moment, whatever
// delayed its sending.
//
// Every request has three moments: intended, written and answered. The response time is
// answered − intended, the service time answered − written. A request that timed out, or was
// never sent, is in the response times with the time that it waited, and is counted as an error
// under its Kind. A request whose connection broke has neither time. Every answer is verified. A
// Result says first whether it is valid, and what to try when it is not: invalid does not mean
// failed.
//
// The package shares package wire with hone's server, and the frames of package websocket, which
// Autobahn's suite tests from both sides; none of the servers' code.
package load

import (
	"context"
	"net"
)

// Target is the server to load: its address and its protocol. Its methods may be called
// concurrently. Frames, HTTP, WebSocket and Messages are targets.
type Target interface {
	// Dial opens one connection, ready for requests. It must return when ctx ends.
	Dial(ctx context.Context) (net.Conn, error)
	// Caller returns the protocol's state for one connection.
	Caller() Caller
	// String returns the target as its user wrote it, for messages.
	String() string
}

// Caller implements the protocol on one connection. Its methods are never called concurrently, and
// must not block.
//
// The Caller matches answers to requests: if the protocol carries ids, it returns the answer's; if
// the protocol answers in order, it queues the ids that it was given.
//
// A Caller may also implement forgetter. An httpCaller also encodes the steps of sessions and says which
// requests may be retried; a wsCaller replies to messages other than answers, such as pings.
type Caller interface {
	// AppendRequest appends one whole request to dst and returns it. The id is never 0 and unique
	// among the connection's unanswered requests.
	AppendRequest(dst []byte, id uint64, content []byte) []byte
	// Decode decodes the first answer of in into a, which is zero, and returns how many bytes it
	// used; 0 means that the answer is incomplete. A Caller that parses incrementally may use the
	// bytes of an incomplete answer, with ID 0: then a long answer needs no long buffer. An error
	// ends the run: an *Error has its Kind, any other is Garbage.
	//
	// in is empty once, when the server has ended the stream: if this completes an answer, Decode
	// puts it into a and sets its Last. An *Error of the kind Closed then means that the stream
	// ended within an answer; it does not end the run.
	Decode(a *Answer, in []byte) (used int, err error)
}

// forgetter is a Caller whose connection can go on when one answer is missing, because answers
// come in any order. Run replaces the connections of other Callers when a request times out.
type forgetter interface {
	// Forget gives up the answer to id; Decode skips it if it comes later. Forget returns false
	// when the Caller cannot remember more such ids.
	Forget(id uint64) bool
}

// Answer is what a server sent.
type Answer struct {
	ID      uint64 // the id of its request; 0 for an unsolicited message and for a part of an answer, which are skipped
	Content []byte // may alias Decode's input; valid until the next call of Decode
	Err     error  // not nil when the server reports that the request failed
	// Wrong says that the server succeeded but the answer is not as expected: Err describes the
	// difference, and the answer is counted as WrongContent.
	Wrong bool
	// Code is the protocol's status code, below 1,000, to be counted in Result.Statuses. 0: none.
	Code uint16
	// Last says that the server has announced that it closes the connection after this answer. Run
	// then reconnects and resends what is still unanswered. With ID 0 the announcement stands
	// alone, and says nothing about unanswered requests; with Err the server drains.
	Last bool
}
