package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// Conn.Close ends the connection for any reason: queued output is flushed, the peer is
// sent the reason unless it knows it, the stream ends, and OnClose gets the reason once.
func TestCloseEndsTheConnectionForEveryReason(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		met := make(chan engine.Conn, 1)
		var why atomic.Uint32
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "introduce":
				met <- t.Conn()
			case "close":
				t.Conn().Close(engine.Reason(why.Load()))
			}
			return say(t, "answer")
		}})
		for reason := engine.PeerClosed; reason <= engine.Forced; reason++ {
			why.Store(uint32(reason))
			t.Run(reason.String(), func(t *testing.T) {
				said := refusal(reason)
				if saysItself(reason) {
					said = ""
				}
				t.Run("in a handler", func(t *testing.T) {
					c := s.dial(t)
					c.SetDeadline(time.Now().Add(patience / 2))                       // there are many
					if reason == engine.PeerClosed || reason == engine.ShuttingDown { // what was sent is served
						c.send("close\n")
					} else {
						c.send("close\nnever served\n")
					}
					c.wantEnd("answer\n" + said)
					c.Close()
					s.ended(t, reason)
				})
				t.Run("elsewhere", func(t *testing.T) {
					c := s.dial(t)
					c.SetDeadline(time.Now().Add(patience / 2))
					c.ask("introduce", "answer")
					conn := heard(t, met, "a handler")
					for range 3 {
						if err := conn.Push([]byte("push\n")); err != nil {
							t.Errorf("Push before the close: %v", err)
						}
					}
					conn.Close(reason)
					c.wantEnd("push\npush\npush\n" + said)
					c.Close()
					s.ended(t, reason)
				})
			})
		}
	})
}

// A connection closed by the server costs no CPU time while its peer stays and keeps
// sending.
func TestClosedConnectionDoesNotSpin(t *testing.T) {
	const window, most = 100 * time.Millisecond, 1000 // a busy loop turns tens of thousands of times
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, why := range []engine.Reason{engine.ClosedHere, engine.ShuttingDown, engine.IdleTimeout} {
			met := make(chan engine.Conn, 1)
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				if string(line) == "introduce" {
					met <- t.Conn()
				}
				return say(t, "answer")
			}})
			c := s.dial(t)
			c.ask("introduce", "answer")
			heard(t, met, "a handler").Close(why)
			before := s.Stats().Turns
			deadline := time.After(window)
			ticks := time.NewTicker(window / 10)
			for waiting := true; waiting; {
				select {
				case <-ticks.C:
					io.WriteString(c, "more\n") // the server may have ended the connection
				case <-deadline:
					waiting = false
				}
			}
			ticks.Stop()
			if turns := s.Stats().Turns - before; turns > most {
				t.Errorf("closed for %v: the loops turned %d times in %v, want %d at most", why.String(), turns, window, most)
			}
			c.Close()
			select {
			case got := <-s.ends:
				if got != why {
					t.Errorf("closed for %v, but OnClose got %v", why.String(), got.String())
				}
			case <-time.After(patience / 2):
				t.Errorf("closed for %v, but OnClose was not called although the peer has disconnected", why.String())
			}
		}
	})
}

// When Advance returns a reason, nothing after that message is served, neither input that
// the engine has read nor input in the kernel: the output is flushed, the peer is sent
// the reason once, and the connection ends.
func TestReasonFromAdvanceStopsTheConnection(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, why := range []engine.Reason{engine.ShuttingDown, engine.ClosedHere, engine.IdleTimeout, engine.Malformed} {
			for _, where := range []string{"read", "in the kernel"} {
				t.Run(why.String()+", the rest is "+where, func(t *testing.T) {
					stop := newGate(t)
					s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
						if string(line) != "stop" {
							return say(t, "served "+string(line))
						}
						stop.pass()
						say(t, "stopped")
						if why == engine.Malformed {
							return malformed(t)
						}
						return why
					}})
					c := s.dial(t)
					rest := "two\nthree\n"
					if where == "read" {
						c.send("one\nstop\n" + rest)
						heard(t, stop.entered, "a handler")
					} else {
						c.send("one\nstop\n")
						heard(t, stop.entered, "a handler")
						c.send(rest)
					}
					stop.open()
					said := refusal(why)
					if why == engine.ClosedHere {
						said = ""
					}
					c.SetDeadline(time.Now().Add(patience / 2))
					c.wantEnd("served one\nstopped\n" + said)
					c.Close()
					s.ended(t, why)
				})
			}
		}
	})
}

