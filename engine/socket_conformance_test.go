package engine_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// giving is a line protocol in which "give" sends the socket to taken within the visit
// and then calls after.
func giving(taken chan<- net.Conn, after func(t *engine.Turn) error) lines {
	return lines{serve: func(t *engine.Turn, line []byte) error {
		if string(line) != "give" {
			return echoing(t, line)
		}
		say(t, "given")
		nc, err := t.Socket()
		if err != nil {
			return err
		}
		taken <- nc
		if after != nil {
			if err := after(t); err != nil {
				return err
			}
		}
		return errHandedOver
	}}
}

// echoes answers each line on a socket, with a prefix, until its end.
func echoes(nc net.Conn) {
	defer nc.Close()
	var got []byte
	for {
		var p [64]byte
		n, err := nc.Read(p[:])
		got = append(got, p[:n]...)
		for {
			line, rest, found := strings.Cut(string(got), "\n")
			if !found {
				break
			}
			got = []byte(rest)
			io.WriteString(nc, "socket "+line+"\n")
		}
		if err != nil {
			return
		}
	}
}

// A socket that is given away works in both directions during and after the visit, from
// several goroutines, after all earlier replies.
func TestSocketWithinTheVisit(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		taken, goOn := make(chan net.Conn, 1), make(chan struct{})
		s := serve(t, g, giving(taken, func(t *engine.Turn) error { <-goOn; return nil }))
		c := s.dial(t)
		c.send("one\ntwo\ngive\n")
		c.want("one\ntwo\ngiven\n")
		nc := heard(t, taken, "the socket")
		go echoes(nc)
		c.ask("within the visit", "socket within the visit")
		go io.WriteString(nc, "from another goroutine\n")
		c.want("from another goroutine\n")
		other := s.dial(t) // the loop continues
		other.ask("three", "three")
		close(goOn)
		s.ended(t, engine.ClosedHere)
		for range 10 {
			c.ask("after the visit", "socket after the visit")
		}
		if st := s.Stats(); st.Open != 1 {
			t.Errorf("%d connections are open, want only the other", st.Open)
		}
		nc.Close()
		c.wantEnd("")
	})
}

// Earlier pushes arrive before, and later ones are refused.
func TestSocketAndPushes(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		taken := make(chan net.Conn, 1)
		conns, pushed := make(chan engine.Conn, 1), make(chan struct{})
		p := giving(taken, nil)
		give := p.serve
		p.serve = func(t *engine.Turn, line []byte) error {
			conns <- t.Conn()
			<-pushed
			return give(t, line)
		}
		s := serve(t, g, p)
		c := s.dial(t)
		c.send("give\n")
		conn := heard(t, conns, "the visit")
		if err := conn.Push([]byte("pushed\n")); err != nil {
			t.Error(err)
		}
		close(pushed)
		nc := heard(t, taken, "the socket")
		if err := conn.Push([]byte("too late\n")); err != engine.ErrClosed {
			t.Errorf("Push returned %v, want %v", err, engine.ErrClosed)
		}
		io.WriteString(nc, "by hand\n")
		nc.Close()
		got, err := io.ReadAll(c)
		if text := string(got); err != nil || !strings.HasSuffix(text, "by hand\n") || !strings.Contains(text, "pushed\n") || !strings.Contains(text, "given\n") {
			t.Errorf("got %q, %v", text, err)
		}
		s.ended(t, engine.ClosedHere)
	})
}

// A server that shuts down waits for the visit, and does not touch the socket; nor does
// one that is closed.
func TestSocketOutlivesItsServer(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, force := range []bool{false, true} {
			taken, goOn := make(chan net.Conn, 1), make(chan struct{})
			s := serve(t, g, giving(taken, func(t *engine.Turn) error { <-goOn; return nil }))
			c := s.dial(t)
			c.send("give\n")
			c.want("given\n")
			nc := heard(t, taken, "the socket")
			go echoes(nc)
			down := make(chan error, 1)
			if force {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				s.Shutdown(ctx)
				c.ask("forced", "socket forced")
				close(goOn)
				heard(t, s.ends, "OnClose")
			} else {
				go func() { down <- s.Shutdown(context.Background()) }()
				c.ask("during the drain", "socket during the drain")
				close(goOn)
				if err := heard(t, down, "Shutdown"); err != nil {
					t.Error(err)
				}
				s.ended(t, engine.ClosedHere)
			}
			c.ask("afterwards", "socket afterwards")
			c.Close()
		}
	})
}

