// Package codec speaks the protocols that a load can have: it encodes requests and decodes answers.
//
// A target is one of four kinds: Frames speaks hone's own protocol; HTTP is a web service; WebSocket
// is a server that answers messages; Messages is any other protocol that exchanges messages over a
// stream. Bytes go in and come out: but for Dial, nothing here touches a socket or a clock.
//
// The package shares package wire with hone's server, and the frames of package websocket, which
// Autobahn's suite tests from both sides; none of the servers' code.
package codec

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"

	"github.com/hone-go/hone/tool/load/traffic"
)

// Target is a server: its address and its protocol. Its methods may be called concurrently.
type Target interface {
	// Dial opens one connection, ready for requests. It must return when ctx ends.
	Dial(ctx context.Context) (net.Conn, error)
	// Codec returns the protocol's state for one connection.
	Codec() Codec
	// Prepare checks that the target is valid and can carry a load, and returns the way to it.
	Prepare(Load) (Route, error)
	// String returns the target as its user wrote it, for messages.
	String() string
}

// Load is what a load sends to a target.
type Load struct {
	Content     []byte          // of a request, or of the largest
	Least, Most int             // bytes of the requests' contents
	Expect      []byte          // of every answer; nil: any
	Echo        bool            // every answer has its request's content
	Chosen      bool            // the content, its size or its sizes were given
	Depth       int             // requests outstanding on a connection, at most
	Traffic     *traffic.Script // sessions of different requests; nil: all are the same
}

// Route is the way to a target.
type Route struct {
	Target           Target // the same, checked and encoded; nil: as it was given
	Network, Address string
	Page             *url.URL    // of HTTP and WebSocket
	TLS              *tls.Config // nil: no TLS
	Whole            bool        // its requests are its own: the load's content is not sent
	Pings            bool        // its server may ask for replies while no request is unanswered
	// Wonder asks a server that has never answered what it speaks, and returns nil if that does not
	// tell. Nil: nothing can be asked.
	Wonder func(context.Context) *Error
}

// Codec implements the protocol on one connection. Its methods are never called concurrently, and
// must not block.
//
// The Codec matches answers to requests: if the protocol carries ids, it returns the answer's; if
// the protocol answers in order, it queues the ids that it was given.
type Codec interface {
	// AppendRequest appends one whole request to dst and returns it. The id is never 0 and unique
	// among the connection's unanswered requests. With Traffic, the request is the session's
	// current step, whose content is the content, except if the Route is Whole.
	AppendRequest(dst []byte, id uint64, content []byte, of *traffic.Session) []byte
	// Decode decodes the first answer of in into a, which is zero but for its Reply, and returns how
	// many bytes it used; 0 means that the answer is incomplete. A Codec that parses incrementally may
	// use the bytes of an incomplete answer, with ID 0: then a long answer needs no long buffer. An
	// error ends the run: an *Error has its Kind, any other is Garbage. With used above 0, it is about
	// that message alone, which nobody has asked for.
	//
	// in is empty once, when the server has ended the stream: if this completes an answer, Decode
	// puts it into a and sets its Last. An *Error of the kind Closed then means that the stream
	// ended within an answer; it does not end the run.
	Decode(a *Answer, in []byte) (used int, err error)
	// Forget gives up the answer to id; Decode skips it if it comes later. It returns false when the
	// connection cannot go on without the answer: because answers come in order, or because too
	// many are remembered.
	Forget(id uint64) bool
	// Repeats reports whether the request may be sent again when its connection has ended, although
	// the server may have carried it out.
	Repeats(id uint64) bool
}

// InOrder is the part of a Codec that neither forgets nor repeats.
type InOrder struct{}

// Forget returns false.
func (InOrder) Forget(uint64) bool { return false }

// Repeats returns false.
func (InOrder) Repeats(uint64) bool { return false }

// Answer is what a server sent.
type Answer struct {
	ID      uint64 // the id of its request; 0 for an unsolicited message and for a part of an answer, which are skipped
	Content []byte // may alias Decode's input; valid until the next call of Decode
	Err     error  // not nil when the server reports that the request failed
	// Wrong says that the server succeeded but the answer is not as expected: Err describes the
	// difference, and the answer is counted as WrongContent.
	Wrong bool
	// Last says that the server has announced that it closes the connection after this answer. The
	// client reconnects and resends what is still unanswered. With ID 0 the announcement stands
	// alone, and says nothing about unanswered requests; with Err the server drains.
	Last bool
	// Code is the protocol's status code, below Codes, to be counted in Result.Statuses. 0: none.
	Code uint16
	// Seen is what a session can see of an answer that has more than Content; nil: Content is all.
	// It is valid until the next call of Decode.
	Seen *traffic.Answer
	// Reply is what the protocol sends back by itself, as a pong. Decode appends to it, and who
	// sends it cuts it back.
	Reply []byte
}

// Codes is above every Answer.Code.
const Codes = 1000

// Next decodes in up to the first answer, or announcement of the connection's end, and skips what is
// neither. If a has no ID and is not Last, in has none, and more input is needed. An empty in is the end
// of the stream.
func Next(c Codec, a *Answer, in []byte) (used int, err error) {
	for {
		*a = Answer{Reply: a.Reply}
		n, err := c.Decode(a, in[used:])
		if used += n; err != nil || n == 0 || a.ID != 0 || a.Last || used == len(in) {
			return used, err
		}
	}
}