// Every push accepted by Push is sent before the end of the stream, and before a
// hand-over, in order, however the connection ends; and nothing follows a refusal.
func TestPushThatWasAcceptedIsDelivered(t *testing.T) {
	rounds := testrun.Sized(10, 40)
	grounds := append(over(overTCP), ground{engine.Engine{}, overUnix}, ground{engine.Engine{}, overAdapter})
	oneByOne(t, grounds, func(t *testing.T, g ground) {
		for _, way := range []string{"close", "refuse", "error", "half-close", "take over", "drain"} {
			t.Run(way, func(t *testing.T) {
				s := newPushed(t, g)
				lost, behind := 0, 0
				for range rounds {
					accepted, stream := s.pushUntilTheEnd(t, way)
					before, after, refused := strings.Cut(stream, "refused")
					if refused && strings.Contains(after, "push") {
						behind++
					}
					if before, _, _ = strings.Cut(before, "taken"); refused {
						before += after
					}
					for pusher, n := range accepted {
						if n > 0 && !strings.Contains(before, pushLine(pusher, n-1)) {
							lost++
							break
						}
					}
					if way == "drain" {
						s = newPushed(t, g)
					}
				}
				if lost > 0 {
					t.Errorf("an accepted push did not arrive, or arrived after the hand-over, in %d of %d rounds", lost, rounds)
				}
				if behind > 0 {
					t.Errorf("a push followed a refusal in %d of %d rounds", behind, rounds)
				}
			})
		}
	})
}

// Output posted while the peer reads a large reply follows it, although the peer sends no
// further request, and although the visit after it does not return.
func TestPostedBesideALargeAnswerIsDelivered(t *testing.T) {
	const size, some = 16 << 20, 1 << 20 // the kernel buffers less than the difference
	large := bytes.Repeat([]byte("large "), size/6)
	for way, behind := range map[string]string{"read": "", "serve": "block\n"} {
		t.Run(way, func(t *testing.T) {
			goesOn := func(g ground) bool { return behind == "" || !g.isInline() }
			onEach(t, everywhere(goesOn), func(t *testing.T, g ground) {
				owed, blocked := make(chan engine.Reply, 2), newGate(t)
				s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
					switch string(line) {
					case "late":
						owed <- t.Later()
					case "large":
						t.Out = append(t.Out, large...)
					case "block":
						blocked.pass()
					}
					return nil
				}}, func(s *engine.Server) { s.Limits.StallTime = -1 })
				c := s.dial(t)
				c.send("late\nlate\nlarge\n" + behind)
				if !eventually(patience, func() bool { return s.Stats().Waiting > 0 }) {
					t.Fatal("no output is queued for a peer that does not read")
				}
				heard(t, owed, "a promise").Send([]byte("first\n"))
				c.want(string(large[:some])) // by now somebody waits for the peer to read the rest
				heard(t, owed, "a promise").Send([]byte("second\n"))
				c.want(string(large[some:]) + "first\nsecond\n")
				blocked.open() // before the server is closed
			})
		})
	}
}

// pushLine returns the n-th line of a pusher.
func pushLine(pusher, n int) string { return fmt.Sprintf("push %d %d\n", pusher, n) }

// pushed is a server whose connections end in the requested way.
type pushed struct {
	*server
	met chan engine.Conn
}

func newPushed(t *testing.T, g ground) pushed {
	met := make(chan engine.Conn, 1)
	return pushed{serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
		switch string(line) {
		case "introduce":
			met <- t.Conn()
		case "close":
			t.Conn().Close(engine.ClosedHere)
		case "refuse":
			t.Conn().Close(engine.IdleTimeout)
		case "error":
			return malformed(t)
		case "take over":
			t.TakeOver(forGood(func(nc net.Conn, _ []byte) { io.WriteString(nc, "taken\n") }))
			return errHandedOver
		}
		return nil
	}}, func(s *engine.Server) { s.Limits.HighWater, s.Limits.HardCap = 1<<30, 1<<30 }), met} // unlimited pushes
}

