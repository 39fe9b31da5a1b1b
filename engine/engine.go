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
//
// A request's path is two hops: the engine reads and calls Protocol.Advance,
// Advance cuts messages and calls user code, and the engine writes all the
// replies of that visit at once.
package engine

import "github.com/hone-go/hone/internal/sys"

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
// operating system.
type Engine struct {
	style style
	size  int
}

type style uint8

const (
	byDefault style = iota
	direct
	buffered
	parked
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

// All lists the engines of this operating system, simplest first.
func All() []Engine {
	if sys.Readiness {
		return []Engine{Direct(), Buffered(0), Parked(0)}
	}
	return []Engine{Direct(), Buffered(0)}
}

// Name is the engine's name as commands and counters spell it.
func (e Engine) Name() string {
	switch e.orDefault().style {
	case direct:
		return "direct"
	case buffered:
		return "buffered"
	default:
		return "parked"
	}
}

// orDefault resolves the zero value.
func (e Engine) orDefault() Engine {
	switch {
	case e.style != byDefault:
		return e
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
