package http1

import (
	"context"
	"net"
	"net/http"
	"time"
)

// requestContext is a request's context: a block under the methods of a context. The inner
// context, which can be cancelled, is created on first use: most handlers never need it.
type requestContext block

func (c *requestContext) Deadline() (deadline time.Time, ok bool) {
	return c.base.Deadline()
}

// Done is closed when the peer has disconnected, and when the handler has returned and a late answer
// has been sent.
func (c *requestContext) Done() <-chan struct{} { return c.watch().Done() }

func (c *requestContext) Err() error { return c.watch().Err() }

// Value passes package context's own lookups to the inner context, so that a derived
// context is cancelled without a goroutine of its own.
func (c *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.localAddr()
	}
	c.contextMu.Lock()
	inner := c.inner
	c.contextMu.Unlock()
	if inner == nil {
		inner = c.base
	}
	return inner.Value(key)
}

// String stops package fmt from printing the block.
func (c *requestContext) String() string { return "http1.requestContext" }

// watch returns the inner context and creates it on first use.
func (c *requestContext) watch() context.Context {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.inner == nil {
		parent := c.base
		switch {
		case c.turn != nil:
			parent = c.turn.Context(parent)
		case c.late != nil:
			parent = c.late.reply.Context(parent)
		}
		c.inner, c.cancel = context.WithCancel(parent)
		if c.turn == nil && c.late == nil { // the handler has returned
			c.cancel()
		}
	}
	return c.inner
}

// end cancels the context when the handler has returned. From then on the Turn must not be
// used.
func (c *requestContext) end() {
	c.contextMu.Lock()
	c.turn = nil
	cancel, later := c.cancel, c.late != nil // the engine ends the parent of inner with the late answer
	c.contextMu.Unlock()
	if cancel != nil && !later {
		cancel()
	}
}

// localAddr is the address that the peer connected to.
func (c *requestContext) localAddr() net.Addr {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.local == nil {
		c.local = c.server.localAddr(c.conn)
	}
	return c.local
}

// isServed reports whether the handler is still running.
func (c *requestContext) isServed() bool {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	return c.turn != nil
}
