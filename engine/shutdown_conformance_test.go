package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A request that is served during a drain may take over the socket: its user gets it
// without a refusal before, and the drain waits for it and counts it as clean.
func TestTakeOverDuringADrain(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, where := range []string{"read", "in the kernel"} {
			t.Run("the request is "+where, func(t *testing.T) {
				block := newGate(t)
				s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
					if string(line) == "take" {
						t.TakeOver(forGood(func(nc net.Conn, unread []byte) {
							io.WriteString(nc, "taken\n")
							nc.Write(unread)
							io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc})
						}))
						return errHandedOver
					}
					block.pass()
					return say(t, "answer")
				}})
				c := s.dial(t)
				c.SetDeadline(time.Now().Add(patience / 2))
				if where == "read" {
					c.send("block\ntake\necho")
					heard(t, block.entered, "a handler")
				} else {
					c.send("block\n")
					heard(t, block.entered, "a handler")
					c.send("take\necho")
				}
				done := s.drain(t)
				block.open()
				c.want("answer\ntaken\necho")
				c.send(" of what came later")
				c.want(" of what came later")
				if len(done) > 0 {
					t.Error("Shutdown has returned while user code had the socket")
				}
				c.Close()
				inPeace(t, done, 1)
			})
		}
	})
}

// A peer that is refused during a drain gets one refusal: for its error, and not again
// for the drain.
func TestRefusalDuringADrainIsTheOnlyOne(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, why := range []engine.Reason{engine.Malformed, engine.Panicked} {
			t.Run(why.String(), func(t *testing.T) {
				block := newGate(t)
				s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
					switch string(line) {
					case "block":
						block.pass()
						return say(t, "answer")
					case "panicked":
						panic("a handler's")
					}
					return malformed(t)
				}})
				c := s.dial(t)
				c.send("block\n")
				heard(t, block.entered, "a handler")
				c.send(why.String() + "\nbehind it\n")
				done := s.drain(t)
				block.open()
				c.wantEnd("answer\n" + refusal(why))
				c.Close()
				inPeace(t, done, 1)
			})
		}
	})
}

// hooked is an adapter that intercepts its deadlines.
type hooked struct {
	adapter
	onReadDeadline func(time.Time)
	onDeadline     func(time.Time)
	lingers        *atomic.Int32 // calls of SetLinger
}

func (h hooked) SetReadDeadline(t time.Time) error {
	if h.onReadDeadline != nil {
		h.onReadDeadline(t)
	}
	return h.adapter.SetReadDeadline(t)
}

func (h hooked) SetDeadline(t time.Time) error {
	err := h.adapter.SetDeadline(t)
	if h.onDeadline != nil {
		h.onDeadline(t)
	}
	return err
}

func (h hooked) SetLinger(seconds int) error {
	if h.lingers != nil {
		h.lingers.Add(1)
	}
	return h.Conn.(*net.TCPConn).SetLinger(seconds)
}

