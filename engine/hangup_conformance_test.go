package engine_test

import (
	"context"
	"net"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// knowsHangUps reports whether the kernel reports the disconnect of a peer from which
// nobody reads.
func knowsHangUps(g ground) bool { return sys.Polls && g.network != overAdapter }

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
