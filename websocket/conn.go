package websocket

import (
	"crypto/tls"
	"net/netip"

	"github.com/hone-go/hone/engine"
)

// ErrClosed is what a Conn, Reply or Client returns when its connection has ended.
var ErrClosed = engine.ErrClosed

// Conn is a client's connection, as a small comparable value. It may be kept, used as a map
// key and called from any goroutine, even after the connection has ended. What is sent is
// copied and queued after everything that already waits for the client. A client that does
// not read is disconnected (engine.Limits.HardCap).
type Conn struct {
	conn     engine.Conn
	protocol *protocol
}

// Text sends the concatenated parts as one text message. Together they must be valid UTF-8:
// a client closes the connection if they are not.
func (c Conn) Text(parts ...[]byte) error { return c.push(Text, parts) }

// Binary sends the concatenated parts as one binary message.
func (c Conn) Binary(parts ...[]byte) error { return c.push(Binary, parts) }

// Send sends a prepared message.
func (c Conn) Send(p Prepared) error {
	if p.offered {
		return c.conn.Offer(p.frame(c.protocol.sendWindow()))
	}
	return c.conn.Push(p.frame(c.protocol.sendWindow()))
}

// Ping sends a ping. Upgrader.Pong gets the time until its answer arrives. Nothing is kept for a
// ping: it carries its time, and a checksum by which made-up answers are ignored.
func (c Conn) Ping() error {
	if c.protocol == nil {
		return ErrClosed
	}
	var b [2 + pingSize]byte
	return c.conn.Push(appendFrame(b[:0], byte(opPing)|finBit, c.protocol.upgrader.pings.next()))
}

// Close sends a Close frame with code and why, after everything sent before, and ends the
// connection. It does not wait. why is truncated to the 123 bytes that fit. A code that must
// not be sent, such as AbnormalClosure, is sent as no code at all. If the connection is
// already ending, Close returns ErrClosed.
func (c Conn) Close(code Code, why string) error {
	if c.protocol == nil {
		return ErrClosed
	}
	u := c.protocol.upgrader
	noted := u.noteCode(c.conn, 0, code)
	err := c.conn.End(engine.ClosedHere, appendClose(nil, code, why))
	if err != nil && noted {
		u.noteCode(c.conn, code, 0) // another close was faster: take the code back
	}
	return err
}

// Trust reports that the client has authenticated, see Upgrader.AuthLater.
func (c Conn) Trust() { c.conn.Trust() }

// Unsent returns how many bytes wait for the kernel to accept them, because the client reads
// too slowly: a program can skip messages for such a client before its output limit closes it.
func (c Conn) Unsent() int { return c.conn.Unsent() }

// RemoteAddr returns the client's address, as a trusted proxy reported it if there is one.
// It is the zero AddrPort for unix sockets and after the connection has ended.
func (c Conn) RemoteAddr() netip.AddrPort { return c.conn.RemoteAddr() }

// LocalAddr returns the address that the client, or its proxy, connected to. It is the zero
// AddrPort for unix sockets and after the connection has ended. It costs a system call.
func (c Conn) LocalAddr() netip.AddrPort { return c.conn.LocalAddr() }

// TLS returns what the handshake negotiated, with the client's certificates. It is nil without
// TLS and after the connection has ended. Every call builds it anew.
func (c Conn) TLS() *tls.ConnectionState { return c.conn.TLS() }

// Value returns what SetValue stored last, or nil. It is still available in Upgrader.Closed.
func (c Conn) Value() any {
	if a, ok := c.conn.Value().(*attachment); ok {
		return a.value
	}
	return nil
}

// SetValue stores v with the connection until it ends. A connection without a value costs
// nothing extra; on an event loop, one with a value costs about 600 bytes more.
func (c Conn) SetValue(v any) {
	if c.protocol != nil {
		c.protocol.upgrader.attach(c.conn, func(a *attachment) { a.value = v })
	}
}

// attachment is what is stored with a connection. It is immutable once stored.
type attachment struct {
	value any
	code  Code // the code that this side closed it with; 0: it did not
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

// noteCode records the code that this side closed the connection with, for Upgrader.Closed,
// unless a code is already recorded.
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