// A Close of the server while a socket is handed over is not lost: the user's next read
// or write fails.
func TestCloseDuringAHandOverEndsTheUsersReads(t *testing.T) {
	taking := func(onTake func(), ended chan<- error) lines {
		return lines{serve: func(t *engine.Turn, line []byte) error {
			t.TakeOver(forGood(func(nc net.Conn, _ []byte) {
				_, err := nc.Read(make([]byte, 1))
				ended <- err
			}))
			onTake()
			return errHandedOver
		}}
	}
	wantError := func(t *testing.T, ended <-chan error) bool {
		t.Helper()
		select {
		case err := <-ended:
			return err != nil && err != io.EOF
		case <-time.After(patience / 5):
			return false
		}
	}
	// An engine that resets its own deadline for the socket's user is interrupted at that
	// point.
	t.Run("as the deadline is taken back", func(t *testing.T) {
		onEach(t, over(overAdapter), func(t *testing.T, g ground) {
			var s *server
			var armed atomic.Bool
			ended, cut, closed := make(chan error, 1), make(chan struct{}, 100), make(chan struct{})
			closeNow := func() { go func() { s.Close(); close(closed) }() }
			ln := adapting{listen(t, overTCP), func(nc net.Conn) net.Conn {
				return hooked{
					adapter: adapter{nc},
					onReadDeadline: func(at time.Time) {
						if !at.IsZero() || !armed.CompareAndSwap(true, false) {
							return
						}
						closeNow()
						select {
						case <-cut:
						case <-time.After(100 * time.Millisecond): // it waits for its turn
						}
					},
					onDeadline: func(time.Time) { cut <- struct{}{} },
				}
			}}
			s = serveOn(t, g, ln, taking(func() { armed.Store(true) }, ended))
			c := s.dial(t)
			c.send("take\n")
			eventually(2*time.Second, func() bool { return !armed.Load() })
			if armed.CompareAndSwap(true, false) {
				closeNow() // for engines that reset no deadline
			}
			if !wantError(t, ended) {
				t.Error("Close did not end the read of the socket's user")
			}
			c.Close()
			heard(t, closed, "Close returns")
		})
	})
	t.Run("at any moment", func(t *testing.T) {
		const rounds = 100
		grounds := append(over(overTCP), ground{engine.Engine{}, overUnix})
		oneByOne(t, grounds, func(t *testing.T, g ground) {
			lost := 0
			hold := 20 * time.Microsecond // how long the handler runs after Close was called: to be just late enough
			for range rounds {
				now, ended, closed := make(chan struct{}), make(chan error, 1), make(chan struct{})
				s := serve(t, g, taking(func() {
					close(now)
					for begun := time.Now(); time.Since(begun) < hold; {
					}
				}, ended))
				go func() {
					<-now
					s.Close()
					close(closed)
				}()
				c := s.dial(t)
				c.send("take\n")
				heard(t, closed, "Close returns")
				select {
				case why := <-s.ends: // whether or not the user has had the socket
					if len(ended) > 0 {
						if err := <-ended; err == nil || err == io.EOF {
							t.Errorf("the user's read returned %v, want an error", err)
						}
						hold += hold / 16
					} else {
						hold -= hold / 16
						if why != engine.Forced {
							t.Errorf("OnClose got %v, want %v", why.String(), engine.Forced.String())
						}
					}
				case <-time.After(patience / 5):
					lost++
				}
				c.Close()
			}
			if lost > 0 {
				t.Errorf("Close did not end the read of the socket's user in %d of %d rounds", lost, rounds)
			}
		})
	})
}

// A forced Shutdown interrupts user code on a socket that it has taken over by a deadline
// in the past, and does nothing else to the socket: user code that resets the deadline
// can still close it properly.
func TestForcedShutdownLeavesATakenOverSocketUsable(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, blocked := range []string{"read", "write"} {
			if blocked == "write" && g.network == overTLS {
				continue // crypto/tls cannot write any more after a write that has failed
			}
			t.Run("in a "+blocked, func(t *testing.T) {
				var lingers atomic.Int32
				ln := listen(t, g.network)
				if wrapped, ok := ln.(adapting); ok {
					wrapped.wrap = func(nc net.Conn) net.Conn { return hooked{adapter: adapter{nc}, lingers: &lingers} }
					ln = wrapped
				}
				taken, failed, bye := make(chan struct{}), make(chan error, 1), make(chan error, 1)
				s := serveOn(t, g, ln, lines{serve: func(t *engine.Turn, line []byte) error {
					t.TakeOver(forGood(func(nc net.Conn, _ []byte) {
						close(taken)
						var err error
						if blocked == "read" {
							_, err = nc.Read(make([]byte, 1))
						} else {
							for part := make([]byte, 64<<10); err == nil; {
								_, err = nc.Write(part)
							}
						}
						failed <- err
						nc.SetDeadline(time.Now().Add(patience))
						_, err = io.WriteString(nc, "bye")
						bye <- err
					}))
					return errHandedOver
				}})
				c := s.dial(t)
				c.send("take\n")
				heard(t, taken, "the socket is handed over")
				ctx, giveUp := context.WithCancel(t.Context())
				giveUp()
				done := s.shutdown(ctx)
				if err := heard(t, failed, "the user's "+blocked+" fails"); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the user's %s returned %v, want the deadline's error", blocked, err)
				}
				all, err := io.ReadAll(c.r)
				if said := heard(t, bye, "the user says goodbye"); said != nil {
					t.Errorf("the user cannot write any more: %v", said)
				}
				if !strings.HasSuffix(string(all), "bye") || err != nil {
					t.Errorf("read %d bytes, %.10q last (%v), want the user's goodbye and a clean end of the stream", len(all), all[max(0, len(all)-10):], err)
				}
				if got := heard(t, done, "Shutdown returns"); got.Forced != 1 || got.Clean != 0 || !errors.Is(got.err, context.Canceled) {
					t.Errorf("Shutdown ended with %+v and %v, want one forced and the context's error", got.Drained, got.err)
				}
				if n := lingers.Load(); n > 0 {
					t.Errorf("SetLinger was called %d times on the user's socket", n)
				}
			})
		}
	})
}

