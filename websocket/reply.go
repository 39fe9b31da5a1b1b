package websocket

import "github.com/hone-go/hone/engine"

// Reply is the promised answer to one message, to be sent once. It is a small value that may
// be kept and used from any goroutine. Its methods return ErrClosed if the connection has
// ended, and engine.ErrSettled for a second answer.
//
// Until it is sent, the connection counts as busy: the idle timeout does not apply, and a
// Close from the client is answered after the reply.
type Reply struct {
	reply    engine.Reply
	protocol *protocol
}

// Text answers with the concatenated parts as one text message. It copies them.
func (r Reply) Text(parts ...[]byte) error { return r.send(Text, parts) }

// Binary answers with the concatenated parts as one binary message. It copies them.
func (r Reply) Binary(parts ...[]byte) error { return r.send(Binary, parts) }

// Send answers with a prepared message.
func (r Reply) Send(p Prepared) error { return r.reply.Send(p.frame(r.protocol.sendWindow())) }

// Skip settles the promise without an answer.
func (r Reply) Skip() error { return r.reply.Send() }

// Conn returns the connection that the message arrived on.
func (r Reply) Conn() Conn { return Conn{r.reply.Conn(), r.protocol} }
