package websocket

import (
	"context"

	"github.com/hone-go/hone/engine"
)

// Call is what Upgrader.Message knows of a message beside its bytes. It is valid until
// Message returns, and panics when it is used later: what may be kept is what it hands
// out, a Conn, a Reply or a Context.
//
// Four fields and 32 bytes at most: Go keeps that in registers.
type Call struct {
	turn     *engine.Turn
	protocol *protocol
	serial   uint32
	kind     Kind
}

// Kind is whether the message is text or binary. Text is valid UTF-8.
func (c Call) Kind() Kind { return c.kind }

// Answer sets the kind of the answer, which otherwise is that of the message.
func (c Call) Answer(k Kind) {
	if c.check(); k != Text && k != Binary {
		panic("websocket: Call.Answer with a Kind that is neither Text nor Binary")
	}
	c.turn.State = uint64(k)
}

// Conn is the connection that the message came on.
func (c Call) Conn() Conn {
	c.check()
	return Conn{c.turn.Conn(), c.protocol}
}

// Context ends when the client has closed its side or broken the connection, about a
// second later at most, see engine.Turn.Context; when the messages of this visit are
// answered, those for later too; and when the connection ends. It carries no values.
// Messages that do not ask for it pay nothing.
func (c Call) Context() context.Context {
	c.check()
	return c.turn.Context(context.Background())
}

// Later promises the answer for later: what Message returns then is ignored (an error
// still closes the connection), and the Reply may be sent from any goroutine at any time.
// Replies may finish out of order.
func (c Call) Later() Reply {
	c.check()
	if c.turn.Promised() > 0 {
		panic("websocket: Call.Later called twice for one message")
	}
	return Reply{c.turn.Later(), c.protocol}
}

func (c Call) check() {
	if c.turn == nil || c.turn.Serial() != c.serial {
		panic("websocket: Call used after Message returned; keep the Conn, Reply or Context that it gives instead")
	}
}