// pushUntilTheEnd pushes numbered lines from other goroutines while a connection ends in
// the given way. It returns how many of each were accepted, and everything that the peer
// read.
func (s pushed) pushUntilTheEnd(t *testing.T, way string) (accepted [2]int, stream string) {
	c := s.dial(t)
	c.send("introduce\n")
	conn := heard(t, s.met, "a handler")
	var pushing sync.WaitGroup
	begun := make(chan struct{}, len(accepted))
	for pusher := range accepted {
		pushing.Go(func() {
			// Not so many at once that the peer counts as a slow reader.
			for n := 0; ; {
				if s.Stats().Waiting > 32<<10 {
					runtime.Gosched()
					continue
				}
				if err := conn.Push([]byte(pushLine(pusher, n))); err != nil {
					if err != engine.ErrClosed {
						t.Errorf("Push returned %v, want ErrClosed", err)
					}
					return
				}
				if n++; n == 1 {
					begun <- struct{}{}
				}
				accepted[pusher] = n
				runtime.Gosched()
			}
		})
	}
	read := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(c.r)
		c.Close()
		read <- string(all)
	}()
	for range accepted {
		heard(t, begun, "a push")
	}
	var done <-chan outcome
	switch way {
	case "half-close":
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case "drain":
		done = s.shutdown(t.Context())
	default:
		c.send(way + "\n")
	}
	stream = heard(t, read, "the end of the stream")
	ended := make(chan struct{})
	go func() { pushing.Wait(); close(ended) }()
	heard(t, ended, "Push answers that the connection has ended")
	if done != nil {
		inPeace(t, done, 1)
	}
	return accepted, stream
}

// After a refusal nothing is pushed any more: Push returns ErrClosed, even while a late
// reply keeps the connection open.
func TestPushAfterARefusalIsNotSent(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		owed := make(chan engine.Reply, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "late" {
				owed <- t.Later()
				return nil
			}
			return malformed(t)
		}})
		c := s.dial(t)
		c.send("late\nbad\n")
		reply := heard(t, owed, "a handler")
		c.want(refusal(engine.Malformed))
		if err := reply.Conn().Push([]byte("push\n")); err != engine.ErrClosed {
			t.Errorf("Push to a refused peer returned %v, want ErrClosed", err)
		}
		reply.Send() // may be too late
		if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
			t.Errorf("after the refusal: %q (%v), want the end of the stream", rest, err)
		}
		c.Close()
		s.ended(t, engine.Malformed)
	})
}

// When one Advance calls TakeOver and returns an error, or panics, the error wins: the
// peer is refused and nobody gets the socket.
func TestErrorBeatsTakeOver(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, why := range []engine.Reason{engine.Malformed, engine.IdleTimeout, engine.Panicked} {
			t.Run(why.String(), func(t *testing.T) {
				var taken atomic.Bool
				s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
					t.TakeOver(forGood(func(nc net.Conn, _ []byte) {
						taken.Store(true)
						io.WriteString(nc, "taken\n")
					}))
					switch why {
					case engine.Malformed:
						return malformed(t)
					case engine.Panicked:
						panic("a handler's")
					}
					return why
				}})
				c := s.dial(t)
				c.send("take\n")
				c.wantEnd(refusal(why))
				c.Close()
				s.ended(t, why)
				if taken.Load() {
					t.Error("the socket was handed over")
				}
			})
		}
	})
}

// A write that fails because the peer has reset the connection ends it as PeerReset, even
// when the peer had not been reading before.
func TestResetDuringAWriteIsPeerReset(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		large := make([]byte, 8<<20)
		for _, how := range []string{"a reply", "a push", "a late reply"} {
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				switch how {
				case "a reply":
					t.Out = append(t.Out, large...)
				case "a push":
					t.Conn().Push(large)
				default:
					go t.Later().Send(large)
				}
				return nil
			}})
			c := s.dial(t)
			c.send("go\n")
			if !eventually(patience, func() bool { return s.Stats().Waiting > 0 }) {
				t.Fatal("no output is queued for the peer")
			}
			if g.network == overUnix {
				c.Close() // unread bytes make it a reset
			} else {
				c.reset()
			}
			if why := heard(t, s.ends, "OnClose"); why != engine.PeerReset {
				t.Errorf("%s: OnClose got %v, want %v", how, why.String(), engine.PeerReset.String())
			}
		}
	})
}

// OnOpen and OnClose are called for the same connections, once each, whenever the server
// is closed.
func TestHooksAgreeWhenTheServerIsClosedAtAnyMoment(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for round := range 8 {
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error { return say(t, string(line)) }})
			var dialing sync.WaitGroup
			for range 8 {
				dialing.Go(func() {
					nc, err := net.Dial(s.addr.Network(), s.addr.String())
					if err != nil {
						return // closed already
					}
					defer nc.Close()
					nc.SetDeadline(time.Now().Add(patience))
					io.WriteString(nc, "hello\n")
					io.Copy(io.Discard, nc)
				})
			}
			eventually(patience, func() bool { return s.Stats().Accepted >= uint64(round) })
			s.Close()
			dialing.Wait()
			if !eventually(patience, func() bool { return s.imbalance() == "" }) {
				t.Error(s.imbalance())
			}
		}
	})
}

