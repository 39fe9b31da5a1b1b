package framed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// A request has Server.RequestTime, counted from the call of Context, and the next one
// gets it again.
func TestRequestTimeIsTheContextsDeadline(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		addr := serve(t, &framed.Server{Engine: e, RequestTime: 20 * time.Millisecond, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			ctx := c.Context()
			if _, ok := ctx.Deadline(); !ok {
				return append(dst, "no deadline"...), nil
			}
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return append(dst, ctx.Err().Error()...), nil
			}
			return append(dst, "late"...), nil
		})})
		p := dial(t, addr)
		for id := range uint64(3) {
			p.send(submit(id, "request"))
			p.want(ack(id, "late"))
		}
	})
}

// Without it there is no deadline.
func TestNoRequestTime(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			if at, ok := c.Context().Deadline(); ok {
				return append(dst, at.String()...), nil
			}
			return append(dst, "none"...), nil
		})})
		p := dial(t, addr)
		p.send(submit(1, "request"))
		p.want(ack(1, "none"))
	})
}
