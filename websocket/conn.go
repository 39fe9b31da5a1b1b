package websocket

import (
	"crypto/tls"
	"net/netip"

	"github.com/hone-go/hone/engine"
)

// ErrClosed is the answer of a Conn, Reply or Client whose connection has ended.
var ErrClosed = engine.ErrClosed

// Conn is a client's connection as a small comparable value: safe to keep, to use as a
// map key and to call from any goroutine, after its end too. What is sent is queued behind
// what already waits for the client, and copied. A client that does not read is
// disconnected (engine.Limits.HardCap).
type Conn struct {
	conn     engine.Conn
	protocol *protocol
}

// Text sends parts, one after the other, as one text message. They must be valid UTF-8
// together: a client that is sent anything else ends the connection.
func (c Conn) Text(parts ...[]byte) error { return c.push(Text, parts) }

// Binary sends parts, one after the other, as one binary message.
func (c Conn) Binary(parts ...[]byte) error { return c.push(Binary, parts) }

// Send sends a message that was prepared once for many connections.
func (c Conn) Send(p Prepared) error { return c.conn.Push(p.frame(c.protocol.sendWindow())) }

// Close sends a Close frame with code and why, behind all that was sent before, and ends
// the connection. It does not wait. why is cut to the 123 bytes that fit. A code that
// must not be sent, such as AbnormalClosure, is sent as no code at all. When the
// connection is ending already, Close returns ErrClosed.
func (c Conn) Close(code Code, why string) error {
	if c.protocol == nil {
		return ErrClosed
	}
	u := c.protocol.upgrader
	noted := u.noteCode(c.conn, 0, code)
	err := c.conn.End(engine.ClosedHere, appendClose(nil, code, why))
	if err != nil && noted {
		u.noteCode(c.conn, code, 0) // it ends with another one
	}
	return err
}

// Trust says that the client has proved who it is, see Upgrader.AuthLater.
func (c Conn) Trust() { c.conn.Trust() }

// RemoteAddr is the client's address, as a trusted proxy told it where there is one; the
// zero AddrPort for unix sockets and when the connection has ended.
func (c Conn) RemoteAddr() netip.AddrPort { return c.conn.RemoteAddr() }

// LocalAddr is the address that the client has connected to, or its proxy; the zero
// AddrPort for unix sockets and when the connection has ended. It takes a system call.
func (c Conn) LocalAddr() netip.AddrPort { return c.conn.LocalAddr() }

// TLS is what the handshake has agreed on, with the client's certificates: nil without
// TLS, and when the connection has ended. It is made anew by every call.
func (c Conn) TLS() *tls.ConnectionState { return c.conn.TLS() }

// Value is what SetValue stored last, or nil. It is still there in Upgrader.Closed.
func (c Conn) Value() any {
	if a, ok := c.conn.Value().(*attachment); ok {
		return a.value
	}
	return nil
}

// SetValue keeps v with the connection until it ends. A connection without a value pays
// nothing for it; one with a value keeps about 700 bytes more on an event loop.
func (c Conn) SetValue(v any) {
	if c.protocol != nil {
		c.protocol.upgrader.attach(c.conn, func(a *attachment) { a.value = v })
	}
}

// attachment is what a connection keeps besides its bytes; never changed once it is stored.
type attachment struct {
	value any
	code  Code // what it was closed with from here; 0: it was not
}

// attach changes a connection's attachment.
func (u *Upgrader) attach(c engine.Conn, change func(a *attachment)) {
	u.attaching.Lock()
	defer u.attaching.Unlock()
	next := &attachment{}
	if a, ok := c.Value().(*attachment); ok {
		*next = *a
	}
	change(next)
	c.SetValue(next)
}

// noteCode has Upgrader.Closed told with which code the connection was closed from here,
// unless that is known already.
func (u *Upgrader) noteCode(c engine.Conn, known, code Code) (noted bool) {
	if u.Closed != nil {
		u.attach(c, func(a *attachment) {
			if noted = a.code == known; noted {
				a.code = code
			}
		})
	}
	return noted
}
