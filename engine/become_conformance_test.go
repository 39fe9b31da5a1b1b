package engine_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// upper is the protocol to switch to: it answers lines in capitals.
type upper struct {
	lines
	ended chan farewell
}

// farewell is what Ended was called with.
type farewell struct {
	state uint64
	why   engine.Reason
}

func (p *upper) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return append(dst, "UPPER "+refusal(why)...)
}

func (p *upper) Ended(_ engine.Conn, state uint64, why engine.Reason) {
	p.ended <- farewell{state, why}
}

// newUpper counts its lines in Turn.State. The line "panic" panics.
func newUpper() *upper {
	p := &upper{ended: make(chan farewell, 10)}
	p.serve = func(t *engine.Turn, line []byte) error {
		t.State++
		if string(line) == "panic" {
			panic("a handler's")
		}
		return say(t, string(bytes.ToUpper(line)))
	}
	return p
}

// becoming echoes lines until one is "become": then the connection switches to p.
func becoming(p engine.Protocol) lines {
	return lines{serve: func(t *engine.Turn, line []byte) error {
		switch string(line) {
		case "become":
			t.State = 100
			if err := t.Become(p); err != nil {
				return err
			}
			say(t, "it has")
			return errHandedOver
		case "become and panic":
			t.Become(p)
			panic("a handler's")
		}
		return say(t, string(line))
	}}
}

func TestBecome(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		p := newUpper()
		s := serve(t, g, becoming(p))
		c := s.dial(t)
		c.send("one\nbecome\ntwo\nthr") // what follows in the same packet is for the other protocol
		c.want("one\nit has\nTWO\n")
		c.ask("ee", "THREE")
		other := s.dial(t)
		other.ask("one", "one") // a slot's protocol does not affect others
		c.send("panic\n")
		c.wantEnd("UPPER " + refusal(engine.Panicked))
		if got, want := heard(t, p.ended, "the end"), (farewell{2, engine.Panicked}); got.why != want.why || got.state != want.state+1 {
			t.Errorf("ended as %+v, want state 3 and %v", got, want.why)
		}
		again := s.dial(t) // perhaps in the slot of the one that has ended
		again.ask("one", "one")
		again.send("become and panic\n")
		again.wantEnd(refusal(engine.Panicked))
		if len(p.ended) > 0 {
			t.Error("Ended was called for a connection that has not switched")
		}
	})
}

func TestRefusalsOfWhatAConnectionHasBecome(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		p := newUpper()
		s := serve(t, g, becoming(p))
		c := s.dial(t)
		c.ask("become", "it has")
		c.ask("one", "ONE")
		done := s.drain(t)
		c.wantEnd("UPPER " + refusal(engine.ShuttingDown))
		c.Close()
		heard(t, done, "the end of the drain")
		if got, want := heard(t, p.ended, "the end"), (farewell{1, engine.ShuttingDown}); got != want {
			t.Errorf("ended as %+v, want %+v", got, want)
		}
	})
}

// End's final message follows what was posted, and Refuse is not called.
func TestEnd(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		ended := make(chan error, 2)
		s := serve(t, g, lines{
			serve: func(t *engine.Turn, line []byte) error {
				c := t.Conn()
				if string(line) == "at once" {
					c.Push([]byte("pushed\n"))
					ended <- c.End(engine.Own, []byte("the last words\n"))
					ended <- c.End(engine.Own, []byte("once more\n"))
				}
				return say(t, "answer")
			},
			refuse: func(why engine.Reason) { t.Errorf("Refuse was called for %v", why) },
		}, func(s *engine.Server) { s.OwnReasons = []string{"left"} })
		c := s.dial(t)
		c.ask("one", "answer")
		c.send("at once\n")
		var text string
		for range 3 {
			line, _ := c.r.ReadString('\n')
			text += line
		}
		if text != "answer\npushed\nthe last words\n" && text != "pushed\nanswer\nthe last words\n" {
			t.Errorf("heard %q", text)
		}
		c.wantEnd("")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := <-ended; err != engine.ErrClosed {
			t.Errorf("a second End: %v, want ErrClosed", err)
		}
		if !eventually(patience, func() bool { return s.Stats().Own[0].Count == 1 }) {
			t.Errorf("%v, want one with the protocol's own reason", s.Stats().Own)
		}
	})
}

