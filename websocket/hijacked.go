package websocket

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// A connection whose request net/http has read is hijacked and passed to an engine.Server of
// the Upgrader's own, with a goroutine per connection. The first bytes that the engine reads
// from it are a token, by which entrance finds the waiting request.

// hijacked serves the connections taken over from net/http.
type hijacked struct {
	server engine.Server
	queue  chan net.Conn
	closed chan struct{}
	served sync.WaitGroup

	mu      sync.Mutex
	started bool
	over    bool
	guests  map[uint64]*guest // not yet at their first visit
	last    uint64            // the last token that was issued
}

// tokenSize is the length of a token.
const tokenSize = 8

// guest is a connection on its way from net/http to the engine. It is also the net.Conn that
// the engine serves from then on.
type guest struct {
	net.Conn
	token   uint64
	unread  []byte // the token, and what net/http has read too far
	request *upgrade
	came    chan struct{} // closed when the request is answered or will never be
	once    sync.Once
}

// secureGuest is a guest with TLS.
type secureGuest struct {
	*guest
	tls interface{ ConnectionState() tls.ConnectionState }
}

func (g secureGuest) ConnectionState() tls.ConnectionState { return g.tls.ConnectionState() }

// Read returns the bytes that have already been read, and then reads from the socket.
func (g *guest) Read(p []byte) (int, error) {
	if len(g.unread) > 0 {
		n := copy(p, g.unread)
		if g.unread = g.unread[n:]; len(g.unread) == 0 {
			g.unread = nil
		}
		return n, nil
	}
	return g.Conn.Read(p)
}

// Close answers the request if the engine has refused the connection.
func (g *guest) Close() error {
	g.once.Do(func() {
		g.SetDeadline(time.Now().Add(time.Second))
		g.Write(appendRefusal(nil, &Refusal{Status: http.StatusServiceUnavailable}))
		close(g.came)
	})
	return g.Conn.Close()
}

// NetConn lets the engine find the socket.
func (g *guest) NetConn() net.Conn { return g.Conn }

// CloseWrite half-closes the connection if it can.
func (g *guest) CloseWrite() error {
	if half, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger sets the socket's linger time if it can.
func (g *guest) SetLinger(seconds int) error {
	if socket, ok := g.Conn.(interface{ SetLinger(int) error }); ok {
		return socket.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// hijack takes w's connection from net/http and lets the engine answer the request.
func (u *Upgrader) hijack(w http.ResponseWriter, up *upgrade) {
	h := &u.hijacked
	if !h.start(u) {
		refusal{http.StatusServiceUnavailable, "the server is shutting down"}.write(w)
		return
	}
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refusal{http.StatusInternalServerError, "this server gives no connections away"}.write(w)
		return
	}
	unread, _ := rw.Reader.Peek(rw.Reader.Buffered())
	g := &guest{Conn: nc, request: up, came: make(chan struct{})}
	h.expect(g)
	g.unread = append(binary.BigEndian.AppendUint64(nil, g.token), unread...)
	select {
	case h.queue <- g.shown():
	case <-h.closed:
		g.Close()
	}
	<-g.came // the request must not be used after ServeHTTP has returned
	h.take(g.token)
}

// shown is g, as a secureGuest if it has TLS.
func (g *guest) shown() net.Conn {
	if secure, ok := g.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return secureGuest{g, secure}
	}
	return g
}

// expect issues a token to g.
func (h *hijacked) expect(g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	g.token = h.last
	h.guests[g.token] = g
}

// take returns the guest with this token.
func (h *hijacked) take(token uint64) *guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[token]
	delete(h.guests, token)
	return g
}

// start starts the engine's server. It returns false after Shutdown.
func (h *hijacked) start(u *Upgrader) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.over {
		return !h.over
	}
	h.started = true
	h.guests = map[uint64]*guest{}
	h.queue, h.closed = make(chan net.Conn), make(chan struct{})
	h.server.Protocol, h.server.Engine = &entrance{h}, engine.Buffered(0)
	h.server.Limits, h.server.Logger = u.Limits, u.Logger
	h.served.Go(func() { h.server.Serve(&arrivals{hijacked: h}) })
	return true
}

// shutdown ends the connections and waits for them.
func (h *hijacked) shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.over = true
	started := h.started
	h.mu.Unlock()
	if !started {
		return nil
	}
	err := h.server.Shutdown(ctx)
	h.served.Wait()
	return err
}

// arrivals is hijacked as a net.Listener.
type arrivals struct {
	*hijacked
	once sync.Once
}

func (a *arrivals) Accept() (net.Conn, error) {
	select {
	case nc := <-a.queue:
		return nc, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a *arrivals) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}

// Addr is a placeholder: each connection has its own local address.
func (a *arrivals) Addr() net.Addr { return &net.TCPAddr{} }

// entrance is the protocol of a hijacked connection until its request is answered.
type entrance struct{ *hijacked }

// Advance answers the request whose token is at the front of in.
func (e *entrance) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if len(in) < tokenSize {
		return 0, tokenSize - len(in), nil
	}
	if !t.Room() {
		return 0, 0, nil
	}
	g := e.take(binary.BigEndian.Uint64(in))
	if g == nil {
		return 0, 0, engine.Malformed
	}
	defer g.once.Do(func() { close(g.came) })
	t.Mark(0)
	if err := t.Become(g.request.protocol()); err != nil {
		return 0, 0, err
	}
	g.request.answer(t)
	g.request = nil
	return tokenSize, 0, nil
}

// Refuse answers the request of a connection that the engine refuses.
func (e *entrance) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	status := http.StatusServiceUnavailable
	if why == engine.Panicked {
		status = http.StatusInternalServerError
	}
	return appendRefusal(dst, &Refusal{Status: status})
}
