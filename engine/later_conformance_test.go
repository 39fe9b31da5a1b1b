package engine_test

import (
	"context"
	"testing"

	"github.com/hone-go/hone/engine"
)

// A reply of LaterInOrder follows what was served before it and precedes what has arrived behind it,
// however early or late it is sent.
func TestLaterInOrder(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "at once":
				if err := t.LaterInOrder().Send([]byte("at once\n")); err != nil {
					return err
				}
			case "soon":
				reply := t.LaterInOrder()
				go reply.Send([]byte("soon\n"))
			case "late":
				owed <- t.LaterInOrder()
			default:
				return say(t, string(line))
			}
			return nil
		}})
		c := s.dial(t)
		for range 20 {
			c.send("one\nlate\ntwo\nat once\nthree\nsoon\nfour\nlate\nla")
			c.want("one\n")
			heard(t, owed, "the promise").Send([]byte("late\n"))
			c.want("late\ntwo\nat once\nthree\nsoon\nfour\n")
			c.send("st\n")
			heard(t, owed, "the promise").Send([]byte("late, too\n"))
			c.want("late, too\nlast\n")
		}
	})
}

// A reply's context ends with the reply or with the peer, also when nobody asked for one in the visit.
func TestReplyContext(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "asked" {
				t.Context(context.Background())
			}
			owed <- t.LaterInOrder()
			return nil
		}})
		type key struct{}
		parent := context.WithValue(t.Context(), key{}, "parent's")
		for _, line := range []string{"unasked", "asked"} {
			c := s.dial(t)
			c.send(line + "\n")
			reply := heard(t, owed, "the promise")
			ctx := reply.Context(parent)
			if err := ctx.Err(); err != nil || line == "unasked" && ctx.Value(key{}) != "parent's" {
				t.Errorf("%s: the context is %v, %v", line, ctx, err)
			}
			if again := reply.Context(parent); again != ctx {
				t.Errorf("%s: there are two contexts", line)
			}
			reply.Send([]byte("late\n"))
			heard(t, ctx.Done(), "the end of the context")
			if reply.Context(parent).Err() == nil {
				t.Errorf("%s: the context of a reply that was sent has not ended", line)
			}
			c.want("late\n")
			if g.isAdapter() {
				continue // whose peers are seen to leave only by reading
			}
			c.send(line + "\n")
			ctx = heard(t, owed, "the promise").Context(parent)
			c.Close()
			heard(t, ctx.Done(), "the end of the context")
		}
	})
}
