// Package engine is the I/O layer of the servers: it moves bytes between sockets and a
// Protocol.
//
// A Protocol parses and answers messages; an Engine does the I/O. The same Protocol runs
// unchanged on every engine of All, with the same replies, the same refusals and the same
// counters:
//
//	engine    what waits for input            bytes per read
//	Events    a loop per processor            up to 64 KiB
//	Buffered  a goroutine per connection      up to n bytes
//
// A request takes two steps: the engine reads and calls Protocol.Advance, which splits
// the input into messages and calls user code; then the engine writes all the replies of
// that visit at once.
//
// Where to begin: [Protocol] and [Turn], then [Server] and [Limits]. A [Conn] pushes, and a [Reply]
// answers later. [Ender], [Parter], [Pinger] and [Yielder] are optional methods of a Protocol.
package engine

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hone-go/hone/internal/sys"
)

// Protocol parses input and produces replies. One value serves every connection of a
// Server, from many goroutines at once; per-connection state between visits goes into
// Turn.State.
type Protocol interface {
	// Advance handles the complete messages at the front of in, appends replies to t.Out,
	// and returns how many bytes it has used. Before every message it must call t.Room,
	// and stop when that returns false.
	//
	// need > 0: Advance cannot continue before that many further bytes have arrived. An
	// engine may read exactly that many, so need must not exceed what the message
	// certainly still lacks.
	//
	// need == 0 and err == nil: Advance stopped for lack of room; the engine calls it
	// again when there is room.
	//
	// err, a Reason: the engine flushes t.Out, then closes the connection. Any other error is
	// logged to Server.Logger, and closes the connection as Malformed.
	//
	// in must not be used after Advance returns.
	Advance(t *Turn, in []byte) (used, need int, err error)

	// Refuse appends the protocol's error message for a fault that the engine detected: a
	// panic in the message at the front of unserved, a limit, a shutdown, or a peer that
	// has closed its side in the middle of a message (PeerClosed). It may append nothing.
	Refuse(dst, unserved []byte, why Reason) []byte
}

// Engine is an I/O strategy. The zero value is the default of this operating system: the
// last of All. An Engine marshals to its Name, so that it works as a flag (flag.TextVar)
// or a field of a configuration.
type Engine struct {
	style style
	hand  HandOff
	size  int // of a connection's own buffer
}

type style uint8

const (
	byDefault style = iota
	buffered
	events
)

// HandOff is how the Events engine treats slow handlers. In every mode the requests of
// one connection are served one at a time.
type HandOff uint8

const (
	// Auto calls handlers on the loop. When one has not returned after a millisecond or
	// two, another goroutine takes over the loop, and the connection's next requests are
	// served off the loop until they are fast again.
	Auto HandOff = iota
	// Inline calls handlers on the loop and waits for them: for handlers that never
	// block. One that does stalls all connections of its loop.
	Inline
	// Offload calls every handler on a goroutine off the loop: for handlers that usually
	// block.
	Offload
)

// Buffered reads up to n bytes at a time into a buffer that the connection owns, and
// flushes when no complete request is left in it. Zero means 4 KiB. It serves any
// net.Listener: TLS, unix sockets, adapters.
func Buffered(n int) Engine { return Engine{style: buffered, size: cmp.Or(max(0, n), 4<<10)} }

// Events serves connections from one event loop per processor: the least CPU time per
// request and the least memory per idle connection. It serves plain sockets, and TLS with
// NewTLSListener; other connections (tls.NewListener's, adapters) are served as by
// Buffered. It needs Linux: elsewhere Serve returns errors.ErrUnsupported.
func Events(mode HandOff) Engine { return Engine{style: events, hand: mode, size: Buffered(0).size} }

// All returns the engines of this operating system, simplest first.
func All() []Engine {
	all := []Engine{Buffered(0)}
	if sys.Polls {
		all = append(all, Events(Auto))
	}
	return all
}

// Name returns the engine's name in commands and metrics: buffered, events, events-inline,
// events-offload.
func (e Engine) Name() string {
	e = e.orDefault() // whose hand is Auto if it is not Events
	return [...]string{buffered: "buffered", events: "events"}[e.style] + [...]string{Auto: "", Inline: "-inline", Offload: "-offload"}[e.hand]
}

// MarshalText returns the Name, and nothing for the zero Engine.
func (e Engine) MarshalText() ([]byte, error) {
	if e.style == byDefault {
		return nil, nil
	}
	return []byte(e.Name()), nil
}

// UnmarshalText sets e to the engine with that name. Empty text means the default.
func (e *Engine) UnmarshalText(text []byte) error {
	known := []Engine{Buffered(0), Events(Auto), Events(Inline), Events(Offload)}
	var names []string
	for _, k := range known {
		if k.Name() == string(text) {
			*e = k
			return nil
		}
		names = append(names, k.Name())
	}
	if len(text) == 0 {
		*e = Engine{}
		return nil
	}
	return fmt.Errorf("engine: unknown engine %q; use one of %s", text, strings.Join(names, ", "))
}

// orDefault replaces the zero value by the default.
func (e Engine) orDefault() Engine {
	switch {
	case e.style != byDefault:
		return e
	case sys.Polls:
		return Events(Auto)
	default:
		return Buffered(0)
	}
}

// Pinger is a Protocol with a keepalive message. The engine sends the bytes that Ping
// returned to a connection that has been silent for half of Limits.IdleTime; a reply
// resets the idle timeout. Ping is called once per protocol of a server, so that pinging
// needs no timer per connection.
type Pinger interface{ Ping() []byte }

// Yielder is a Protocol whose connections may be closed between two messages, for the
// reason Displaced, when the server has Limits.Conns connections and another one arrives:
// the one that has been idle for longest, first among those from the newcomer's address.
// GivesWay is called once per protocol of a server.
type Yielder interface{ GivesWay() bool }

// Ender is a Protocol with a callback for the end of a connection that speaks it: called
// once, after its last visit and before Server.OnClose, with the last value of
// Turn.State.
type Ender interface {
	Ended(c Conn, state uint64, why Reason)
}

// spoken is a protocol in use by a server.
type spoken struct {
	Protocol
	ended    func(c Conn, state uint64, why Reason) // nil: not an Ender
	ping     []byte
	givesWay bool
	saysLast bool
}

func newSpoken(p Protocol) *spoken {
	sp := &spoken{Protocol: p}
	if e, ok := p.(Ender); ok {
		sp.ended = e.Ended
	}
	if asks, ok := p.(Pinger); ok {
		sp.ping = asks.Ping()
	}
	if y, ok := p.(Yielder); ok {
		sp.givesWay = y.GivesWay()
	}
	if last, ok := p.(Parter); ok {
		sp.saysLast = last.SaysLast()
	}
	return sp
}