// shaking is an adapter whose handshake takes as long as the test needs, and succeeds
// however late.
type shaking struct {
	adapter
	hands *gate
}

func (s shaking) HandshakeContext(context.Context) error {
	s.hands.pass()
	return nil
}

// For a connection that is forced closed before OnOpen was called, neither hook is
// called.
func TestConnectionForcedBeforeItOpensIsToldToNoHook(t *testing.T) {
	check := func(t *testing.T, s *server) {
		t.Helper()
		if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
			t.Fatal("the connection did not end")
		}
		if len(s.opened) > 0 || len(s.ends) > 0 {
			t.Errorf("OnOpen was called for %d connections and OnClose %d times, want neither", len(s.opened), len(s.ends))
		}
	}
	hello := lines{serve: func(t *engine.Turn, line []byte) error { return say(t, "answer") }}
	t.Run("in its handshake", func(t *testing.T) {
		onEach(t, over(overAdapter), func(t *testing.T, g ground) {
			hands := newGate(t)
			s := serveOn(t, g, adapting{listen(t, overTCP), func(nc net.Conn) net.Conn { return shaking{adapter{nc}, hands} }}, hello)
			s.dial(t)
			heard(t, hands.entered, "the handshake")
			s.Close()
			hands.open()
			check(t, s)
		})
	})
	t.Run("before its PROXY header", func(t *testing.T) {
		onEach(t, append(over(overTCP), over(overAdapter)...), func(t *testing.T, g ground) {
			s := serve(t, g, hello, trustingLoopback)
			s.dial(t)
			if !eventually(patience, func() bool { return s.Stats().Open == 1 }) {
				t.Fatal("the connection is not accepted")
			}
			s.Close()
			check(t, s)
		})
	})
	t.Run("while its loop is busy", func(t *testing.T) {
		onEach(t, everywhere(ground.isInline), func(t *testing.T, g ground) {
			block := newGate(t)
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error { block.pass(); return nil }})
			loops := min(runtime.GOMAXPROCS(0), runtime.NumCPU())
			for range loops { // one on each
				s.dial(t).send("block\n")
				heard(t, block.entered, "a handler")
			}
			const late = 8
			for range late { // without handshakes, for which their loops have no time
				s.dialClear(t)
			}
			if !eventually(patience, func() bool { return s.Stats().Open == loops+late }) {
				t.Fatal("the connections are not accepted")
			}
			s.Close()
			block.open()
			if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
				t.Fatal("the connections did not end")
			}
			if len(s.opened) != loops || len(s.ends) != loops {
				t.Errorf("OnOpen was called for %d connections and OnClose %d times, want %d each", len(s.opened), len(s.ends), loops)
			}
		})
	})
}