// pinger asks the server when the engine asks it for its ping.
type pinger struct {
	*lines
	ping func()
}

func (p *pinger) Ping() []byte { p.ping(); return []byte("ping\n") }

// Ping is user code, which may use the server.
func TestPingUsesTheServer(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		var s *server
		asked := 0
		echo := &lines{serve: func(t *engine.Turn, line []byte) error { return say(t, string(line)) }}
		s = serve(t, g, becoming(&pinger{echo, func() { s.Stats(); asked++ }}))
		for range 2 {
			c := s.dial(t)
			c.ask("become", "it has")
			c.ask("hello", "hello")
		}
		if asked != 1 {
			t.Errorf("Ping was called %d times, want once", asked)
		}
	})
}

// The final words of Conn.End reach the peer also when the visit has used its context.
func TestFinalWordsAfterAContext(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Context(context.Background())
			return t.Conn().End(engine.ClosedHere, []byte("final words\n"))
		}})
		c := s.dial(t)
		c.send("hello\n")
		c.wantEnd("final words\n")
		s.ended(t, engine.ClosedHere)
	})
}

// The final words of Conn.End reach a peer that has ended its side and waits for a reply, behind that.
func TestFinalWordsAfterTheEndOfInput(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		contexts, owed := make(chan context.Context, 1), make(chan engine.Reply, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			contexts <- t.Context(context.Background())
			owed <- t.Later()
			return nil
		}})
		c := s.dial(t)
		c.send("hello\n")
		ctx, reply := heard(t, contexts, "the context"), heard(t, owed, "the promise")
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		heard(t, ctx.Done(), "the end of the context")
		if err := reply.Conn().End(engine.ClosedHere, []byte("final words\n")); err != nil {
			t.Error(err)
		}
		reply.Send([]byte("late\n"))
		c.wantEnd("late\nfinal words\n")
	})
}

// entrance is a protocol of connections that others have accepted: it greets, and switches.
type entrance struct {
	lines
	next engine.Protocol
}

func (p *entrance) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	t.Mark(0)
	say(t, strconv.Itoa(int(t.State)))
	return 0, 0, t.Become(p.next)
}

// A connection that others have accepted is visited before anything arrives, with its state and what was
// read of it; one without a protocol of its own is served as all others are; one too many is refused.
func TestServeConn(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return g.network != overTLS }), func(t *testing.T, g ground) {
		s := serve(t, g, becoming(nil), func(s *engine.Server) { s.Limits.Conns = 4 })
		ln, p := listen(t, g.network), &entrance{next: newUpper()}
		defer ln.Close()
		dial := func() (*client, net.Conn) {
			nc, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			near, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return s.over(t, nc), near
		}
		for i, unread := range []string{"", "one\n", "one\ntw"} {
			c, near := dial()
			if err := s.ServeConn(near, p, uint64(i), []byte(unread)); err != nil {
				t.Fatal(err)
			}
			c.want(strconv.Itoa(i) + "\n")
			if unread != "" {
				c.want("ONE\n")
			}
			c.ask("o", strings.ToUpper(strings.TrimPrefix(unread, "one\n"))+"O")
		}
		c, near := dial()
		if err := s.ServeConn(near, nil, 0, []byte("plain\n")); err != nil {
			t.Fatal(err)
		}
		c.want("plain\n")
		c, near = dial()
		if err := s.ServeConn(near, nil, 0, nil); err != engine.TooManyConns {
			t.Errorf("one too many is served: %v", err)
		}
		c.wantRefused(engine.TooManyConns)
	})
}
