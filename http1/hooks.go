package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// Std's connection hooks: BaseContext, ConnContext and ConnState. Each is called once per
// event, whichever half serves the connection. A server without hooks stores nothing per
// connection.

// hooks are the functions that the user has set.
type hooks struct {
	state func(net.Conn, http.ConnState)
	conn  func(context.Context, net.Conn) context.Context
	base  func(net.Listener) context.Context

	mu    sync.Mutex
	bases []listening
}

// listening is a listener's address and the context that BaseContext returned for it.
type listening struct {
	addr net.Addr
	ctx  context.Context
}

// any reports whether connections have to store something.
func (h *hooks) any() bool { return h.state != nil || h.conn != nil || h.base != nil }

// listen calls BaseContext for ln.
func (h *hooks) listen(ln net.Listener) {
	if h.base == nil {
		return
	}
	ctx := h.base(ln)
	if ctx == nil {
		panic("http1: BaseContext returned a nil context")
	}
	h.mu.Lock()
	h.bases = append(h.bases, listening{ln.Addr(), ctx})
	h.mu.Unlock()
}

// baseOf finds the context of the listener that accepted a connection to local. It goes by
// address because the engine does not report the listener.
func (h *hooks) baseOf(local netip.AddrPort) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	best, at := 0, context.Background()
	for _, b := range h.bases {
		fits := 1
		if a, ok := b.addr.(*net.TCPAddr); ok && local.IsValid() {
			switch of := a.AddrPort(); {
			case of.Port() != local.Port():
				fits = 0
			case of.Addr().Unmap() == local.Addr().Unmap():
				fits = 3
			case of.Addr().IsUnspecified():
				fits = 2
			default:
				fits = 0
			}
		} else if ok == local.IsValid() { // a unix socket
			fits = 2
		}
		if fits > best {
			best, at = fits, b.ctx
		}
	}
	return at
}

// hooked is what a connection with hooks stores.
type hooked struct {
	ctx   context.Context
	shown *shownConn

	mu    sync.Mutex
	state http.ConnState
}

// opened is the engine's OnOpen.
func (s *Server) opened(c engine.Conn) {
	h := &hooked{ctx: s.context, shown: &shownConn{conn: c, local: s.localAddr(c), remote: addrOf(c.RemoteAddr())}}
	if s.hooks.base != nil {
		h.ctx = context.WithValue(s.hooks.baseOf(c.LocalAddr()), http.ServerContextKey, s.shownServer())
	}
	if s.hooks.conn != nil {
		if h.ctx = s.hooks.conn(h.ctx, h.shown); h.ctx == nil {
			panic("http1: ConnContext returned a nil context")
		}
	}
	c.SetValue(h)
	if s.hooks.state != nil {
		s.hooks.state(h.shown, http.StateNew)
	}
}

// closed is the engine's OnClose.
func (s *Server) closed(c engine.Conn, _ engine.Reason) { s.tellOf(c, http.StateClosed) }

// tell reports a state of t's connection to ConnState.
func (s *Server) tell(t *engine.Turn, state http.ConnState) {
	if s.hooks.state != nil {
		s.tellOf(t.Conn(), state)
	}
}

// tellOf calls ConnState if state differs from the last one reported.
func (s *Server) tellOf(c engine.Conn, state http.ConnState) {
	h, ok := c.Value().(*hooked)
	if s.hooks.state == nil || !ok {
		return
	}
	h.mu.Lock()
	over := h.state == http.StateHijacked || h.state == http.StateClosed
	news := !over && h.state != state
	if news {
		h.state = state
	}
	h.mu.Unlock()
	if news {
		s.hooks.state(h.shown, state)
	}
}

// contextOf is the parent of the contexts of a connection's requests: the result of
// BaseContext and ConnContext, with http.ServerContextKey.
func (s *Server) contextOf(c engine.Conn) context.Context {
	if s.hooks.conn != nil || s.hooks.base != nil {
		if h, ok := c.Value().(*hooked); ok {
			return h.ctx
		}
	}
	return s.context
}

// shownServer is the value of http.ServerContextKey.
func (s *Server) shownServer() *http.Server {
	if s.Std != nil {
		return s.Std
	}
	return &s.std
}

// shownConn is the net.Conn that hooks receive: addresses, and a way to close the connection.
type shownConn struct {
	conn          engine.Conn
	local, remote net.Addr

	mu     sync.Mutex
	loan   *loan // the open loan, or nil
	closed bool
}

var errShown = errors.New("http1: a hook cannot read from, write to or set deadlines on a connection that the server is serving")

func (c *shownConn) Read([]byte) (int, error)         { return 0, errShown }
func (c *shownConn) Write([]byte) (int, error)        { return 0, errShown }
func (c *shownConn) SetDeadline(time.Time) error      { return errShown }
func (c *shownConn) SetReadDeadline(time.Time) error  { return errShown }
func (c *shownConn) SetWriteDeadline(time.Time) error { return errShown }
func (c *shownConn) LocalAddr() net.Addr              { return c.local }
func (c *shownConn) RemoteAddr() net.Addr             { return c.remote }

// Close ends the connection: after the response in progress, or at once if the connection is
// lent to net/http.
func (c *shownConn) Close() error {
	c.mu.Lock()
	c.closed = true
	l := c.loan
	c.mu.Unlock()
	c.conn.Close(engine.ClosedHere)
	if l != nil {
		l.Close()
	}
	return nil
}

// lend makes Close end l as well. A nil l undoes that.
func (c *shownConn) lend(l *loan) {
	c.mu.Lock()
	c.loan = l
	closed := c.closed
	c.mu.Unlock()
	if l != nil && closed {
		l.Close()
	}
}

// localAddr is the address that c's peer connected to. For a unix socket it is the one that
// was listened on last, because the engine does not report which one accepted c.
func (s *Server) localAddr(c engine.Conn) net.Addr {
	a := c.LocalAddr()
	if unix := s.unix.Load(); unix != nil && !a.IsValid() {
		return unix
	}
	return addrOf(a)
}

// addrOf is a as a net.Addr. An invalid a stands for a unix socket.
func addrOf(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return &net.UnixAddr{Name: "@", Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}