// Shutdown returns soon after its context has ended, whatever delays it.
func TestShutdownKeepsToItsContext(t *testing.T) {
	const within, margin = 20 * time.Millisecond, 50 * time.Millisecond
	// Each starts a server that cannot drain, and returns how many connections are open
	// on it and a function that releases what it holds after the Shutdown has returned.
	hindrances := map[string]func(t *testing.T, g ground) (s *server, open int, letGo func()){
		"refused peers stay": func(t *testing.T, g ground) (*server, int, func()) {
			s := serve(t, g, answering, func(s *engine.Server) { s.Limits.Conns = 1 })
			s.dial(t).ask("hello", "answer")
			for range 5 {
				s.dial(t).want(refusal(engine.TooManyConns))
			}
			return s, 1, nil
		},
		"a handler is stuck": func(t *testing.T, g ground) (*server, int, func()) {
			block := newGate(t)
			s := serve(t, g, lines{serve: func(*engine.Turn, []byte) error { block.pass(); return nil }})
			s.dial(t).send("block\n")
			heard(t, block.entered, "a handler")
			return s, 1, block.open
		},
		"OnClose is stuck": func(t *testing.T, g ground) (*server, int, func()) {
			block := newGate(t)
			s := serve(t, g, answering, func(s *engine.Server) { s.OnClose = func(engine.Conn, engine.Reason) { block.pass() } })
			c := s.dial(t)
			c.ask("hello", "answer")
			c.Close()
			heard(t, block.entered, "OnClose")
			return s, 1, block.open
		},
		"user code ignores its socket": func(t *testing.T, g ground) (*server, int, func()) {
			block := newGate(t)
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				t.TakeOver(forGood(func(net.Conn, []byte) { block.pass() }))
				return errHandedOver
			}})
			s.dial(t).send("take\n")
			heard(t, block.entered, "the socket's user")
			return s, 1, block.open
		},
		"peers do not read": func(t *testing.T, g ground) (*server, int, func()) {
			large := make([]byte, 8<<20)
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				t.Out = append(t.Out, large...)
				return nil
			}})
			for range 2 {
				s.dial(t).send("more than the kernel holds\n")
			}
			if !eventually(patience, func() bool { st := s.Stats(); return st.Requests == 2 && st.Waiting > int64(len(large))/2 }) {
				t.Fatal("no output is queued for the peers")
			}
			return s, 2, nil
		},
		"half a message has arrived": func(t *testing.T, g ground) (*server, int, func()) {
			s := serve(t, g, answering)
			s.dial(t).send("half")
			if !eventually(patience, func() bool { return s.Stats().BytesIn == 4 }) {
				t.Fatal("the message is not read")
			}
			return s, 1, nil
		},
		"a late reply is never sent": func(t *testing.T, g ground) (*server, int, func()) {
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error { t.Later(); return nil }})
			s.dial(t).send("late\n")
			if !eventually(patience, func() bool { return s.Stats().Owed == 1 }) {
				t.Fatal("nothing is owed")
			}
			return s, 1, nil
		},
	}
	inFakeTime(t, func(t *testing.T, g ground) {
		for name, hinder := range hindrances {
			if g.network == overEndsTLS && name == "refused peers stay" {
				continue // they learn no reason before a handshake
			}
			s, open, letGo := hinder(t, g)
			ctx, stop := context.WithTimeout(t.Context(), within)
			got := heard(t, s.shutdown(ctx), "Shutdown returns")
			stop()
			if letGo != nil {
				letGo()
			}
			if got.Clean+got.Forced != open || got.Forced > 0 && !errors.Is(got.err, context.DeadlineExceeded) {
				t.Errorf("%s: Shutdown ended with %+v and %v, want %d connections counted and the context's error", name, got.Drained, got.err, open)
			}
			if got.took > within+margin {
				t.Errorf("%s: Shutdown returned after %v, with a context of %v", name, got.took, within)
			}
		}
	})
}

// A connection that is being accepted while the server is closed ends with it.
func TestCloseWhileAConnectionIsAccepted(t *testing.T) {
	rounds := testrun.Sized(30, 200)
	grounds := append(over(overTCP), ground{engine.Engine{}, overUnix}, ground{engine.Engine{}, overAdapter})
	oneByOne(t, grounds, func(t *testing.T, g ground) { // it takes all processors
		for round := range rounds {
			s := serve(t, g, answering)
			c := s.dial(t)
			for s.Stats().Accepted == 0 {
				runtime.Gosched()
			}
			s.Close()
			c.SetDeadline(time.Now().Add(patience / 5))
			told := c.over()
			c.Close()
			if !told || !eventually(patience/5, func() bool { return s.Stats().Open == 0 && s.imbalance() == "" }) {
				t.Fatalf("round %d: the connection has outlived its server; its peer has seen the end: %v; %d are open; %s", round, told, s.Stats().Open, s.imbalance())
			}
		}
	})
}

// answering answers every line.
var answering = lines{serve: func(t *engine.Turn, line []byte) error { return say(t, "answer") }}

// Peers that have been sent everything and merely keep their sockets open do not delay a
// drain by LingerTime: they get a quarter of a second to receive it.
func TestPeersThatStayDoNotHoldAShutdownUp(t *testing.T) {
	const linger, most = 15 * time.Second, 5 * time.Second // with allowance for a busy machine
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "bad" {
				return malformed(t)
			}
			return say(t, "answer")
		}}, func(s *engine.Server) { s.Limits.LingerTime = linger })
		idle, refused := s.dial(t), s.dial(t)
		idle.ask("hello", "answer")
		refused.ask("hello", "answer")
		refused.send("bad\n")
		refused.want(refusal(engine.Malformed))
		got := heard(t, s.shutdown(t.Context()), "Shutdown returns")
		if want := (engine.Drained{Clean: 2}); got.Drained != want || got.err != nil {
			t.Errorf("Shutdown ended with %+v and %v, want %+v and no error", got.Drained, got.err, want)
		}
		if got.took > most {
			t.Errorf("Shutdown took %v, want %v at most", got.took.Round(time.Millisecond), most)
		}
		idle.wantEnd(refusal(engine.ShuttingDown))
		refused.wantEnd("")
	})
}

