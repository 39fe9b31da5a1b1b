package framed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// inMemory runs test in a bubble with a Mux whose dials are served by serve on the other
// end of a pipe; dial counts from 0.
func inMemory(t *testing.T, m *framed.Mux, serve func(dial int, p *peer), test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		var serving sync.WaitGroup
		defer serving.Wait()
		defer m.Close()
		m.Dial = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			dial := int(dials.Add(1)) - 1
			serving.Go(func() {
				defer far.Close()
				serve(dial, &peer{far, t, bufio.NewReader(far)})
			})
			return near, nil
		}
		test(t)
	})
}

// serveEcho answers every packet until the connection ends.
func serveEcho(_ int, p *peer) {
	for {
		got, err := p.tryPacket()
		if err != nil {
			return
		}
		answer := wire.Packet{Command: wire.SubmitAck, ID: got.ID, Content: got.Content}
		if got.Command == wire.Conn {
			answer = wire.Packet{Command: wire.ConnAck, ID: got.ID}
		}
		if _, err := p.Write(wire.Append(nil, answer)); err != nil {
			return
		}
	}
}

// serveNothing reads until the connection ends.
func serveNothing(_ int, p *peer) { io.Copy(io.Discard, p) }

func wantEcho(t *testing.T, m *framed.Mux, content string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := m.Call(ctx, nil, []byte(content)); err != nil || string(got) != content {
		t.Errorf("Call(%q) returned %q and %v", content, got, err)
	}
}

func TestMuxWaitsForAConnection(t *testing.T) {
	m := &framed.Mux{}
	inMemory(t, m, serveEcho, func(t *testing.T) {
		dial, down := m.Dial, errors.New("down")
		start := time.Now()
		var pauses []time.Duration
		last := start
		m.Dial = func(ctx context.Context) (net.Conn, error) {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			if time.Since(start) < time.Minute {
				return nil, down
			}
			return dial(ctx)
		}
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() { // half of them give up
				wait := time.Hour
				if i%2 == 0 {
					wait = time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				_, err := m.Call(ctx, nil, nil)
				took := time.Since(start)
				if i%2 == 0 && (took != time.Second || !errors.Is(err, framed.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, down)) {
					t.Errorf("a call without a connection returned after %v: %v", took, err)
				}
				if i%2 == 1 && (err != nil || took > time.Minute+5*time.Second) {
					t.Errorf("a call that waited returned after %v: %v", took, err)
				}
			})
		}
		callers.Wait()
		if pauses[0] != 0 || pauses[1] < 25*time.Millisecond || pauses[1] > 50*time.Millisecond {
			t.Errorf("the first dials came after %v", pauses[:2])
		}
		for i, p := range pauses[9:] {
			if p < 2500*time.Millisecond || p > 5*time.Second {
				t.Errorf("dial %d came after %v, want 2.5 to 5 s", 9+i, p)
			}
		}
		s := m.Stats()
		if int(s.DialsFailed) != len(pauses)-1 || s.Dialled != 1 || s.LastError != down || s.Waiting != 0 || s.Conns != 1 {
			t.Errorf("after %d dials: %+v", len(pauses), s)
		}
	})
}

// A server that accepts and closes is dialled with backoff.
func TestMuxPausesBeforeAServerThatCloses(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(int, *peer)
		most  uint64
	}{
		"at once":             {func(int, *peer) {}, 45},
		"with the first call": {func(_ int, p *peer) { p.tryPacket() }, 45},
		"having answered":     {func(_ int, p *peer) { got := p.packet(); p.send(ack(got.ID, "")) }, 2500},
	} {
		t.Run(name, func(t *testing.T) {
			m := &framed.Mux{}
			inMemory(t, m, test.serve, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for ctx.Err() == nil {
					m.Call(ctx, nil, []byte("x"))
				}
				if s := m.Stats(); s.Dialled > test.most || s.Dialled < 10 || s.Lost+1 < s.Dialled {
					t.Errorf("in a minute: %+v, want 10 to %d dials", s, test.most)
				}
			})
		})
	}
}

