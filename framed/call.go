package framed

import (
	"context"
	"crypto/tls"
	"net/netip"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// Call gives a handler access to the request's metadata. It is valid until the handler
// returns and panics when used later; a Conn, a Reply or a Context obtained from it may
// be kept.
//
// It has at most four fields and 32 bytes, so that Go passes it in registers.
type Call struct {
	turn        *engine.Turn
	observation *observation // without OnRequest, one for all requests
	id          uint64
	message     message
}

// message identifies a message within a turn, and its kind.
type message struct {
	serial  uint32
	command wire.Command
}

// ID returns the request's id, chosen by the client.
func (c Call) ID() uint64 { return c.id }

// Conn returns the connection on which the request arrived.
func (c Call) Conn() Conn {
	c.check()
	return Conn{c.turn.Conn()}
}

// Context returns a context derived from what ConnContext returned for the connection, or
// else from the server's. It is cancelled when the client closes its side or the
// connection breaks, within about a second (see engine.Turn.Context); when all requests
// of this visit are answered, deferred ones included; and when the server is closed or
// forced to stop, but not when it starts to drain. With Server.RequestTime it has a
// deadline. Handlers that do not call Context pay nothing.
func (c Call) Context() context.Context {
	p := c.observation.protocol
	parent := p.ctx
	if a := c.Conn().attachment(); a != nil && a.ctx != nil {
		parent = a.ctx
	}
	ctx := c.turn.Context(parent)
	if p.within <= 0 {
		return ctx
	}
	limited, cancel := context.WithTimeout(ctx, p.within)
	context.AfterFunc(ctx, cancel)
	return limited
}

// Later defers the reply. The handler's return value is then ignored (but returning an
// error still answers at once and cancels the Reply), and the Reply may be sent from any
// goroutine at any time. Replies may complete out of order.
func (c Call) Later() (r Reply) {
	c.check()
	if c.turn.Promised() > 0 {
		panic("framed: Call.Later called twice for one request")
	}
	r.reply, r.id, r.observation, r.serial = c.turn.Later(), c.id, c.observation, c.observation.serial.Load()
	if c.message.command == wire.Conn {
		r.serial |= answersConn
	}
	return r
}

func (c Call) check() {
	if c.turn == nil || c.turn.Serial() != c.message.serial {
		panic("framed: Call used after its handler returned; keep the Conn, Reply or Context that it returns instead")
	}
}

// Reply is a handle to send the reply to one request, once: a small value that may be
// kept and used from any goroutine.
//
// It has 48 bytes: Go copies those in three separate stores, so that copying it again at
// once does not stall on store forwarding, as overlapping stores would.
type Reply struct {
	reply       engine.Reply
	id          uint64
	observation *observation
	serial      uint64 // of the observation, and answersConn or 0
}

// answersConn marks a reply to a Conn packet.
const answersConn = 1 << 63

// request returns the command that the reply answers.
func (r *Reply) request() wire.Command {
	if r.serial&answersConn != 0 {
		return wire.Conn
	}
	return wire.Submit
}

// observed reports whether OnRequest is set.
func (r *Reply) observed() bool {
	return r.observation != nil && r.observation.protocol.onRequest != nil
}

// Send sends the reply and copies content. It returns ErrClosed when the connection has
// ended, and engine.ErrSettled when the request was answered before.
func (r Reply) Send(content []byte) error { return r.send(wire.OK, content, nil) }

// Fail answers the request with the Result that err is or wraps, or else wire.Failed, and
// with the content of a Refusal.
func (r Reply) Fail(err error) error { return r.send(resultOf(err), contentOf(err), err) }

// Conn returns the reply's connection.
func (r Reply) Conn() Conn { return Conn{r.reply.Conn()} }

// send has a pointer receiver because copying the Reply would dominate its cost.
func (r *Reply) send(result wire.Result, content []byte, why error) error {
	var p wire.Packet // set field by field: a composite literal would be built and copied
	p.Command, p.Result, p.ID, p.Content = wire.SubmitAck, result, r.id, content
	if r.serial&answersConn != 0 {
		p.Command = wire.ConnAck
	}
	var room [32]byte
	head, content := wire.Split(room[:0], &p)
	err := r.reply.Send(head, content)
	if r.request() == wire.Conn && result == wire.OK && err == nil {
		r.reply.Conn().Trust()
	}
	if r.observed() {
		r.report(result, why, err)
	}
	return err
}

// Conn is a handle to a client's connection: a small comparable value, safe to keep, to
// use as a map key and to call from any goroutine, even after the connection has ended.
type Conn struct{ c engine.Conn }

// Push sends the client a Deliver packet, which answers no request: it copies the content
// and appends it to the output queue. The id is the application's, and may be 0. A client
// that does not read is disconnected.
func (c Conn) Push(id uint64, content []byte) error {
	var room [32]byte
	head, content := wire.Split(room[:0], &wire.Packet{Command: wire.Deliver, ID: id, Content: content})
	return c.c.Push(head, content)
}

// Offer is Push for content that may be dropped, such as a state that the next push
// replaces: for a client that reads too slowly, the oldest are dropped (engine.Conn.Offer,
// engine.Stats.Dropped), and it is not disconnected for them.
func (c Conn) Offer(id uint64, content []byte) error {
	var room [32]byte
	head, content := wire.Split(room[:0], &wire.Packet{Command: wire.Deliver, ID: id, Content: content})
	return c.c.Offer(head, content)
}

// Close starts to close the connection and returns at once: the server stops reading and
// flushes the queued output.
func (c Conn) Close() { c.c.Close(engine.ClosedHere) }

// End closes the connection like Close, and tells the client why: the error's result and content, as
// if a handler had returned it, go out under id 0 after everything sent before. It returns ErrClosed
// if the connection is ending already.
func (c Conn) End(why error) error {
	return c.c.End(engine.ClosedHere, wire.Append(nil, wire.Packet{Command: wire.ConnAck, Result: resultOf(why), Content: contentOf(why)}))
}

// Trust marks the client as authenticated: it stops the timeout of Limits.AuthTime. An accepted Conn does so, too; call
// Trust for one whose answer takes longer than the check of its credentials.
func (c Conn) Trust() { c.c.Trust() }

// Unsent returns how many bytes of replies and pushes wait for the kernel to accept them,
// because the client reads too slowly, see engine.Conn.Unsent.
func (c Conn) Unsent() int { return c.c.Unsent() }

// RemoteAddr returns the client's address, from the PROXY header when a trusted proxy
// sent one. It returns the zero AddrPort for unix sockets and after the connection has
// ended.
func (c Conn) RemoteAddr() netip.AddrPort { return c.c.RemoteAddr() }

// LocalAddr returns the address to which the client, or its proxy, connected. It returns
// the zero AddrPort for unix sockets and after the connection has ended. It costs a
// system call.
func (c Conn) LocalAddr() netip.AddrPort { return c.c.LocalAddr() }

// TLS returns the state of the TLS handshake, with the client's certificates: nil without
// TLS, and after the connection has ended. It is available from ConnContext on; every
// call allocates a new copy.
func (c Conn) TLS() *tls.ConnectionState { return c.c.TLS() }

// Credentials returns the process, user and group at the other end of a unix socket, as
// engine.Conn.Credentials does: -1 means unknown.
func (c Conn) Credentials() (pid, uid, gid int, known bool) { return c.c.Credentials() }

// Value returns what SetValue stored last, or nil.
func (c Conn) Value() any {
	if a := c.attachment(); a != nil {
		return a.value
	}
	return nil
}

// SetValue attaches v to the connection until it ends. A connection with neither a value
// nor a context of its own uses no memory for them.
func (c Conn) SetValue(v any) {
	next := &attachment{value: v}
	if a := c.attachment(); a != nil {
		next.ctx = a.ctx
	}
	c.c.SetValue(next)
}

// attachment is a connection's value and context; immutable once stored.
type attachment struct {
	ctx   context.Context
	value any
}

func (c Conn) attachment() *attachment {
	a, _ := c.c.Value().(*attachment)
	return a
}
