// Package engine moves bytes between sockets and a Protocol.
//
// A Protocol says what the bytes mean; an Engine says how they travel. The
// same Protocol runs unchanged on every engine of All, with the same replies,
// the same refusals and the same counters:
//
//	engine    who waits                       how much is read        when it flushes
//	Direct    a goroutine per connection      what the message needs  every reply
//	Buffered  a goroutine per connection      up to n bytes           when no complete request is left
//	Parked    a goroutine per connection,     up to n bytes           same
//	          holding no buffer while it waits
//	Events    a loop per processor            up to 64 KiB            same
//
// A request's path is two hops: the engine reads and calls Protocol.Advance,
// Advance cuts messages and calls user code, and the engine writes all the
// replies of that visit at once.
package engine

import (
	"fmt"
	"strings"

	"github.com/hone-go/hone/internal/sys"
)

// Protocol gives bytes their meaning. One value serves every connection of a
// Server, from many goroutines at once; what it must remember about one
// connection between visits is Turn.State.
type Protocol interface {
	// Advance serves the complete messages at the front of in, appending
	// replies to t.Out, and says how many bytes it has used. Before every
	// message it asks t.Room; when the answer is no it stops.
	//
	// need > 0: nothing more can be done before that many further bytes have
	// arrived. An engine may read exactly that many, so need never exceeds what
	// the message certainly still has.
	// need == 0 and err == nil: stopped for room; called again when there is.
	// err, a Reason: what is in t.Out is flushed, then the connection closes.
	//
	// in belongs to the engine again when Advance returns.
	Advance(t *Turn, in []byte) (used, need int, err error)

	// Refuse appends the protocol's words for a fault that the engine found:
	// a panic of the message at the front of unserved, a limit, a shutdown.
	// It may append nothing.
	Refuse(dst, unserved []byte, why Reason) []byte
}

// Engine is one way of moving bytes. The zero value is the default of this
// operating system: the last of All. An Engine is text as Name has it, so that it can be a flag
// (flag.TextVar) or a field of a configuration.
type Engine struct {
	style style
	hand  HandOff
	size  int
}

type style uint8

const (
	byDefault style = iota
	direct
	buffered
	parked
	events
)

// HandOff says what the Events engine does about handlers that take their time.
// In every mode the requests of one connection are served one after the other.
type HandOff uint8

const (
	// Auto calls handlers on the loop. When one has not returned after a
	// millisecond or two, the loop goes on without it on another goroutine, and
	// the connection's next requests are served beside the loop until they are
	// fast again.
	Auto HandOff = iota
	// Inline calls handlers on the loop and waits for them: for handlers that
	// are known never to block. One that does stops all connections of its loop.
	Inline
	// Offload calls every handler on a goroutine beside the loop: for handlers
	// that are known to block.
	Offload
)

// Direct reads exactly the bytes that the next message needs and writes every
// reply by itself: three system calls a request. It is the baseline that the
// others are measured against, and the least to think about.
func Direct() Engine { return Engine{style: direct, size: 512} }

// Buffered reads up to n bytes at a time into a buffer that the connection
// owns, and writes when no complete request is left in it. Zero means 4 KiB.
// It serves any net.Listener: TLS, unix sockets, adapters.
func Buffered(n int) Engine { return Engine{style: buffered, size: positive(n, 4<<10)} }

// Parked waits for readiness without holding a buffer and borrows one of n
// bytes only while bytes are in flight. Zero means 64 KiB. Connections that
// are not plain sockets (TLS, adapters), and every connection where the
// operating system offers no readiness, are served as by Buffered.
func Parked(n int) Engine { return Engine{style: parked, size: positive(n, 64<<10)} }

// Events serves connections from one loop a processor: the least time per
// request and the least memory per idle connection. Connections that are not
// plain sockets (TLS, adapters) are served as by Buffered. It needs Linux:
// elsewhere Serve answers errors.ErrUnsupported.
func Events(mode HandOff) Engine { return Engine{style: events, hand: mode, size: 64 << 10} }

// All lists the engines of this operating system, simplest first.
func All() []Engine {
	all := []Engine{Direct(), Buffered(0)}
	if sys.Readiness {
		all = append(all, Parked(0))
	}
	if sys.Polls {
		all = append(all, Events(Auto))
	}
	return all
}

// Name is the engine's name as commands and counters spell it: direct,
// buffered, parked, events, events-inline, events-offload.
func (e Engine) Name() string {
	e = e.orDefault()
	switch e.style {
	case direct:
		return "direct"
	case buffered:
		return "buffered"
	case parked:
		return "parked"
	}
	return "events" + [...]string{Auto: "", Inline: "-inline", Offload: "-offload"}[e.hand]
}

// MarshalText is Name, and nothing for the zero Engine.
func (e Engine) MarshalText() ([]byte, error) {
	if e.style == byDefault {
		return nil, nil
	}
	return []byte(e.Name()), nil
}

// UnmarshalText sets e to the engine of that name. No text is the default.
func (e *Engine) UnmarshalText(text []byte) error {
	known := []Engine{Direct(), Buffered(0), Parked(0), Events(Auto), Events(Inline), Events(Offload)}
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
	return fmt.Errorf("engine: no engine is called %q; there are %s", text, strings.Join(names, ", "))
}

// orDefault resolves the zero value.
func (e Engine) orDefault() Engine {
	switch {
	case e.style != byDefault:
		return e
	case sys.Polls:
		return Events(Auto)
	case sys.Readiness:
		return Parked(0)
	default:
		return Buffered(0)
	}
}

func positive(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