// What a visit has held back does not follow its refusal, except for replies: those are
// owed.
func TestNoHeldPushFollowsARefusal(t *testing.T) {
	const inFlight = "with one reply in flight"
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		for _, how := range []string{"with Hold", inFlight} {
			owed := make(chan engine.Reply, 1)
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				if string(line) == "later" {
					owed <- t.Later()
					return nil
				}
				if how != inFlight {
					t.Hold()
				}
				t.Conn().Push([]byte("push\n"))
				select {
				case r := <-owed:
					r.Send([]byte("late\n"))
				default:
				}
				t.Conn().Push([]byte("another push\n"))
				panic("a test's")
			}}, func(s *engine.Server) {
				if how == inFlight {
					s.Limits.InFlight = 1
				}
			})
			c := s.dial(t)
			c.send("panic\n")
			c.wantEnd(refusal(engine.Panicked))
			s.ended(t, engine.Panicked)
			if how != inFlight {
				c = s.dial(t)
				c.send("later\npanic\n")
				c.wantEnd(refusal(engine.Panicked) + "late\n")
				s.ended(t, engine.Panicked)
			}
			if st := s.Stats(); st.Waiting != 0 || st.OutputMemory != 0 {
				t.Errorf("%s: %d bytes wait, and %d are counted", how, st.Waiting, st.OutputMemory)
			}
		}
	})
}

// A peer that closes its side in the middle of a message is told so, after the replies to
// the messages before.
func TestHalfAMessageIsAnswered(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "later" {
				r := t.Later()
				go r.Send([]byte("late\n"))
				return nil
			}
			return say(t, "whole")
		}})
		for _, x := range []struct{ sent, want string }{
			{"one\n", "whole\n"},
			{"ha", refusal(engine.PeerClosed)},
			{"one\nha", "whole\n" + refusal(engine.PeerClosed)},
			{"later\nha", "late\n" + refusal(engine.PeerClosed)},
		} {
			c := s.dial(t)
			c.send(x.sent)
			c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			c.wantEnd(x.want)
			s.ended(t, engine.PeerClosed)
		}
	})
}

// locking is an adapter that sets deadlines under a lock of its own.
type locking struct {
	net.Conn
	mu     sync.Mutex
	waited chan struct{} // a setter has to wait for the lock
}

func (l *locking) locked(set func(time.Time) error, at time.Time) error {
	if !l.mu.TryLock() {
		select {
		case l.waited <- struct{}{}:
		default:
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return set(at)
}

func (l *locking) SetReadDeadline(at time.Time) error { return l.locked(l.Conn.SetReadDeadline, at) }
func (l *locking) SetDeadline(at time.Time) error     { return l.locked(l.Conn.SetDeadline, at) }

// An adapter may set deadlines under a lock that its other goroutines hold around calls of its
// connection: the engine holds no lock of its own meanwhile.
func TestDeadlinesUnderALockOfTheAdapter(t *testing.T) {
	onEach(t, over(overAdapter), func(t *testing.T, g ground) {
		adapters, opened := make(chan *locking, 1), make(chan engine.Conn, 1)
		ln := adapting{listen(t, overTCP), func(nc net.Conn) net.Conn {
			l := &locking{Conn: nc, waited: make(chan struct{}, 1)}
			adapters <- l
			return l
		}}
		s := serveOn(t, g, ln, echoLines(), func(s *engine.Server) {
			s.OnOpen = func(c engine.Conn) { opened <- c }
			s.Limits.IdleTime = time.Second
		})
		c := s.dial(t)
		c.ask("hello", "hello")
		l, conn := heard(t, adapters, "the adapter"), heard(t, opened, "the connection")
		l.mu.Lock()
		heard(t, l.waited, "the idle timeout")
		pushed := make(chan error, 1)
		go func() { pushed <- conn.Push([]byte("pushed\n")) }()
		heard(t, pushed, "Push returns")
		s.Stats()
		l.mu.Unlock()
		if all, _ := io.ReadAll(c); !strings.HasSuffix(string(all), refusal(engine.IdleTimeout)) {
			t.Errorf("the client reads %q", all)
		}
	})
}
