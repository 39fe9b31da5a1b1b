// Package secure is the TLS layer between a socket and a protocol, for connections without a
// goroutine: crypto/tls on a wire in memory.
package secure

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// Conn is the TLS layer of a connection. The connection's owner calls Handshake, Feed and
// Open. Whoever holds the connection's mutex calls Send, Goodbye and the methods that describe the
// output. Both may happen at once: crypto/tls allows one reader beside one writer, and both append
// to one buffer, because the order of records on the wire must be the order of their encryption.
type Conn struct {
	config *tls.Config // until the handshake
	tls    *tls.Conn
	memory *pool.Buffers
	wire   wire

	read    func(p []byte) (int, error) // during the handshake, or a loan
	fed     []byte                      // ciphertext that crypto/tls has not taken yet
	records records                     // of what it has taken, and not opened
	ended   bool                        // the peer's last byte was fed
	lent    bool                        // user code has the connection
	cut     error                       // of a write during the loan: a record may be incomplete

	sealed int    // bytes of plaintext that were sealed, and are not written in full
	wrote  uint32 // bytes of ciphertext written, modulo 2^32

	mu   sync.Mutex
	out  pool.Buffer // ciphertext
	sent int         // of out
}

// Server returns the layer of a new connection. It allocates nothing of crypto/tls's before the
// handshake.
func Server(config *tls.Config, memory *pool.Buffers) *Conn {
	c := &Conn{config: config, memory: memory}
	c.wire.layer = c
	return c
}

// Handshake runs the handshake. read may wait, but first it has everything written that Memory reports.
// User code sees the addresses in a tls.ClientHelloInfo. Nothing else may be called meanwhile except
// Send without plaintext, and what describes the output.
func (c *Conn) Handshake(ctx context.Context, read func(p []byte) (int, error), addresses net.Conn) error {
	c.wire.Conn, c.read, c.tls = addresses, read, tls.Server(&c.wire, c.config)
	err := c.tls.HandshakeContext(ctx)
	if err == nil {
		c.wire.Conn, c.read, c.config = nil, nil, nil
	}
	return err
}

// NetConn returns the connection as user code sees it, once the handshake is complete. Only a lent
// one may be read and written.
func (c *Conn) NetConn() *tls.Conn { return c.tls }

// Lend gives user code the connection on its socket. Nothing may be unsent.
func (c *Conn) Lend(socket net.Conn) net.Conn {
	c.wire.Conn, c.read, c.lent = socket, socket.Read, true
	return c.tls
}

// Return ends the loan. What crypto/tls has read too far can be opened.
func (c *Conn) Return() { c.wire.Conn, c.read, c.lent = nil, nil, false }

// mostHello bounds what is collected of a ClientHello. Those of clients have up to 2 KB.
const mostHello = 16 << 10

// mostMessage is the size of a handshake's message above which crypto/tls refuses it.
const mostMessage = 64 << 10

// HelloLacks returns how many bytes must at least follow p, the first that a client has sent, until
// its ClientHello is whole: 0 too if it is larger than mostHello, says that it is too large, or is something else.
func HelloLacks(p []byte) int {
	var head [4]byte // of the message: its type, and its size
	for got, left := 0, mostHello-len(p); left > 0 && (len(p) == 0 || p[0] == 22); {
		if len(p) < 5 {
			return 5 - len(p)
		}
		n := int(binary.BigEndian.Uint16(p[3:]))
		part := p[5:min(5+n, len(p))]
		copy(head[min(got, 4):], part)
		got += len(part)
		size := int(binary.BigEndian.Uint32(head[:]) & 0xffffff)
		switch {
		case n == 0 || got >= 4 && (got-4 >= size || size > mostMessage && len(part) == n):
			return 0
		case len(part) < n:
			return min(left, n-len(part))
		}
		p = p[5+n:]
	}
	return 0
}

// Feed passes on ciphertext, or the end of the stream. It must be opened before p is used again.
func (c *Conn) Feed(p []byte, ended bool) { c.fed, c.ended = p, ended }

// Open decrypts to p, at most a record. It returns sys.ErrAgain when more ciphertext is needed, and
// sys.ErrClosed at the end, both maybe together with the last bytes. The end is a close_notify or a FIN; after
// a close_notify, no FIN may follow.
func (c *Conn) Open(p []byte) (n int, err error) {
	n, err = c.tls.Read(p)
	switch err {
	case nil:
		if n < len(p) { // then it was the last of a record
			c.records.whole--
		}
		if c.records.whole > 0 || len(c.fed) > 0 || n == len(p) {
			return n, nil
		}
		fallthrough // without the read that would only say so
	case error(dry{}):
		err, c.records.whole = sys.ErrAgain, 0
	case io.EOF:
		err = sys.ErrClosed
	}
	return n, err
}

// piece is how much plaintext is sealed at a time: with its overhead it fits a buffer of 32 KiB. A
// peer that does not read costs half of it, beside the rest in plaintext.
const piece = 28 << 10

