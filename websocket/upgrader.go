// Package websocket serves WebSocket connections on hone's engines, and dials them.
//
//	echo := &websocket.Upgrader{
//		Message: func(c websocket.Call, dst, msg []byte) ([]byte, error) {
//			return append(dst, msg...), nil
//		},
//	}
//	srv := &http1.Server{Std: &http.Server{Addr: "127.0.0.1:8080", Handler: echo}}
//	log.Fatal(srv.ListenAndServe())
//
// An Upgrader is an http.Handler. On an http1.Server the connection stays where it is: an
// idle WebSocket is an entry in the engine's table, without a goroutine and without a
// buffer. On any other server it works too, with a goroutine for each connection.
package websocket

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// Upgrader turns HTTP requests into WebSocket connections and serves those. Fill the
// fields before the first request; do not change them afterwards. The zero value of every
// field but Message is a working default.
//
// Open, Message and Closed are called from many goroutines at once, but for one connection
// from one at a time.
type Upgrader struct {
	// Open is called for every request that may become a connection, before it is
	// answered. What it sends to c goes behind the answer. An error refuses the request:
	// with its status and text if it is or wraps a *Refusal, else with 403. r must not be
	// used when Open has returned. Zero: everybody is let in.
	Open func(c Conn, r *http.Request) error
	// Message is called for every message, in their order. It appends the answer to dst
	// and returns it; returning any other slice sends that one, at the price of a copy.
	// The answer is of the message's kind, see Call.Answer. nil is no answer: dst as it was
	// is an empty one. msg is valid until Message returns: keep nothing of it.
	//
	// An error closes the connection: with the code and text of a *CloseError or the Code
	// that it is or wraps, else with InternalError and no text. A panic closes it with
	// InternalError. Required.
	Message func(c Call, dst, msg []byte) ([]byte, error)
	// Closed is called once for every connection that Open has let in, when it has ended.
	// code is what the first Close frame said: the client's, where why is
	// engine.PeerClosed, or ours. It is AbnormalClosure when there was none.
	Closed func(c Conn, code Code, why engine.Reason)
	// Origins says which pages may connect, where the request has an Origin header, as
	// those of browsers have. Zero: those from the host that the request is for.
	Origins func(r *http.Request) bool
	// AuthLater says that clients prove who they are by their messages: Limits.AuthTime
	// goes on until Conn.Trust. Zero: whoever Open lets in has proved it.
	AuthLater bool
	// Protocols are the subprotocols that are spoken here. The first that the client
	// offers is chosen, see Subprotocol. Zero: none is.
	Protocols []string
	// Compression is for messages to and from clients that offer it (permessage-deflate).
	// Zero: nothing is compressed.
	Compression *Compression
	// MessageSize is the longest message accepted, in bytes and not compressed. Zero:
	// 64 KiB.
	MessageSize int
	// Limits protect the server of the connections that come from a server other than
	// http1.Server, where that one's hold. Zero fields take their defaults.
	Limits engine.Limits
	// Logger hears of panics on such connections. Zero: silence.
	Logger *slog.Logger

	once      sync.Once
	protocols [mostWindow + 1]protocol // by their window
	hijacked  hijacked
	scratches sync.Pool // of *scratch
	attaching sync.Mutex
}

// defaultMessageSize is how long a message may be where nothing else is said.
const defaultMessageSize = 64 << 10

// init prepares u for its first request.
func (u *Upgrader) init() {
	u.once.Do(func() {
		if u.Message == nil {
			panic("websocket: Upgrader.Message is nil")
		}
		for i := range u.protocols {
			u.protocols[i] = protocol{upgrader: u, limit: orDefault(u.MessageSize, defaultMessageSize), window: uint8(i)}
		}
	})
}

// ServeHTTP makes the request's connection a WebSocket, or refuses the request.
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

// Subprotocol is the one of Protocols that is chosen for a request, or "".
func (u *Upgrader) Subprotocol(r *http.Request) string {
	h, _ := readHandshake(r, u.Protocols, false, func(*http.Request) bool { return true })
	return h.protocol
}

// Shutdown closes the connections that have come from a server other than http1.Server,
// with GoingAway, when what they have sent is answered; it refuses further ones. When ctx
// ends first, those that are left are cut off, and ctx's error is returned. The connections
// of an http1.Server end with that: its Shutdown says GoingAway to them, too.
func (u *Upgrader) Shutdown(ctx context.Context) error { return u.hijacked.shutdown(ctx) }
