package websocket

import "github.com/hone-go/hone/engine"

// Reply is the promised answer to one message, to be sent once: a small value that may be
// kept and used from any goroutine. Its methods return ErrClosed when the connection has
// ended and engine.ErrSettled for a second answer.
//
// Until it is sent the connection counts as busy: it is not closed for silence, and a
// Close of the client's is answered after it.
type Reply struct {
	reply    engine.Reply
	protocol *protocol
}

// Text answers with parts, one after the other, as one text message. They are copied.
func (r Reply) Text(parts ...[]byte) error { return r.send(Text, parts) }

// Binary answers with parts, one after the other, as one binary message. They are copied.
func (r Reply) Binary(parts ...[]byte) error { return r.send(Binary, parts) }

// Send answers with a message that was prepared before.
func (r Reply) Send(p Prepared) error { return r.reply.Send(p.frame(r.protocol.sendWindow())) }

// Skip settles the promise without an answer.
func (r Reply) Skip() error { return r.reply.Send() }

// Conn is the connection that the message came on.
func (r Reply) Conn() Conn { return Conn{r.reply.Conn(), r.protocol} }