func TestMuxDialTakesTooLong(t *testing.T) {
	m := &framed.Mux{DialTime: time.Second, Credentials: func(context.Context) ([]byte, error) { return nil, nil }}
	inMemory(t, m, func(dial int, p *peer) {
		if dial == 0 {
			serveNothing(dial, p) // does not answer the credentials
			return
		}
		serveEcho(dial, p)
	}, func(t *testing.T) {
		start := time.Now()
		wantEcho(t, m, "x")
		if took := time.Since(start); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("it took %v, want DialTime and a pause", took)
		}
	})
}

// What was not sent goes to another connection; what may have been sent fails.
func TestMuxSendsAgainOnlyWhatWasNotSent(t *testing.T) {
	const calls = 5
	m := &framed.Mux{}
	var first *peer
	var closed chan struct{}
	inMemory(t, m, func(dial int, p *peer) {
		if dial > 0 {
			serveEcho(dial, p)
			return
		}
		first, closed = p, make(chan struct{})
		p.packet()
		<-closed
	}, func(t *testing.T) {
		m.Open(t.Context())
		synctest.Wait()
		var ends [calls]chan callEnd
		for i := range calls {
			ends[i] = make(chan callEnd, 1)
			go func() {
				reply, err := m.Call(t.Context(), nil, fmt.Append(nil, i))
				ends[i] <- callEnd{string(reply), err}
			}()
			synctest.Wait() // only the first is read: the writer holds the second alone
		}
		first.Close()
		close(closed)
		for i := range calls {
			o := <-ends[i]
			switch failed := errors.Is(o.err, framed.ErrClosed) && !errors.Is(o.err, framed.ErrNotSent); {
			case i == 0 && failed, i == 1 && failed: // it was sent; the writer was writing it
			case i == 0 || o.err != nil || o.reply != fmt.Sprint(i):
				t.Errorf("call %d was answered with %q and %v", i, o.reply, o.err)
			}
		}
	})
}

func TestMuxEndsAStalledConnection(t *testing.T) {
	m := &framed.Mux{StallTime: 8 * time.Second, Heartbeat: -1}
	inMemory(t, m, func(dial int, p *peer) {
		for dial == 0 { // answers all but "never"
			got, err := p.tryPacket()
			if err != nil {
				return
			}
			if string(got.Content) != "never" {
				p.send(ack(got.ID, string(got.Content)))
			}
		}
		serveEcho(dial, p)
	}, func(t *testing.T) {
		wantEcho(t, m, "first")
		<-time.After(time.Hour) // an idle connection does not stall
		wantEcho(t, m, "second")
		start := time.Now()
		stalled := make(chan error, 1)
		go func() {
			_, err := m.Call(t.Context(), nil, []byte("never"))
			stalled <- err
		}()
		for range 79 { // others are answered meanwhile
			<-time.After(100 * time.Millisecond)
			wantEcho(t, m, "meanwhile")
		}
		err := <-stalled
		took := time.Since(start)
		if !errors.Is(err, framed.ErrStalled) || !errors.Is(err, framed.ErrClosed) || errors.Is(err, framed.ErrNotSent) {
			t.Errorf("the stalled call returned %v", err)
		}
		if took < 8*time.Second || took > 10*time.Second {
			t.Errorf("it was closed after %v, want 8 to 10 s", took)
		}
		wantEcho(t, m, "on another connection")
		if s := m.Stats(); s.Stalled != 1 || s.Lost != 1 || s.Dialled != 2 || !errors.Is(s.LastError, framed.ErrStalled) {
			t.Errorf("%+v", s)
		}
	})
}