// A panic after Socket is counted, and the socket stays open.
func TestSocketAndPanic(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		taken := make(chan net.Conn, 1)
		s := serve(t, g, giving(taken, func(*engine.Turn) error { panic("no luck") }))
		c := s.dial(t)
		c.send("give\n")
		c.want("given\n")
		nc := heard(t, taken, "the socket")
		s.ended(t, engine.ClosedHere)
		go echoes(nc)
		c.ask("still here", "socket still here")
		if st := s.Stats(); st.Panics != 1 {
			t.Errorf("%d panics, want 1", st.Panics)
		}
		c.Close()
	})
}

// Limits no longer apply: the engine must not close a silent socket that was given away.
func TestSocketHasNoLimits(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		taken, goOn := make(chan net.Conn, 1), make(chan struct{})
		s := serve(t, g, giving(taken, func(t *engine.Turn) error { <-goOn; return nil }), func(s *engine.Server) {
			const soon = time.Second // enough time for the request on a busy machine
			s.Limits.IdleTime, s.Limits.FrameTime, s.Limits.StallTime = soon, soon, soon
		})
		c := s.dial(t)
		c.send("give\n")
		c.want("given\n")
		nc := heard(t, taken, "the socket")
		idle := s.dial(t) // ends when the limits have been reached
		heard(t, s.ends, "the idle connection's end")
		go echoes(nc)
		c.ask("still here", "socket still here")
		close(goOn)
		s.ended(t, engine.ClosedHere)
		idle.Close()
		c.Close()
	})
}

// Large concurrent pushes arrive in full or not at all.
func TestSocketCutsNoPush(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		line := strings.Repeat("p", 49_999) + "\n"
		taken := make(chan net.Conn, 1)
		p := giving(taken, nil)
		give := p.serve
		p.serve = func(t *engine.Turn, request []byte) error {
			conn, begun := t.Conn(), make(chan struct{})
			go func() {
				for i := range 200 {
					if conn.Push([]byte(line)) != nil {
						return
					}
					if i == 20 {
						close(begun)
					}
				}
			}()
			<-begun
			return give(t, request)
		}
		s := serve(t, g, p, func(s *engine.Server) { s.Limits.HardCap = 64 << 20 })
		c := s.dial(t)
		c.send("give\n")
		go func() {
			nc := <-taken
			io.WriteString(nc, "by hand\n")
			nc.Close()
		}()
		got, err := io.ReadAll(c)
		text, last := strings.CutSuffix(string(got), "by hand\n")
		text = strings.Replace(text, "given\n", "", 1)
		if err != nil || !last || len(text)%len(line) != 0 || strings.Count(text, line) != len(text)/len(line) {
			t.Errorf("%d bytes, %v; a push was cut, or the last line is not the last", len(got), err)
		}
		s.ended(t, engine.ClosedHere)
	})
}

// The kernel no longer reports the socket: the engine would not read what arrives, and a
// loop would get events for ever.
func TestSocketIsNotReported(t *testing.T) {
	onEach(t, everywhere(ground.isLoop), func(t *testing.T, g ground) {
		taken := make(chan net.Conn, 1)
		s := serve(t, g, giving(taken, nil))
		c := s.dial(t)
		c.send("give\n")
		c.want("given\n")
		nc := heard(t, taken, "the socket")
		defer nc.Close()
		s.ended(t, engine.ClosedHere)
		c.send("nobody reads this\n")
		before := s.Stats().Events
		other := s.dial(t)
		for range 200 {
			other.ask("x", "x")
		}
		if n := s.Stats().Events - before; n > 500 {
			t.Errorf("%d events for 200 requests", n)
		}
	})
}
