package framed_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// deliver encodes a push as a frame.
func deliver(id uint64, content string) []byte { return frame(wire.Deliver, id, 0, content) }

// introducing is a handler that hands the connection of every request "hello" to the test
// and echoes the others.
func introducing() (framed.HandlerFunc, chan framed.Conn) {
	met := make(chan framed.Conn, 1)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		if string(req) == "hello" {
			met <- c.Conn()
		}
		return append(dst, req...), nil
	}, met
}

// meet opens a connection and returns it with its Conn on the server's side.
func meet(t *testing.T, addr string, met <-chan framed.Conn) (*peer, framed.Conn) {
	t.Helper()
	p := dial(t, addr)
	p.send(submit(1, "hello"))
	c := heard(t, met, "a handler")
	p.want(ack(1, "hello"))
	return p, c
}

func TestPushReachesAnIdleConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, met := introducing()
		s := &framed.Server{Engine: e, Handler: h}
		p, c := meet(t, serve(t, s), met)
		for id := range uint64(20) {
			content := string(make([]byte, id*1000))
			if err := c.Push(id, []byte(content)); err != nil {
				t.Fatal(err)
			}
			p.want(deliver(id, content))
		}
		if st := s.Stats(); st.Pushes != 20 {
			t.Errorf("counted %d pushes, want 20", st.Pushes)
		}
	})
}

// Of what is offered to a peer that does not read, the oldest are dropped and counted; what is pushed stays,
// and all of it keeps its order.
func TestOffersToAPeerThatReadsLaterAreDropped(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const offers = 200
		h, met := introducing()
		s := &framed.Server{Engine: e, Handler: h}
		p, c := meet(t, serve(t, s), met)
		content, full := make([]byte, 1<<10), make([]byte, 32<<10)
		pushed := uint64(0)
		push := func(content []byte) {
			if err := c.Push(pushed, content); err != nil {
				t.Fatal(err)
			}
			pushed++
		}
		for c.Unsent() < 64<<10 {
			push(full)
		}
		for id := range uint64(offers) {
			if err := c.Offer(1<<32|id, content); err != nil {
				t.Fatal(err)
			}
			if id == offers/2 {
				push(full)
			}
		}
		push(nil)
		got, last := uint64(0), uint64(0)
		for next := uint64(0); next < pushed; {
			packet := p.packet()
			switch id := packet.ID & (1<<32 - 1); {
			case packet.ID == next:
				next++
			case packet.ID < 1<<32 || got > 0 && id <= last:
				t.Fatalf("%x after push %d and offer %d", packet.ID, next-1, last)
			default:
				got, last = got+1, id
			}
		}
		st := s.Stats()
		if last != offers-1 || got == offers || st.Dropped != offers-got || st.Pushes != pushed+offers {
			t.Errorf("%d offers arrive, the last %d; %d are counted as dropped, %d as pushes", got, last, st.Dropped, st.Pushes)
		}
		c.Close()
		eventually(t, "the connection ends", func() bool { return s.Stats().Open == 0 })
		if err := c.Offer(1, nil); err != framed.ErrClosed {
			t.Errorf("an offer after the end: %v", err)
		}
	})
}

type contextKey struct{}

// TestContextAndValueBelongToTheConnection: ConnContext is called once for each, before
// its first request.
func TestContextAndValueBelongToTheConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var opened atomic.Int64
		kept := make(chan any, 1)
		s := &framed.Server{
			Engine: e,
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				return context.WithValue(ctx, contextKey{}, fmt.Sprint("context ", opened.Add(1), " of ", c.RemoteAddr()))
			},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if c.Conn().Value() == nil {
					c.Conn().SetValue(new(atomic.Int64))
				}
				n := c.Conn().Value().(*atomic.Int64).Add(1)
				return fmt.Appendf(dst, "%v: %d", c.Context().Value(contextKey{}), n), nil
			}),
			OnClose: func(c framed.Conn, _ engine.Reason) { kept <- c.Value() },
		}
		addr := serve(t, s)
		for conn := 1; conn <= 3; conn++ {
			p := dial(t, addr)
			for n := 1; n <= 3; n++ {
				p.send(submit(1, ""))
				p.want(ack(1, fmt.Sprintf("context %d of %v: %d", conn, p.LocalAddr(), n)))
			}
			p.Close()
			if n, ok := heard(t, kept, "OnClose").(*atomic.Int64); !ok || n.Load() != 3 {
				t.Errorf("OnClose got the value %v, want the handler's counter at 3", n)
			}
		}
	})
}

func TestValueSetInConnContextIsKept(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{
			Engine: e,
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				c.SetValue("a session")
				return context.WithValue(ctx, contextKey{}, "a context")
			},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				return fmt.Appendf(dst, "%v, %v", c.Conn().Value(), c.Context().Value(contextKey{})), nil
			}),
		}
		p := dial(t, serve(t, s))
		p.send(submit(1, ""))
		if got := string(p.packet().Content); got != "a session, a context" {
			t.Errorf("the handler got %q, want a session, a context", got)
		}
	})
}

// TestContextOutlivesTheRequest: and the drain, but not the server.
func TestContextOutlivesTheRequest(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		contexts := make(chan context.Context, 1)
		replies := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			contexts <- c.Context()
			replies <- c.Later()
			return nil, nil
		})}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, ""))
		ctx := heard(t, contexts, "a handler")
		shut := make(chan error, 1)
		go func() { shut <- s.Shutdown(context.Background()) }()
		drainBegins(t, s)
		if ctx.Err() != nil {
			t.Errorf("the context ended when the drain started: %v", ctx.Err())
		}
		heard(t, replies, "a handler").Send(nil)
		p.want(ack(1, ""))
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		if err := heard(t, shut, "Shutdown"); err != nil {
			t.Error(err)
		}
		heard(t, ctx.Done(), "the context's end")
	})
}