// A dead path is detected although every caller gives up long before StallTime.
func TestMuxStallIsSeenBehindShortDeadlines(t *testing.T) {
	for name, dead := range map[string]func(int, *peer){
		"the server does not answer": serveNothing,
		"the server does not read":   func(int, *peer) { <-time.After(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			m := &framed.Mux{StallTime: 8 * time.Second}
			inMemory(t, m, func(dial int, p *peer) {
				if dial == 0 {
					dead(dial, p)
				}
				serveEcho(dial, p)
			}, func(t *testing.T) {
				start := time.Now()
				for m.Stats().Lost == 0 && time.Since(start) < time.Hour {
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					m.Call(ctx, nil, []byte("x"))
					cancel()
				}
				if took := time.Since(start); took < 8*time.Second || took > 11*time.Second {
					t.Errorf("it was closed after %v, want 8 to 10 s and a call", took)
				}
				wantEcho(t, m, "x")
				if s := m.Stats(); s.Stalled != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestMuxHeartbeat(t *testing.T) {
	const idleTime = 3 * time.Minute
	for name, test := range map[string]struct {
		heartbeat time.Duration
		callEvery time.Duration
		most      uint64 // heartbeats
		lost      bool
	}{
		"by default":      {0, 0, 60, false},
		"switched off":    {-1, 0, 0, true},
		"not needed":      {0, 30 * time.Second, 0, false},
		"now and then":    {0, 5 * time.Minute, 60, false},
		"custom interval": {10 * time.Second, 0, 360, false},
		"not often":       {4 * time.Minute, 0, 0, true},
		"at the limit":    {idleTime / 2, 0, 40, false},
		"calls just off":  {0, 61 * time.Second, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var beats atomic.Uint64
			m := &framed.Mux{Heartbeat: test.heartbeat}
			inMemory(t, m, func(dial int, p *peer) {
				for dial == 0 {
					p.SetReadDeadline(time.Now().Add(idleTime))
					got, err := p.tryPacket()
					if err != nil {
						return
					}
					if got.Command == wire.Conn {
						if len(got.Content) > 0 {
							t.Errorf("a heartbeat brought %q", got.Content)
						}
						beats.Add(1)
						p.send(packet(wire.ConnAck, got.ID, wire.Unauthorised, "who are you?"))
						continue
					}
					p.send(ack(got.ID, string(got.Content)))
				}
				serveEcho(dial, p)
			}, func(t *testing.T) {
				m.Open(t.Context())
				end := time.Now().Add(time.Hour)
				for test.callEvery > 0 && time.Now().Before(end) {
					wantEcho(t, m, "x")
					<-time.After(test.callEvery)
				}
				<-time.After(time.Until(end))
				synctest.Wait()
				if s := m.Stats(); s.Lost > 0 != test.lost || s.InFlight > 0 {
					t.Errorf("after an hour: %+v; want a lost connection: %t", s, test.lost)
				}
				if n := beats.Load(); n > test.most || test.most > 0 && n < test.most/3 {
					t.Errorf("%d heartbeats, want at most %d", n, test.most)
				}
			})
		})
	}
}

func TestMuxTakesTheLessLoaded(t *testing.T) {
	m := &framed.Mux{Conns: 2}
	inMemory(t, m, func(dial int, p *peer) {
		if dial == 0 {
			serveNothing(dial, p)
		}
		serveEcho(dial, p)
	}, func(t *testing.T) {
		m.Open(t.Context())
		synctest.Wait() // for the second connection
		ctx, cancel := context.WithCancel(t.Context())
		var stuck sync.WaitGroup
		for range 100 {
			stuck.Go(func() { m.Call(ctx, nil, []byte("x")) })
			synctest.Wait()
		}
		if s := m.Stats(); s.InFlight != 1 || s.Conns != 2 {
			t.Errorf("%+v, want one call that waits on the stuck connection", s)
		}
		cancel()
		stuck.Wait()
	})
}

func TestMuxCloseEndsEveryWait(t *testing.T) {
	for name, test := range map[string]struct {
		serve  func(int, *peer)
		dial   func(context.Context) (net.Conn, error)
		unsent int
	}{
		"for answers": {serve: serveNothing, unsent: 6},
		"for a dial": {unsent: 10, dial: func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"for the next dial": {unsent: 10, dial: func(context.Context) (net.Conn, error) { return nil, io.ErrNoProgress }},
	} {
		t.Run(name, func(t *testing.T) {
			m := &framed.Mux{DialTime: time.Hour, Client: framed.ClientOptions{Window: 4}}
			inMemory(t, m, test.serve, func(t *testing.T) {
				if test.dial != nil {
					m.Dial = test.dial
				}
				ends := make(chan error, 10)
				for range cap(ends) {
					go func() {
						_, err := m.Call(t.Context(), nil, nil)
						ends <- err
					}()
				}
				<-time.After(time.Minute)
				start := time.Now()
				m.Close()
				unsent := 0
				for range cap(ends) {
					err := <-ends
					if !errors.Is(err, framed.ErrClosed) {
						t.Errorf("a call returned %v", err)
					}
					if errors.Is(err, framed.ErrNotSent) {
						unsent++
					}
				}
				if took := time.Since(start); took > 0 || unsent != test.unsent {
					t.Errorf("it took %v; %d were not sent, want %d", took, unsent, test.unsent)
				}
				if _, err := m.Call(t.Context(), nil, nil); !errors.Is(err, framed.ErrClosed) || !errors.Is(err, framed.ErrNotSent) {
					t.Errorf("after Close, Call returned %v", err)
				}
				if s := m.Stats(); s.Conns+s.InFlight+s.Waiting > 0 {
					t.Errorf("after Close: %+v", s)
				}
			})
		})
	}
}

// The server's reply to the credentials, a refusal or not, reaches OnConnect before any
// call uses the connection.
func TestMuxTellsWhatTheServerAnswersToCredentials(t *testing.T) {
	type told struct {
		answer string
		err    error
	}
	var heard []told // written by the keeper, and read when calls have been answered
	m := &framed.Mux{
		Credentials: func(context.Context) ([]byte, error) { return []byte("secret"), nil },
		OnConnect:   func(answer []byte, err error) { heard = append(heard, told{string(answer), err}) },
	}
	inMemory(t, m, func(dial int, p *peer) {
		credentials, err := p.tryPacket()
		switch {
		case err != nil:
		case dial == 0:
			p.Write(packet(wire.ConnAck, credentials.ID, wire.Unauthorised, "try the other door"))
		case dial == 1: // no reply to the credentials: an outage
			p.Write(packet(wire.ConnAck, 0, wire.Overloaded, "later"))
		default:
			p.Write(packet(wire.ConnAck, credentials.ID, wire.OK, "last seen: 7"))
			serveEcho(dial, p)
		}
	}, func(t *testing.T) {
		if err := m.Open(t.Context()); !errors.Is(err, wire.Unauthorised) || !errors.Is(err, framed.ErrNotSent) {
			t.Errorf("Open returned %v", err)
		}
		for m.Stats().Conns == 0 {
			<-time.After(time.Second)
		}
		wantEcho(t, m, "welcome")
		want := []told{{"try the other door", wire.Unauthorised}, {"last seen: 7", nil}}
		if !slices.Equal(heard, want) {
			t.Errorf("OnConnect got %v, want %v", heard, want)
		}
	})
}

// A Client's Connect returns the content too.
func TestClientConnectReturnsTheContentOfARefusal(t *testing.T) {
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		go func() { s.send(packet(wire.ConnAck, s.packet().ID, wire.Unauthorised, "in a minute")) }()
		got, err := s.c.Connect(t.Context(), []byte("dst, "), nil)
		if err != wire.Unauthorised || string(got) != "dst, in a minute" {
			t.Errorf("Connect returned %q and %v", got, err)
		}
	})
}
