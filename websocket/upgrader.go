// Package websocket serves WebSocket connections on hone's engines, and dials them.
//
//	echo := &websocket.Upgrader{
//		Message: func(c websocket.Call, dst, msg []byte) ([]byte, error) {
//			return append(dst, msg...), nil
//		},
//	}
//	srv := &http1.Server{Addr: "127.0.0.1:8080", Handler: echo}
//	log.Fatal(srv.ListenAndServe())
//
// An Upgrader is an http.Handler. On an http1.Server the connection stays on its engine: an
// idle WebSocket is an entry in the engine's table, without a goroutine and without a buffer.
// On any other server an Upgrader works too, with one goroutine per connection.
//
// Where to begin: [Upgrader] and its fields are a server, [Conn] is what it pushes to, [Call] and
// [Reply] are an answer now and later, [Prepare] and [Broadcast] one message for many. [Dial] and
// [Client] are the other side; [Frames] is for programs with read loops of their own.
package websocket

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// Upgrader turns HTTP requests into WebSocket connections and serves them. Fill in the fields
// before the first request; do not change them afterwards. The zero value of every field but
// Message is a working default.
//
// Open, Message and Closed are called concurrently, but never for the same connection at the
// same time.
type Upgrader struct {
	// Open is called for every valid request, before the response. What it sends to c follows
	// the response. An error refuses the request: with status and text of a *Refusal that it
	// is or wraps, else with 403. r must not be used after Open has returned. Zero: every
	// request is accepted.
	Open func(c Conn, r *http.Request) error
	// Message is called for every message, in order. It appends the answer to dst and returns
	// it; returning any other slice sends that one, at the cost of a copy. The answer has the
	// kind of the message, see Call.Answer. Returning nil sends no answer; returning dst
	// unchanged sends an empty one. msg is valid only until Message returns.
	//
	// An error closes the connection: with code and text of a *CloseError, or with the Code,
	// that it is or wraps, else with InternalError and no text. A panic closes it with
	// InternalError. Required.
	Message func(c Call, dst, msg []byte) ([]byte, error)
	// Closed is called once for every connection that Open accepted, after it has ended. code
	// is that of the first Close frame: the client's if why is engine.PeerClosed, otherwise
	// ours. It is AbnormalClosure if there was none.
	Closed func(c Conn, code Code, why engine.Reason)
	// Pong gets the round-trip time of a Conn.Ping. It is called like Message. Zero: not called.
	Pong func(c Conn, roundTrip time.Duration)
	// Origins reports whether a page may connect. It is called only for requests with an Origin
	// header, which browsers send; Open can refuse others. Zero: pages whose host and port are
	// those of the request's Host header. A proxy must pass that header on with its port.
	Origins func(r *http.Request) bool
	// AuthLater says that clients authenticate with their messages: Limits.AuthTime runs
	// until Conn.Trust. Zero: a client that Open accepts counts as authenticated.
	AuthLater bool
	// Protocols are the supported subprotocols in order of preference. The first that the
	// client offers is chosen, see Subprotocol. Zero: none.
	Protocols []string
	// Compression compresses messages to and from clients that offer permessage-deflate.
	// Zero: no compression.
	Compression *Compression
	// MessageSize is the longest message accepted, in bytes after decompression, 1 GiB at
	// most. Zero: 64 KiB. Negative: a panic.
	MessageSize int
	// GiveWay closes silent connections, with TryAgainLater, when Limits.Conns is reached and
	// another client connects: the longest silent first, first among those from its address.
	// Zero: false, the new client is refused.
	GiveWay bool
	// Limits protect connections that come from a server other than http1.Server; an
	// http1.Server applies its own. Zero fields take their defaults.
	Limits engine.Limits
	// Logger gets what engine.Server.Logger gets, for such connections. Zero: panics go to
	// slog.Default(), and nothing else is logged. For silence, use slog.DiscardHandler.
	Logger *slog.Logger

	once      sync.Once
	protocols [mostWindow + 1]protocol // indexed by window
	hijacked  hijacked
	scratches sync.Pool // of *scratch
	attaching sync.Mutex
	pings     pings
}

// defaultMessageSize is the default of Upgrader.MessageSize.
const defaultMessageSize = 64 << 10

// init prepares u for its first request.
func (u *Upgrader) init() {
	u.once.Do(func() {
		if u.Message == nil {
			panic("websocket: Upgrader.Message is nil")
		}
		u.pings = pings{time.Now(), maphash.MakeSeed()}
		for i := range u.protocols {
			u.protocols[i] = protocol{upgrader: u, limit: messageSize("Upgrader", u.MessageSize, defaultMessageSize), window: uint8(i)}
		}
	})
}

// ServeHTTP turns the request's connection into a WebSocket, or refuses the request.
func (u *Upgrader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.init()
	h, no := readHandshake(r, u.Protocols, u.Compression != nil, u.Origins)
	if no.status != 0 {
		no.write(w)
		return
	}
	up := &upgrade{upgrader: u, handshake: h, request: r, header: w.Header()}
	if t, err := http1.Switch(w, up.protocol()); err == nil {
		up.answer(t)
	} else {
		u.hijack(w, up)
	}
}

// Subprotocol returns the one of Protocols that is chosen for r, or "".
func (u *Upgrader) Subprotocol(r *http.Request) string {
	h, _ := readHandshake(r, u.Protocols, false, func(*http.Request) bool { return true })
	return h.protocol
}

// Shutdown closes the connections that come from a server other than http1.Server, with
// GoingAway, after answering what they have sent. It refuses new ones. If ctx ends first, it
// closes the remaining connections at once and returns ctx's error. The Shutdown of an
// http1.Server closes that server's connections, also with GoingAway.
func (u *Upgrader) Shutdown(ctx context.Context) error { return u.hijacked.shutdown(ctx) }
