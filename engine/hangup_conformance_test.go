package engine_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// knowsHangUps reports whether the kernel reports the disconnect of a peer from which
// nobody reads.
func knowsHangUps(g ground) bool { return sys.Polls && !g.isAdapter() }

// The context of a running handler is cancelled when its client disconnects, with FIN or
// RST, however much it has sent before; a reply to a client that has only closed its side
// still arrives.
func TestContextEndsWhenTheClientLeaves(t *testing.T) {
	onEach(t, everywhere(knowsHangUps), func(t *testing.T, g ground) {
		entered := make(chan struct{}, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			ctx := t.Context(context.Background())
			if string(line) == "hold" {
				entered <- struct{}{}
				<-ctx.Done()
			}
			if string(line) == "later" {
				r := t.Later()
				go func() {
					entered <- struct{}{}
					<-ctx.Done()
					r.Send([]byte("late\n"))
				}()
				return nil
			}
			return say(t, "done")
		}})
		for _, line := range []string{"hold", "later"} {
			answer := map[string]string{"hold": "done\n", "later": "late\n"}[line]
			c := s.dial(t)
			c.send("first\n" + line + "\n")
			heard(t, entered, "the handler")
			c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			c.wantEnd("done\n" + answer)
			s.ended(t, engine.PeerClosed)

			c = s.dial(t)
			c.send(line + "\nbehind it")
			heard(t, entered, "the handler")
			c.reset()
			heard(t, s.ends, "OnClose")
		}
	})
}

// Where the kernel does not report disconnects, the end of the input cancels the context:
// on a connection that is read while it owes a late reply.
func TestContextEndsWithWhatTheClientSends(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			ctx, r := t.Context(context.Background()), t.Later()
			go func() {
				<-ctx.Done()
				r.Send([]byte("late\n"))
			}()
			return say(t, "now")
		}})
		c := s.dial(t)
		c.send("later\n")
		c.want("now\n")
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		c.wantEnd("late\n")
		s.ended(t, engine.PeerClosed)
	})
}

// The context is cancelled at the end of the visit, after the last late reply, and at the
// end of the connection, and a new one is made for the next request.
func TestContextEndsWithTheAnswer(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		contexts := make(chan context.Context, 2)
		replies := make(chan engine.Reply, 1)
		type key struct{}
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			ctx := t.Context(context.WithValue(context.Background(), key{}, string(line)))
			if again := t.Context(context.Background()); again != ctx {
				panic("two calls of Context returned different contexts")
			}
			contexts <- ctx
			if string(line) == "later" {
				replies <- t.Later()
				return nil
			}
			return say(t, "now")
		}})
		c := s.dial(t)
		for range 3 {
			c.ask("at once", "now")
			ctx := heard(t, contexts, "the context")
			heard(t, ctx.Done(), "the end of the context")
			if v := ctx.Value(key{}); v != "at once" {
				t.Errorf("the context's value is %v", v)
			}
			c.send("later\n")
			ctx = heard(t, contexts, "the context")
			r := heard(t, replies, "the promise")
			if err := ctx.Err(); err != nil {
				t.Errorf("while a reply is owed the context's error is %v", err)
			}
			r.Send([]byte("late\n"))
			heard(t, ctx.Done(), "the end of the context")
			c.want("late\n")
		}
		c.send("later\n")
		ctx := heard(t, contexts, "the context")
		go s.Close()
		heard(t, ctx.Done(), "the end of the context")
	})
}

// A context that a handler requests after its connection was closed has ended: nothing
// else would end it while the handler waits for it.
func TestContextOfAClosedConnection(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		block, ends := newGate(t), make(chan error, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			block.pass()
			ends <- t.Context(context.Background()).Err()
			return nil
		}})
		s.dial(t).send("block\n")
		heard(t, block.entered, "a handler")
		now, cancel := context.WithCancel(t.Context())
		cancel()
		heard(t, s.shutdown(now), "Shutdown returns")
		block.open()
		if err := heard(t, ends, "the context"); err != context.Canceled {
			t.Errorf("the context's error is %v, want %v", err, context.Canceled)
		}
	})
}

