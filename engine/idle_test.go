package engine

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// serveOverTCP serves a protocol until the test ends, and returns a function that
// connects and then sends messages and reads exactly their answers.
func serveOverTCP(t *testing.T, s *Server) (connect func() (ask func(text, answer string))) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.init()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-served })
	return func() func(text, answer string) {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return func(text, answer string) {
			t.Helper()
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			nc.Write(message(text))
			got := make([]byte, len(answer))
			if n, err := io.ReadFull(nc, got); string(got) != answer {
				t.Fatalf("%s: read %q (%v), want %q", text, got[:n], err, answer)
			}
		}
	}
}

// eventually polls for a condition without an event, and reports whether it became true.
func eventually(ok func() bool) bool {
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			return false
		}
	}
	return true
}

// An idle server does not tick, and its loops do not turn, whatever its connections have done before.
func TestServerStopsTicking(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		t.Run(e.Name(), func(t *testing.T) {
			s := &Server{Engine: e, Limits: Limits{IdleTime: -1, LingerTime: 32 * time.Millisecond}} // makes sweeps frequent
			s.Protocol = scripted(func(t *Turn, message string) error {
				switch message {
				case "later":
					go t.Later().Send([]byte("late\n"))
					return nil
				case "context":
					t.Context(context.Background())
				case "value":
					t.Conn().SetValue(message)
				case "hold":
					t.Hold()
					t.Conn().Push([]byte("pushed\n"))
				case "flush":
					t.Out = append(t.Out, "flushed\n"...)
					return t.Flush()
				case "lend":
					return t.TakeOver(func(nc net.Conn, unread []byte) ([]byte, bool) {
						io.WriteString(nc, "lent\n")
						return unread, true
					})
				}
				return echo(t, message)
			})
			connect := serveOverTCP(t, s)
			for _, c := range [][2]string{
				{"echo", "echo\n"}, {"later", "late\n"}, {"context", "context\n"}, {"value", "value\n"},
				{"hold", "hold\npushed\n"}, {"flush", "flushed\n"}, {"lend", "lent\n"},
			} {
				for range 2 {
					connect()(c[0], c[1])
				}
			}
			standsStill := func() bool {
				before, turns := s.clock.Now(), s.Stats().Turns
				<-time.After(25 * time.Duration(s.rules.Period) * time.Millisecond)
				return s.clock.Now() == before && s.Stats().Turns == turns
			}
			if !eventually(standsStill) {
				t.Error("the server still ticks")
			}
		})
	}
}

// A connection whose handler has blocked once is served on its loop again when its
// handlers have been fast for a while.
func TestConnectionReturnsToItsLoop(t *testing.T) {
	t.Parallel()
	if !slices.Contains(All(), Events(Auto)) {
		t.Skip("there are no event loops on this system")
	}
	away := make(chan bool, 1)
	s := &Server{Engine: Events(Auto)}
	s.Protocol = scripted(func(t *Turn, message string) error {
		if message == "block" {
			eventually(func() bool { return s.handOffs.Load() > 0 })
		}
		t.ref.s.mu.Lock() // the watchdog may be taking the loop away
		away <- t.ref.servedOffLoop()
		t.ref.s.mu.Unlock()
		return echo(t, message)
	})
	ask := serveOverTCP(t, s)()
	ask("block", "block\n")
	if !<-away {
		t.Fatal("the watchdog has not taken the loop away")
	}
	if !eventually(func() bool { ask("ping", "ping\n"); return !<-away }) {
		t.Error("the connection is still served off its loop")
	}
}

// A value keeps nothing of a connection in memory but itself.
func TestValueOfAnIdleConnection(t *testing.T) {
	t.Parallel()
	if !slices.Contains(All(), Events(Auto)) {
		t.Skip("there are no event loops on this system")
	}
	ended := make(chan any, 1)
	s := &Server{Engine: Events(Auto), OnClose: func(c Conn, _ Reason) { ended <- c.Value() }}
	s.Protocol = scripted(func(t *Turn, message string) error {
		if message == "end" {
			return ClosedHere
		}
		t.Conn().SetValue(message)
		return echo(t, message)
	})
	ask := serveOverTCP(t, s)()
	ask("value", "value\n")
	attached := true
	isFree := func() bool {
		s.each(func(k connRef) { attached = k.x.Load() != nil })
		return !attached
	}
	if !eventually(isFree) {
		t.Error("an idle connection with a value keeps its inflight")
	}
	ask("end", "")
	if v := <-ended; v != "value" {
		t.Errorf("at its end the connection has the value %v", v)
	}
}
