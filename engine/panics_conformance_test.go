package engine_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// misbehave is how user code ends abnormally: by a panic, or by runtime.Goexit.
type misbehave struct {
	name string
	do   func()
}

var misbehaviours = []misbehave{
	{"panic", func() { panic("user code's") }},
	{"exit", runtime.Goexit},
}

// User code that panics or ends its goroutine, wherever the engine calls it, ends at most
// its own connection: the process survives, others are answered, panics are counted, and
// the server can be shut down.
func TestMisbehaviourEndsItsConnectionAtMost(t *testing.T) {
	const times = 3
	places := []string{"Advance", "Advance, slowly", "Advance, then Refuse", "OnOpen", "OnClose", "the socket's user", "Refuse", "after Flush", "after More"}
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, place := range places {
			for _, bad := range misbehaviours {
				t.Run(place+", "+bad.name, func(t *testing.T) {
					var armed atomic.Bool
					waits := make(chan struct{}, times)
					in := func(here string) {
						if here == place && armed.Load() {
							bad.do()
						}
					}
					s := serve(t, g, lines{
						serve: func(t *engine.Turn, line []byte) error {
							switch string(line) {
							case "hello":
								return say(t, "answer")
							case "close":
								t.Conn().Close(engine.IdleTimeout)
								return nil
							case "take":
								t.TakeOver(forGood(func(nc net.Conn, _ []byte) { in("the socket's user") }))
								return errHandedOver
							}
							in("Advance")
							if place == "Advance, slowly" {
								<-time.After(5 * time.Millisecond) // outlasts the watchdog
								in(place)
							}
							switch place {
							case "after Flush": // twice, so that the visit leaves its loop
								t.Out = append(t.Out, strings.Repeat("part", 1<<20)...)
								t.Flush()
								t.Flush()
								in("after Flush")
							case "after More":
								waits <- struct{}{}
								t.More(len(line)+1, 5)
								in("after More")
							}
							if place == "Advance, then Refuse" {
								panic("user code's")
							}
							return engine.ClosedHere
						},
						refuse: func(why engine.Reason) {
							switch why {
							case engine.Panicked:
								in("Advance, then Refuse")
							case engine.IdleTimeout:
								in("Refuse")
							}
						},
					}, func(s *engine.Server) {
						s.OnOpen = func(engine.Conn) { in("OnOpen") }
						s.OnClose = func(engine.Conn, engine.Reason) { in("OnClose") }
					})
					neighbour := s.dial(t)
					neighbour.ask("hello", "answer")
					armed.Store(true)
					for range times {
						c := s.dial(t)
						switch place {
						case "the socket's user":
							io.WriteString(c, "take\n")
						case "Refuse":
							io.WriteString(c, "close\n")
						case "after More":
							io.WriteString(c, "go\n")
							heard(t, waits, "More")
							io.WriteString(c, "12345")
						default:
							io.WriteString(c, "go\n") // the connection may have ended in OnOpen
						}
						c.SetDeadline(time.Now().Add(patience / 2))
						if !c.over() {
							t.Fatal("the connection did not end")
						}
						c.Close()
						heard(t, s.ends, "OnClose")
						neighbour.ask("hello", "answer")
					}
					armed.Store(false)
					if !eventually(patience, func() bool { return s.Stats().Open == 1 }) {
						t.Fatal("a connection is still counted")
					}
					if n := s.Stats().Panics; bad.name == "panic" && n < times {
						t.Errorf("counted %d panics, want at least %d", n, times)
					}
					done := s.shutdown(t.Context())
					neighbour.wantEnd(refusal(engine.ShuttingDown))
					neighbour.Close()
					if got := heard(t, done, "Shutdown returns"); got.Drained != (engine.Drained{Clean: 1}) || got.err != nil {
						t.Errorf("Shutdown ended with %+v and %v, want one clean connection", got.Drained, got.err)
					}
				})
			}
		}
	})
}

// A panic is answered although an earlier message of the same visit has sent a part of its
// reply: only what the message itself has sent counts.
func TestPanicAfterAnEarlierMessageHasFlushed(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "panic" {
				panic("a handler's")
			}
			say(t, "part")
			return t.Flush()
		}})
		c := s.dial(t)
		c.send("flush\npanic\n")
		c.wantEnd("part\n" + refusal(engine.Panicked))
	})
}

// When Refuse panics for one peer during a drain, the others still get their refusals,
// and Shutdown succeeds.
func TestMisbehaviourInRefuseDuringADrain(t *testing.T) {
	const peers = 3
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, bad := range misbehaviours {
			t.Run(bad.name, func(t *testing.T) {
				var once atomic.Bool
				s := serve(t, g, lines{serve: answering.serve, refuse: func(engine.Reason) {
					if once.CompareAndSwap(false, true) {
						bad.do()
					}
				}})
				var all []*client
				for range peers {
					c := s.dial(t)
					c.ask("hello", "answer")
					all = append(all, c)
				}
				done := s.shutdown(t.Context())
				told := 0
				for _, c := range all {
					got, err := io.ReadAll(c.r)
					if err == nil && string(got) == refusal(engine.ShuttingDown) {
						told++
					}
					c.Close()
				}
				if told != peers-1 {
					t.Errorf("%d of %d peers got a refusal, want all but one", told, peers)
				}
				got := heard(t, done, "Shutdown returns")
				if want := (engine.Drained{Clean: peers}); got.Drained != want || got.err != nil {
					t.Errorf("Shutdown ended with %+v and %v, want %+v and no error", got.Drained, got.err, want)
				}
				if n := s.Stats().Panics; bad.name == "panic" && n != 1 {
					t.Errorf("%d panics are counted, want 1", n)
				}
			})
		}
	})
}