// Send writes as much as the socket accepts, and seals p as it goes. It returns how many bytes of p
// it has sealed, and how many, with those sealed before, are written in full. With sys.ErrAgain the
// socket is full: then the last of them may still have to be written. With nothing in p it writes what
// is left of that.
func (c *Conn) Send(poll *sys.Poll, socket sys.Socket, p []byte) (n, written int, err error) {
	for {
		if err = c.flush(poll, socket); err != nil {
			return n, written, err
		}
		written += c.sealed
		if c.sealed = 0; n == len(p) {
			return n, written, nil
		}
		next := p[n:min(len(p), n+piece)]
		c.mu.Lock()
		c.reserve(len(next) + len(next)/16 + 128)
		c.mu.Unlock()
		if _, err = c.tls.Write(next); err != nil {
			return n, written, err
		}
		n += len(next)
		c.sealed = len(next)
	}
}

// flush writes the ciphertext.
func (c *Conn) flush(poll *sys.Poll, socket sys.Socket) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.out.Lent() {
		return nil
	}
	n, err := poll.Write(socket, c.out.Bytes()[c.sent:])
	c.sent += n
	c.wrote += uint32(n)
	if err != nil {
		c.shrink()
		return err
	}
	c.out.Release()
	c.out, c.sent = pool.Buffer{}, 0
	return nil
}

// shrink moves the rest of the ciphertext to a buffer of its size. c.mu held.
func (c *Conn) shrink() {
	all := c.out.Bytes()
	if rest := all[c.sent:]; len(rest) <= cap(all)*3/4 {
		b := c.memory.Get(max(1, len(rest)))
		b.SetLen(copy(b.Bytes(), rest))
		c.out.Release()
		c.out, c.sent = b, 0
	}
}

// reserve makes room for n bytes of ciphertext, unless some waits already. c.mu held.
func (c *Conn) reserve(n int) {
	if !c.out.Lent() {
		c.out = c.memory.Get(n)
		c.out.SetLen(0)
	}
}

// Sealed returns how many of the bytes that Send has sealed are not written in full.
func (c *Conn) Sealed() int { return c.sealed }

// Wrote returns how many bytes of ciphertext were written, modulo 2^32.
func (c *Conn) Wrote() uint32 { return c.wrote }

// Memory returns the capacity of what waits to be written: after Open, also what crypto/tls has answered
// by itself, such as a key update or an alert.
func (c *Conn) Memory() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.out.Lent() {
		return 0
	}
	return int64(cap(c.out.Bytes()))
}

// Goodbye seals a close_notify, once; nothing can be sealed after it.
func (c *Conn) Goodbye() {
	c.wire.Conn = transport.AddressesOnly(nil, nil) // crypto/tls sets a deadline
	c.tls.CloseWrite()
}

// Drop drops what waits to be written.
func (c *Conn) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.Lent() {
		c.out.Release()
	}
	c.out, c.sent, c.sealed = pool.Buffer{}, 0, 0
}

// dry is what crypto/tls reads when nothing is left. It is temporary: crypto/tls keeps no such
// error, and goes on in the middle of a record.
type dry struct{}

func (dry) Error() string   { return "secure: more ciphertext is needed" }
func (dry) Timeout() bool   { return true }
func (dry) Temporary() bool { return true }

// wire is a layer as crypto/tls sees it: a net.Conn that never blocks, except in a handshake and
// during a loan. Without either it has no other methods than Read and Write.
type wire struct {
	layer    *Conn
	net.Conn // the lent socket, or in a handshake the addresses
}

func (w *wire) Read(p []byte) (n int, err error) {
	c := w.layer
	switch {
	case len(c.fed) > 0:
		n = copy(p, c.fed)
		c.fed = c.fed[n:]
	case c.read != nil:
		n, err = c.read(p)
	case c.ended:
		return 0, io.EOF
	default:
		return 0, dry{}
	}
	c.records.count(p[:n])
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	c := w.layer
	if c.lent {
		if c.cut != nil { // crypto/tls would wait 5 s for the write of its close_notify
			return 0, c.cut
		}
		n, err := w.Conn.Write(p)
		c.cut = err
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserve(len(p))
	return c.out.Write(p)
}

// NetConn returns the socket of a lent connection.
func (w *wire) NetConn() net.Conn { return w.Conn }

// records counts the whole records in a stream.
type records struct {
	whole  int32
	lacks  int32  // bytes of the last one
	header uint8  // bytes of its header
	length uint16 // the last two of them
}

func (r *records) count(p []byte) {
	for len(p) > 0 {
		if r.header < 5 {
			r.length = r.length<<8 | uint16(p[0])
			p = p[1:]
			if r.header++; r.header == 5 {
				r.lacks = int32(r.length)
			}
		}
		if r.header == 5 {
			n := min(len(p), int(r.lacks))
			p = p[n:]
			if r.lacks -= int32(n); r.lacks == 0 {
				r.whole++
				r.header = 0
			}
		}
	}
}
