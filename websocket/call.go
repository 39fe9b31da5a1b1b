package websocket

import (
	"context"

	"github.com/hone-go/hone/engine"
)

// Call is the context of one message in Upgrader.Message. It is valid until Message returns,
// and panics if it is used later. The values it returns may be kept: a Conn, a Reply or a
// Context.
//
// It has at most four fields and 32 bytes: Go passes that in registers.
type Call struct {
	turn     *engine.Turn
	protocol *protocol
	serial   uint32
	kind     Kind
}

// Kind returns whether the message is text or binary. Text is valid UTF-8.
func (c Call) Kind() Kind { return c.kind }

// Answer sets the kind of the answer. By default it is the kind of the message.
func (c Call) Answer(k Kind) {
	if c.check(); k != Text && k != Binary {
		panic("websocket: Call.Answer: the Kind is neither Text nor Binary")
	}
	c.turn.State = uint64(k)
}

// Conn returns the connection that the message arrived on.
func (c Call) Conn() Conn {
	c.check()
	return Conn{c.turn.Conn(), c.protocol}
}

// Turn returns the visit, for a Message that promises several replies: it sends them with Conn.Binary, and settles each
// promise without one.
func (c Call) Turn() *engine.Turn {
	c.check()
	return c.turn
}

// Context ends when the client has closed its side or the connection is broken (noticed
// within about a second, see engine.Turn.Context), when the messages of this visit are
// answered, including those promised with Later, and when the connection ends. It carries no
// values. Messages that do not call it pay nothing.
func (c Call) Context() context.Context {
	c.check()
	return c.turn.Context(context.Background())
}

// Later promises to answer later: what Message then returns is ignored, except that an error
// still closes the connection. The Reply may be sent from any goroutine at any time, and
// replies may finish out of order.
func (c Call) Later() Reply {
	c.check()
	if c.turn.Promised() > 0 {
		panic("websocket: Call.Later called twice for one message")
	}
	return Reply{c.turn.Later(), c.protocol}
}

func (c Call) check() {
	if c.turn == nil || c.turn.Serial() != c.serial {
		panic("websocket: Call used after Message returned; keep the Conn, Reply or Context that it returns instead")
	}
}
