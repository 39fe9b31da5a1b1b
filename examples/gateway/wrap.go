package main

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// Middleware is a function from Handler to Handler.

// authenticated passes on only the requests of clients that have logged in.
func authenticated(next framed.Handler) framed.Handler {
	return framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		if c.Conn().Value() == nil {
			return dst, wire.Unauthorised
		}
		return next.Handle(c, dst, req)
	})
}

// recovered logs a panic and answers wire.Failed; the connection stays open. Without it, a
// panic answers wire.Internal and closes the connection. Use it only if a handler that stops
// half-way leaves the state consistent: unlock with defer.
func (g *gateway) recovered(next framed.Handler) framed.Handler {
	return framed.HandlerFunc(func(c framed.Call, dst, req []byte) (reply []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				g.log.Error("panic in a handler", "remote", c.Conn().RemoteAddr(), "panic", v, "stack", string(debug.Stack()))
				reply, err = dst, wire.Failed
			}
		}()
		return next.Handle(c, dst, req)
	})
}

// timing counts calls of handlers and their total time. If you need percentiles, use a
// histogram instead.
type timing struct {
	calls, failed atomic.Uint64
	total         atomic.Int64 // nanoseconds
}

// around times and counts the calls of next.
func (t *timing) around(next framed.Handler) framed.Handler {
	return framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		start := time.Now()
		reply, err := next.Handle(c, dst, req)
		t.calls.Add(1)
		t.total.Add(int64(time.Since(start)))
		if err != nil {
			t.failed.Add(1)
		}
		return reply, err
	})
}