// A late reply to an earlier request does not cancel the context of a running handler,
// even if nothing else is owed.
func TestContextOutlivesAnEarlierReply(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		contexts := make(chan context.Context, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "later" {
				owed <- t.Later()
				return nil
			}
			ctx := t.Context(context.Background())
			(<-owed).Send([]byte("late\n"))
			contexts <- ctx
			if ctx.Err() != nil {
				return say(t, "cancelled")
			}
			return say(t, "done")
		}})
		c := s.dial(t)
		for range 3 {
			c.ask("later\nrun", "late\ndone")
			heard(t, heard(t, contexts, "the context").Done(), "the end of the context")
		}
	})
}

// A loan keeps no context of the visit that lent the socket.
func TestContextOfALoan(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		contexts := make(chan context.Context, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			contexts <- t.Context(context.Background())
			t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) { return unread, true })
			return errHandedOver
		}})
		c := s.dial(t)
		for range 3 {
			c.send("lend\n")
			heard(t, heard(t, contexts, "the context").Done(), "the end of the context")
		}
	})
}

// asking is a context whose methods use the connection and the server, as user code may.
type asking struct {
	context.Context
	ask func()
}

func (c asking) Value(key any) any     { c.ask(); return c.Context.Value(key) }
func (c asking) Done() <-chan struct{} { c.ask(); return c.Context.Done() }
func (c asking) Err() error            { c.ask(); return c.Context.Err() }

// Contexts run code of their parents when they begin and end: it may use the connection
// and the server, whatever ends the context.
func TestParentOfAContextUsesItsConnection(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		var s *server
		waiting := make(chan context.Context, 1)
		s = serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			ctx := t.Context(asking{parent, func() { c.Value(); c.RemoteAddr(); s.Stats() }})
			switch string(line) {
			case "later":
				r := t.Later()
				go r.Send([]byte("late\n"))
				return nil
			case "close":
				c.Close(engine.ClosedHere)
			case "overflow":
				waiting <- ctx
				for c.Push(make([]byte, 64<<10)) == nil {
				}
				<-ctx.Done()
			case "stay":
				r := t.Later()
				waiting <- ctx
				go func() { <-ctx.Done(); r.Send() }()
				return nil
			}
			return say(t, "done")
		}})
		c := s.dial(t)
		c.ask("hello", "done") // ends with the visit
		c.ask("later", "late") // with the reply
		c.send("close\n")
		c.wantEnd("done\n")
		c = s.dial(t)
		c.send("stay\n")
		ctx := heard(t, waiting, "the handler")
		c.reset() // with the connection, or what the sweeper learns of it
		heard(t, ctx.Done(), "the context ends with its connection")
		c = s.dial(t)
		c.send("overflow\n")
		ctx = heard(t, waiting, "the handler")
		heard(t, ctx.Done(), "the context ends when the connection is cut off")
		if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
			t.Errorf("%d connections are open", s.Stats().Open)
		}
	})
}

// stubborn is a parent whose contexts take long to end.
type stubborn struct {
	context.Context
	ending, release chan struct{}
}

func (stubborn) Done() <-chan struct{} { return make(chan struct{}) }

func (s stubborn) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		close(s.ending)
		<-s.release
		return true
	}
}

// Close waits for the goroutine that ends a connection's context.
func TestCloseWaitsForTheEndOfContexts(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		parent := stubborn{context.Background(), make(chan struct{}), make(chan struct{})}
		entered := make(chan struct{}, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, _ []byte) error {
			t.Context(parent)
			t.Later()
			entered <- struct{}{}
			return nil
		}})
		s.dial(t).send("stay\n")
		heard(t, entered, "the handler")
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		heard(t, parent.ending, "the context ends")
		select {
		case <-closed:
			t.Error("Close has returned")
		case <-time.After(20 * time.Millisecond):
		}
		close(parent.release)
		heard(t, closed, "Close")
	})
}