// expecting is a protocol of messages with a head and a body of five bytes each. It
// expects the body within a time when it has seen the head.
type expecting struct{ within time.Duration }

func (p expecting) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		switch rest := len(in) - used; {
		case rest < 5:
			return used, 5 - rest, nil
		case rest < 10:
			t.ExpectRest(p.within)
			return used, 10 - rest, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		t.Out = append(t.Out, in[used:used+10]...)
		used += 10
	}
}

func (expecting) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return append(dst, refusal(why)...)
}

// A drain waits for the rest of a message that the protocol expects, serves that message
// and nothing sent after it, and does not wait for one that it does not expect.
func TestDrainWaitsForTheRestOfAMessage(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, expecting{time.Minute})
		half := func(text string) *client {
			c := s.dial(t)
			c.send("0123456789" + text)
			c.want("0123456789")
			return c
		}
		begun, whole, left := half("head1"), half("head2bo"), half("head3")
		var late []*client
		for range runtime.NumCPU() { // at least one for each loop
			late = append(late, half("hea"))
		}
		if !eventually(patience, func() bool { return int(s.Stats().BytesIn) == 3*10+5+7+5+len(late)*13 }) {
			t.Fatalf("%d bytes have arrived", s.Stats().BytesIn)
		}
		done := s.drain(t)
		for _, c := range late {
			c.wantEnd(refusal(engine.ShuttingDown))
		}
		left.Conn.(interface{ CloseWrite() error }).CloseWrite()
		left.wantEnd(refusal(engine.ShuttingDown))
		begun.send("bo")
		whole.send("dy2")
		whole.wantEnd("head2body2" + refusal(engine.ShuttingDown))
		begun.send("dy1head4body4")
		// A loop drains its connections in their order, and one that came after this has ended. But a goroutine
		// may be late, and have received all of it by then; that of a visit that has lost its loop, too.
		got, _ := io.ReadAll(begun.r)
		if !strings.HasPrefix(string(got), "head1body1") || g.isInline() && strings.Contains(string(got), "head4") {
			t.Errorf("read %q", got)
		}
		begun.Close()
		inPeace(t, done, 3+len(late))
	})
}

// An expected message has its own time, in a drain too.
func TestAnExpectedMessageHasItsOwnTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g ground) {
		const frame = 2 * time.Second
		long := serve(t, g, expecting{time.Minute}, func(s *engine.Server) { s.Limits.FrameTime = frame })
		short := serve(t, g, expecting{4 * frame}, func(s *engine.Server) { s.Limits.FrameTime = frame })
		patient, slow := long.dial(t), short.dial(t)
		patient.send("head1")
		began := time.Now()
		slow.send("head2")
		slow.wantEnd(refusal(engine.FrameTimeout))
		if took := time.Since(began); took < 4*frame-tick {
			t.Errorf("the message had %v, want %v", took, 4*frame)
		}
		patient.send("body1")
		patient.want("head1body1")
		patient.send("hea")
		patient.wantEnd(refusal(engine.FrameTimeout))
		drained := serve(t, g, expecting{time.Second}, func(s *engine.Server) { s.Limits.FrameTime = frame })
		slow = drained.dial(t)
		slow.send("head3")
		if !eventually(patience, func() bool { return drained.Stats().BytesIn == 5 }) {
			t.Fatal("the head has not arrived")
		}
		done := drained.drain(t)
		slow.wantEnd(refusal(engine.ShuttingDown))
		inPeace(t, done, 1)
	})
}

// A connection that drains does not wait longer than FrameTime for a handler whose client does
// not send the rest of a message.
func TestDrainEndsHandlersThatWaitForMore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, _ []byte) error {
			t.Conn().Close(engine.ShuttingDown)
			_, err := t.More(len("more\n"), 10)
			return err
		}}, func(s *engine.Server) { s.Limits.FrameTime = 2 * time.Second })
		s.dial(t).send("more\n")
		if why := heard(t, s.ends, "the connection's end"); why != engine.ShuttingDown {
			t.Errorf("it ended for %v", why)
		}
	})
}
