package http1

import (
	"context"
	"net"
	"net/http"
	"time"
)

// requestContext is a request's context: a block under the methods of a context. What ends
// it is made when somebody asks for it, which most handlers never do.
type requestContext block

func (c *requestContext) Deadline() (deadline time.Time, ok bool) {
	return c.base.Deadline()
}

// Done ends when the peer has left and when the handler has returned.
func (c *requestContext) Done() <-chan struct{} { return c.watch().Done() }

func (c *requestContext) Err() error { return c.watch().Err() }

// Value hands what package context looks for to the inner context, so that a context
// derived from this one is told of its end without a goroutine.
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

// String keeps package fmt from reading the block.
func (c *requestContext) String() string { return "http1.requestContext" }

// watch is the inner context, made when there is none.
func (c *requestContext) watch() context.Context {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.inner == nil {
		parent := c.base
		if c.turn != nil {
			parent = c.turn.Context(parent)
		}
		c.inner, c.cancel = context.WithCancel(parent)
		if c.turn == nil { // the handler has returned
			c.cancel()
		}
	}
	return c.inner
}

// end is called when the handler has returned: the Turn is not used any more.
func (c *requestContext) end() {
	c.contextMu.Lock()
	c.turn = nil
	cancel := c.cancel
	c.contextMu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// localAddr is the address that the peer has connected to.
func (c *requestContext) localAddr() net.Addr {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	if c.local == nil {
		c.local = c.server.localAddr(c.conn)
	}
	return c.local
}

// isServed reports whether the handler has not returned yet.
func (c *requestContext) isServed() bool {
	c.contextMu.Lock()
	defer c.contextMu.Unlock()
	return c.turn != nil
}
