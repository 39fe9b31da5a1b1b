package framed

import (
	"context"
	"crypto/tls"
	"net/netip"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// Call is what a handler knows of a request beside its bytes. It is valid until
// the handler returns, and panics when it is used later: what may be kept is
// what it hands out, a Conn, a Reply or a Context.
//
// Four fields and 32 bytes at most: Go keeps that in registers.
type Call struct {
	turn     *engine.Turn
	protocol *protocol
	id       uint64
	message  message
}

// message is which of a turn's it is, and what.
type message struct {
	serial  uint32
	command wire.Command
}

// ID is the request's id, chosen by the client.
func (c Call) ID() uint64 { return c.id }

// Conn is the connection the request came on.
func (c Call) Conn() Conn {
	c.check()
	return Conn{c.turn.Conn()}
}

// Context carries what ConnContext made for the connection, or else the server's values.
// It ends when the client has closed its side or broken the connection, about a second
// later at most, see engine.Turn.Context; when the requests of this visit are answered,
// those for later too; and when the server is closed or cut off, not when it begins to
// drain. With Server.RequestTime it has a deadline. Requests that do not ask for it pay
// nothing.
func (c Call) Context() context.Context {
	parent := c.protocol.ctx
	if a := c.Conn().attachment(); a != nil && a.ctx != nil {
		parent = a.ctx
	}
	ctx := c.turn.Context(parent)
	if c.protocol.within <= 0 {
		return ctx
	}
	limited, cancel := context.WithTimeout(ctx, c.protocol.within)
	context.AfterFunc(ctx, cancel)
	return limited
}

// Later promises the reply for later: what the handler returns then is ignored
// (an error still answers at once, and takes the promise back), and the Reply
// may be sent from any goroutine at any time. Replies may finish out of order.
func (c Call) Later() (r Reply) {
	c.check()
	if c.turn.Promised() > 0 {
		panic("framed: Call.Later called twice for one request")
	}
	r.reply, r.id, r.protocol = c.turn.Later(), c.id, c.protocol
	if c.message.command == wire.Conn {
		r.began = answersConn
	}
	if c.protocol.onRequest != nil {
		r.began |= c.turn.State
	}
	return r
}

func (c Call) check() {
	if c.turn == nil || c.turn.Serial() != c.message.serial {
		panic("framed: Call used after its handler returned; keep the Conn, Reply or Context that it gives instead")
	}
}

// Reply is the reply to one request, to be sent once: a small value that may be
// kept and sent from any goroutine.
//
// 48 bytes: Go copies those in three steps, and one that is copied again at once is
// not waited for, as it would be if the steps overlapped.
type Reply struct {
	reply    engine.Reply
	id       uint64
	protocol *protocol
	began    uint64 // answersConn or 0, and with OnRequest Turn.State
}

// answersConn says that the request was a Conn packet.
const answersConn = 1 << 63

// request is what the reply answers.
func (r *Reply) request() wire.Command {
	if r.began&answersConn != 0 {
		return wire.Conn
	}
	return wire.Submit
}

// observed reports whether OnRequest is to hear of the reply.
func (r *Reply) observed() bool { return r.protocol != nil && r.protocol.onRequest != nil }

// dialect is what the client speaks.
func (r *Reply) dialect() wire.Dialect {
	if r.protocol == nil {
		return wire.Standard
	}
	return r.protocol.dialect
}

// Send answers the request. The content is copied. It returns ErrClosed when
// the connection has ended and engine.ErrSettled for a second answer.
func (r Reply) Send(content []byte) error { return r.send(wire.OK, content, nil) }

// Fail answers the request with the code that err is or wraps, or wire.Failed, and with
// the content of a Refusal.
func (r Reply) Fail(err error) error { return r.send(resultOf(err), contentOf(err), err) }

// Conn is the connection the reply belongs to.
func (r Reply) Conn() Conn { return Conn{r.reply.Conn()} }

// send is on a pointer because copies of a Reply are what sending one would cost most.
func (r *Reply) send(result wire.Result, content []byte, why error) error {
	var p wire.Packet // field by field: a literal would be copied before it is in memory
	p.Command, p.Result, p.ID, p.Content = wire.SubmitAck, result, r.id, content
	if r.began&answersConn != 0 {
		p.Command = wire.ConnAck
	}
	var room [32]byte
	head, content := r.dialect().Split(room[:0], &p)
	err := r.reply.Send(head, content)
	if r.request() == wire.Conn && result == wire.OK && err == nil {
		r.reply.Conn().Trust()
	}
	if r.observed() {
		r.report(result, why, err)
	}
	return err
}

// Conn is a client's connection as a small comparable value: safe to keep, to
// use as a map key and to call from any goroutine, after its end too.
type Conn struct{ c engine.Conn }

// Send pushes a Deliver packet to the client: it is queued behind what already
// waits for it, and copied. A client that does not read is disconnected.
func (c Conn) Send(id uint64, content []byte) error {
	var room [32]byte
	head, content := wire.Standard.Split(room[:0], &wire.Packet{Command: wire.Deliver, ID: id, Content: content})
	return c.c.Push(head, content)
}

// Close ends the connection: nothing more is read, what is queued is flushed.
// It does not wait.
func (c Conn) Close() { c.c.Close(engine.ClosedHere) }

// RemoteAddr is the client's address, as a trusted proxy told it where there
// is one; the zero AddrPort for unix sockets and when the connection has ended.
func (c Conn) RemoteAddr() netip.AddrPort { return c.c.RemoteAddr() }

// LocalAddr is the address that the client has connected to, or its proxy; the zero
// AddrPort for unix sockets and when the connection has ended. It takes a system call.
func (c Conn) LocalAddr() netip.AddrPort { return c.c.LocalAddr() }

// TLS is what the handshake has agreed on, with the client's certificates: nil without
// TLS, and when the connection has ended. It is there from ConnContext on, made anew by
// every call.
func (c Conn) TLS() *tls.ConnectionState { return c.c.TLS() }

// Credentials says which process, of which user and group, is at the other end of a
// unix socket, as engine.Conn.Credentials does: -1 is nobody.
func (c Conn) Credentials() (pid, uid, gid int, known bool) { return c.c.Credentials() }

// Value is what SetValue stored last, or nil.
func (c Conn) Value() any {
	if a := c.attachment(); a != nil {
		return a.value
	}
	return nil
}

// SetValue keeps v with the connection until it ends. A connection without a
// value or a context of its own pays nothing for either.
func (c Conn) SetValue(v any) {
	next := &attachment{value: v}
	if a := c.attachment(); a != nil {
		next.ctx = a.ctx
	}
	c.c.SetValue(next)
}

// attachment is what belongs to one connection besides its bytes; never
// changed once it is stored.
type attachment struct {
	ctx   context.Context
	value any
}

func (c Conn) attachment() *attachment {
	a, _ := c.c.Value().(*attachment)
	return a
}