// When Refuse panics for a peer over the limit, the process survives, and later peers
// still get a refusal.
func TestMisbehaviourInRefuseOfAPeerTooMany(t *testing.T) {
	const many = 70 // more than are told at once
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		for _, bad := range misbehaviours {
			t.Run(bad.name, func(t *testing.T) {
				if !alone(t) {
					return
				}
				var armed atomic.Bool
				armed.Store(true)
				s := serve(t, g, lines{serve: answering.serve, refuse: func(why engine.Reason) {
					if why == engine.TooManyConns && armed.Load() {
						bad.do()
					}
				}}, func(s *engine.Server) { s.Limits.Conns = 1 })
				first := s.dial(t)
				first.ask("hello", "answer")
				for range many {
					c := s.dial(t)
					if !c.over() {
						t.Fatal("the connection did not end")
					}
					c.Close()
				}
				first.ask("hello again", "answer")
				if n := s.Stats().Panics; bad.name == "panic" && n != many {
					t.Errorf("%d panics are counted, want %d", n, many)
				}
				armed.Store(false)
				c := s.dial(t)
				c.wantEnd(refusal(engine.TooManyConns))
			})
		}
	})
}

// The output and input memory that a handler still holds when it panics is never used for
// another connection, whatever else ends the handler's own.
func TestMemoryHeldByAPanickedHandlerIsNotUsedAgain(t *testing.T) {
	const replies = 40
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, before := range []string{"nothing", "close", "close for a drain", "slow reader"} {
			t.Run(before+" before the panic", func(t *testing.T) {
				held := make(chan []byte, 2)
				var scribble atomic.Pointer[func()] // overwrites what the handler holds
				s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
					if string(line) != "hold" {
						t.Out = append(t.Out, line...)
						if f := scribble.Load(); f != nil {
							(*f)()
						}
						t.Out = append(append(t.Out, line...), '\n')
						return nil
					}
					t.Out = append(t.Out, strings.Repeat("held ", 20)...)
					held <- t.Out[:cap(t.Out)]
					held <- line
					switch before {
					case "close":
						t.Conn().Close(engine.ClosedHere)
					case "close for a drain":
						t.Conn().Close(engine.ShuttingDown)
					case "slow reader":
						part := make([]byte, 256<<10)
						for err := error(nil); err == nil; {
							err = t.Conn().Push(part)
						}
					}
					panic("a handler's")
				}})
				var others []*client
				for range 4 {
					c := s.dial(t)
					c.ask("hello", "hellohello")
					others = append(others, c)
				}
				c := s.dial(t)
				c.send("hold\n")
				out, in := heard(t, held, "a handler"), heard(t, held, "a handler")
				if before == "slow reader" { // reading by the peer would prevent it
					heard(t, s.ends, "OnClose")
					c.Close()
				} else {
					c.SetDeadline(time.Now().Add(patience / 5))
					c.over()
					c.Close()
					heard(t, s.ends, "OnClose")
				}
				f := func() {
					for _, p := range [][]byte{out, in} {
						for i := range p {
							p[i] = 'X'
						}
					}
				}
				scribble.Store(&f)
				bad := 0
				for i := range replies {
					c := others[i%len(others)]
					if i%2 == 1 { // freed memory may go to a new connection
						c = s.dial(t)
					}
					c.send("echo\n")
					line, err := c.r.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if line != "echoecho\n" {
						bad++
					}
				}
				if bad > 0 {
					t.Errorf("%d of %d replies to others contain what the handler wrote into its memory after its panic", bad, replies)
				}
				scribble.Store(nil)
			})
		}
	})
}

// The memory of a message whose handler ends its goroutine counts no longer when the
// connection has ended.
func TestExitReturnsTheInputBudget(t *testing.T) {
	const size, times = 40 << 10, 5
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(*engine.Turn, []byte) error {
			runtime.Goexit()
			return nil
		}})
		for range times {
			c := s.dial(t)
			c.send(strings.Repeat("a", size/2))
			if !eventually(patience, func() bool { return s.Stats().InputMemory > 0 }) {
				t.Fatal("the first half did not arrive")
			}
			c.send(strings.Repeat("a", size/2) + "\n")
			c.over()
			c.Close()
			s.ended(t, engine.Panicked)
		}
		idle := func() bool { st := s.Stats(); return st.InputMemory == 0 && st.Buffers == 0 }
		if !eventually(patience, idle) {
			t.Errorf("%d bytes of input are counted and %d buffers are in use without a connection", s.Stats().InputMemory, s.Stats().Buffers)
		}
	})
}

// ending calls ended at the end of its connections.
type ending struct {
	*lines
	ended func()
}

func (p ending) Ended(engine.Conn, uint64, engine.Reason) { p.ended() }

// OnClose is called also when Ended panics or ends its goroutine.
func TestOnCloseAfterEndedMisbehaves(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, bad := range misbehaviours {
			echo := &lines{serve: func(t *engine.Turn, line []byte) error { return say(t, string(line)) }}
			s := serve(t, g, ending{echo, bad.do})
			for range 3 {
				c := s.dial(t)
				c.ask("hello", "hello")
				c.Close()
				s.ended(t, engine.PeerClosed)
			}
		}
	})
}

// A handler that ends its goroutine loses its own reply, and none before it.
func TestExitLeavesEarlierReplies(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "exit" {
				runtime.Goexit()
			}
			return say(t, "whole "+string(line))
		}})
		c := s.dial(t)
		c.send("1\n2\nexit\n3\n")
		c.wantEnd("whole 1\nwhole 2\n" + refusal(engine.Panicked))
		s.ended(t, engine.Panicked)
	})
}
