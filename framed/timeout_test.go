package framed_test

import (
	"bytes"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/wire"
)

// There are two kinds of tests here. Those in fake time use the default limits, on
// in-memory connections, and are exact. Those on sockets use shorter limits, and cover
// every engine's own way of waiting.

// onFakeTime is run in a bubble of fake time.
func onFakeTime(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	runPlain(t, func(t *testing.T, e engine.Engine) {
		synctest.Test(t, func(t *testing.T) { test(t, e) })
	})
}

// memoryListener accepts connections in memory.
type memoryListener struct{ *fakenet.Listener }

func (l memoryListener) dial(t *testing.T) *peer {
	t.Helper()
	nc, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	p := peerOf(t, nc)
	p.SetDeadline(time.Time{})
	return p
}

// serveInMemory is serve on a memoryListener.
func serveInMemory(t *testing.T, s *framed.Server) memoryListener {
	t.Helper()
	ln := memoryListener{fakenet.Listen()}
	ln.Limit = 512 // what a peer has not read, the server still has
	serveOn(t, s, ln)
	return ln
}

// passes advances time.
func passes(d time.Duration) { <-time.After(d) }

// within checks that something ended when limit was reached, not before and not much
// later: an engine's clock is coarse.
func within(t *testing.T, begun time.Time, limit time.Duration) {
	t.Helper()
	const coarse = time.Second
	if took := time.Since(begun); took < limit || took > limit+coarse {
		t.Errorf("ended after %v, want %v to %v", took, limit, limit+coarse)
	}
}

// trickle sends b in pieces, one now and one after every interval, until all are sent or
// the connection ends, while the caller reads.
func (p *peer) trickle(b []byte, piece int, every time.Duration) {
	done := make(chan struct{})
	p.t.Cleanup(func() {
		p.Close()
		<-done
	})
	go func() {
		defer close(done)
		for len(b) > 0 {
			n := min(len(b), piece)
			if _, err := p.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
			passes(every)
		}
	}()
}

func TestFrameTimeIsAbsoluteByDefault(t *testing.T) {
	const tick = time.Second / 1024 // per byte at the minimum rate
	whole := append([]byte{0, 1, 0, 0}, make([]byte, 64<<10-4)...)
	for _, c := range []struct {
		name  string
		sent  []byte
		piece int
		every time.Duration
		limit time.Duration // 5 s plus the size, as far as known, at 1 KiB/s
	}{
		{"a byte of the length and silence", []byte{0}, 1, 0, 5*time.Second + 4*tick},
		{"a byte of the length now and then", []byte{0, 0, 0}, 1, 1600 * time.Millisecond, 5*time.Second + 4*tick},
		{"the rest of the length in the last moment", []byte{0, 0, 0, 20}, 3, 4900 * time.Millisecond, 5*time.Second + 20*tick},
		{"a length of 64 KiB and silence", whole[:4], 4, 0, 69 * time.Second},
		{"64 KiB, and a byte now and then", whole, 4, time.Second, 69 * time.Second},
		{"64 KiB at 900 B/s", whole, 900, time.Second, 69 * time.Second},
		{"half a request", submit(2, "half")[:8], 8, 0, 5*time.Second + 17*tick},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, e engine.Engine) {
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				p := serveInMemory(t, s).dial(t)
				p.exchange(1, "a good one")
				begun := time.Now()
				p.trickle(c.sent, c.piece, c.every)
				p.wantRefusal(wire.TooSlow)
				within(t, begun, c.limit)
				p.Close()
				ended(t, s, engine.FrameTimeout, 1)
			})
		})
	}
}

func TestFrameAsSlowAsAllowedIsServed(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		p := serveInMemory(t, s).dial(t)
		content := string(filler(60 << 10))
		for range 3 { // every frame has its own time
			p.trickle(submit(1, content), 1000, time.Second)
			if got := p.packet(); string(got.Content) != content {
				t.Fatalf("got %v %v with %d bytes", got.Command, got.Result, len(got.Content))
			}
			passes(2 * time.Second)
		}
	})
}

// A protocol that cannot know how much a message still needs asks byte by byte. FrameTime
// still applies.
func TestFrameTimeIsAbsoluteForLinesToo(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &engine.Server{Engine: e, Protocol: lines{}}
		ln := memoryListener{fakenet.Listen()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		defer func() {
			s.Close()
			<-served
		}()
		p := ln.dial(t)
		begun := time.Now()
		p.trickle(bytes.Repeat([]byte("x"), 60), 1, time.Second)
		rest, err := io.ReadAll(p.r)
		if err != nil || string(rest) != "frame_timeout\n" {
			t.Errorf("read %q (%v)", rest, err)
		}
		within(t, begun, 5*time.Second)
	})
}

// lines is a line protocol that echoes each line.
type lines struct{}

func (lines) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		n := bytes.IndexByte(in[used:], '\n')
		if n < 0 {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		t.Out = append(t.Out, in[used:used+n+1]...)
		used += n + 1
	}
}

func (lines) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return append(append(dst, why.String()...), '\n')
}

func TestIdleTimeByDefault(t *testing.T) {
	const idle = 3 * time.Minute
	h := func(made chan<- framed.Reply) framed.HandlerFunc {
		return func(c framed.Call, dst, req []byte) ([]byte, error) {
			switch string(req) {
			case "late":
				made <- c.Later()
			case "slow":
				passes(10 * time.Minute)
			}
			return append(dst, req...), nil
		}
	}
	for _, c := range []struct {
		name string
		live func(p *peer, made <-chan framed.Reply) // what it does before it becomes silent
	}{
		{"nothing was ever asked", func(p *peer, made <-chan framed.Reply) {}},
		{"something was asked", func(p *peer, made <-chan framed.Reply) { p.exchange(1, "something") }},
		{"it sent heartbeats", func(p *peer, made <-chan framed.Reply) {
			for id := range uint64(30) {
				passes(idle - time.Second)
				p.beat(id)
			}
		}},
		{"a handler took its time", func(p *peer, made <-chan framed.Reply) { p.exchange(1, "slow") }},
		{"a late reply took its time", func(p *peer, made <-chan framed.Reply) {
			p.send(submit(1, "late"))
			r := <-made
			passes(10 * time.Minute)
			r.Send([]byte("late"))
			p.want(ack(1, "late"))
		}},
		{"a late reply took its time, and its reader too", func(p *peer, made <-chan framed.Reply) {
			p.send(submit(1, "late"))
			r := <-made
			passes(10 * time.Minute)
			content := filler(198 << 10) // its last piece is longer than what the connection holds
			r.Send(content)
			p.wantSlowly(ack(1, string(content)), 4<<10, time.Second)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, e engine.Engine) {
				made := make(chan framed.Reply, 1)
				s := &framed.Server{Engine: e, Handler: h(made)}
				p := serveInMemory(t, s).dial(t)
				c.live(p, made)
				silent := time.Now()
				p.wantRefusal(wire.Idle)
				within(t, silent, idle)
				p.Close()
				ended(t, s, engine.IdleTimeout, 1)
			})
		})
	}
}

func TestStallTimeByDefault(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: replies(filler(200 << 10))}
		p := serveInMemory(t, s).dial(t)
		p.send(submit(1, ""))
		if _, err := io.ReadFull(p.Conn, make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
		stalled := time.Now()
		for i := 0; s.Stats().Open > 0 && i < 1000; i++ {
			passes(100 * time.Millisecond)
		}
		within(t, stalled, 10*time.Second)
		wantCounted(t, s, map[engine.Reason]uint64{engine.WriteStall: 1})
	})
}

// A slow peer has StallTime for every 32 KiB.
func TestReaderAsSlowAsAllowedGetsEverything(t *testing.T) {
	content := filler(1 << 20)
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		p := serveInMemory(t, &framed.Server{Engine: e, Handler: replies(content)}).dial(t)
		p.send(submit(1, ""))
		p.wantSlowly(ack(1, string(content)), 4<<10, time.Second)
		p.exchangeFiller(2, content)
	})
}

// wantSlowly is want with a pause between pieces, and without the bytes in its message.
func (p *peer) wantSlowly(want []byte, piece int, pause time.Duration) {
	p.t.Helper()
	for at := 0; at < len(want); at += piece {
		if at > 0 {
			passes(pause)
		}
		got := make([]byte, min(piece, len(want)-at))
		if n, err := io.ReadFull(p.Conn, got); err != nil || !bytes.Equal(got, want[at:at+len(got)]) {
			p.t.Fatalf("after %d of %d bytes: %d more, %v, correct: %v", at, len(want), n, err, bytes.HasPrefix(want[at:], got[:n]))
		}
	}
}

func TestLingerTimeByDefault(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		p := serveInMemory(t, s).dial(t)
		p.send([]byte{0, 0, 0, 3})
		p.wantRefusal(wire.Malformed)
		refused := time.Now()
		p.trickle(make([]byte, 1000), 1, 100*time.Millisecond)
		ended(t, s, engine.Malformed, 1)
		within(t, refused, 2*time.Second)
	})
}

func TestHalfClosedPeerIsNotOwedForEver(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		h, made := promises()
		s := &framed.Server{Engine: e, Handler: h}
		p := serveInMemory(t, s).dial(t)
		p.send(submit(1, ""))
		p.closeWrite()
		begun := time.Now()
		<-made
		if _, err := p.tryPacket(); err == nil {
			t.Error("an unexpected reply")
		}
		within(t, begun, 3*time.Minute)
		gone(t, s, 1)
	})
}

func TestTLSHandshakeHasAFramesTimeByDefault(t *testing.T) {
	config, hello := tlsConfig(t), clientHello(t)
	for name, said := range map[string][]byte{"half a hello": hello[:len(hello)/2], "nothing": nil, "all but the end": hello} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, e engine.Engine) {
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				ln := memoryListener{fakenet.Listen()}
				serveOn(t, s, engine.NewTLSListener(ln, config))
				p := ln.dial(t)
				begun := time.Now()
				if said != nil {
					p.send(said)
				}
				io.Copy(io.Discard, p)
				within(t, begun, 5*time.Second)
				p.Close()
				ended(t, s, engine.FrameTimeout, 1)
			})
		})
	}
}

// A limit below zero is no limit, not a very short one.
func TestLimitsBelowZeroAreOff(t *testing.T) {
	off := engine.Limits{
		FrameTime: -1, FrameRate: math.MaxInt, FrameSize: math.MaxInt, IdleTime: -1, HighWater: -1, HardCap: -1, StallTime: -1,
		LingerTime: -1, InFlight: -1, TotalOutput: -1, Conns: -1, ConnsPerAddress: -1,
	}
	const long = 24 * time.Hour
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		h, made := conns()
		s := &framed.Server{Engine: e, Handler: h, Limits: off}
		ln := serveInMemory(t, s)
		partial, idle, refused, blocked := ln.dial(t), ln.dial(t), ln.dial(t), ln.dial(t)
		large := string(filler(1 << 20))
		partial.send(submit(1, large)[:3])
		refused.send([]byte{0, 0, 0, 3})
		refused.wantRefusal(wire.Malformed)
		blocked.send(submit(1, large))
		pushed := <-made
		for id := range uint64(10) { // 10 MiB are queued
			if err := pushed.Push(id, []byte(large)); err != nil {
				t.Fatalf("push: %v", err)
			}
		}
		for range 10 {
			passes(long / 10)
			if n := s.Stats().Open; n != 4 {
				t.Fatalf("%d connections open, want 4; ended: %v", n, s.Stats().Ended)
			}
		}
		partial.send(submit(1, large)[3:])
		if got := partial.packet(); string(got.Content) != large {
			t.Fatalf("got %v with %d bytes", got.Command, len(got.Content))
		}
		idle.exchange(1, "good morning")
		for range 11 { // the reply among the pushes
			if got := blocked.packet(); string(got.Content) != large {
				t.Fatalf("got %v with %d bytes", got.Command, len(got.Content))
			}
		}
	})
}

// Tests on sockets, with shorter limits.

const (
	frameTime = 200 * time.Millisecond
	idleTime  = 300 * time.Millisecond
	// busy is how late a busy machine may be: even so, an end is earlier than with the
	// default FrameTime or IdleTime.
	busy = 4 * time.Second
)

// between checks the time of an end on a real clock.
func between(t *testing.T, begun time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(begun); took < least || took > most+busy {
		t.Errorf("ended after %v, want %v to %v", took, least, most)
	}
}

func TestTrickledFrameIsTooSlow(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameTime: frameTime, FrameRate: 1 << 20}}
		addr := serve(t, s)
		neighbour := dial(t, addr)
		p := dial(t, addr)
		begun := time.Now()
		p.trickle(submit(1, string(filler(1000))), 1, 20*time.Millisecond)
		p.wantRefusal(wire.TooSlow)
		between(t, begun, frameTime, 2*frameTime)
		neighbour.exchange(1, "not slow at all")
		p.Close()
		ended(t, s, engine.FrameTimeout, 1)
	})
}

func TestLargeFrameHasTheTimeOfItsSize(t *testing.T) {
	const frameTime = time.Second // a busy machine may use up some of it between the pieces
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameTime: frameTime, FrameRate: 16 << 10}}
		addr := serve(t, s)
		content := string(filler(32 << 10)) // two seconds more
		slow, tooSlow := dial(t, addr), dial(t, addr)
		frame := submit(1, content)
		begun := time.Now()
		tooSlow.send(frame[:len(frame)-1])
		slow.trickle(frame, 9000, 400*time.Millisecond)
		if got := slow.packet(); string(got.Content) != content {
			t.Fatalf("got %v %v with %d bytes", got.Command, got.Result, len(got.Content))
		}
		tooSlow.wantRefusal(wire.TooSlow)
		between(t, begun, frameTime+2*time.Second, 2*frameTime+2*time.Second)
		tooSlow.Close()
		ended(t, s, engine.FrameTimeout, 1)
	})
}

func TestIdleConnectionIsClosedAndSaidWhy(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{IdleTime: idleTime}}
		addr := serve(t, s)
		p, never := dial(t, addr), dial(t, addr)
		p.exchange(1, "something")
		silent := time.Now()
		p.wantRefusal(wire.Idle)
		between(t, silent, idleTime-10*time.Millisecond, 2*idleTime) // the reply took time
		never.wantRefusal(wire.Idle)
		p.Close()
		never.Close()
		ended(t, s, engine.IdleTimeout, 2)
	})
}

// A client that waits for the server is not idle.
func TestPeerThatWaitsForAnAnswerIsNotIdle(t *testing.T) {
	const idleTime = time.Second // a busy machine may use up some of it between a pause and the next request
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		made, release := make(chan framed.Reply, 1), make(chan struct{})
		s := &framed.Server{Engine: e, Limits: engine.Limits{IdleTime: idleTime}, Handler: framed.HandlerFunc(
			func(c framed.Call, dst, req []byte) ([]byte, error) {
				switch string(req) {
				case "late":
					made <- c.Later()
				case "slow":
					select {
					case <-release:
					case <-c.Context().Done():
					}
				}
				return append(dst, req...), nil
			})}
		addr := serve(t, s)
		late, slow, beating := dial(t, addr), dial(t, addr), dial(t, addr)
		late.send(submit(1, "late"))
		r := take(t, "the request reaches its handler", made)
		slow.send(submit(1, "slow"))
		for id := range uint64(5) { // longer than idleTime
			passes(idleTime / 3)
			beating.beat(id)
		}
		close(release)
		slow.want(ack(1, "slow"))
		slow.exchange(2, "and goes on")
		if err := r.Send([]byte("late")); err != nil {
			t.Fatalf("the late reply: %v", err)
		}
		late.want(ack(1, "late"))
		passes(idleTime / 3) // the sweeper checks it in this time
		late.exchange(2, "and goes on")
		beating.exchange(99, "and goes on")
	})
}

// While the server does not read, the client's frame timer stands still.
func TestFrameClockStandsStillWhileTheServerDoesNotRead(t *testing.T) {
	limits := engine.Limits{FrameTime: frameTime, FrameRate: 1 << 20, InFlight: 2}
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		t.Run("replies outstanding", func(t *testing.T) {
			h, made := promises()
			s := &framed.Server{Engine: e, Handler: h, Limits: limits}
			p := dial(t, serve(t, s))
			p.send(append(requests(3), submit(3, "the fourth")[:9]...))
			first, second := take(t, "the first request", made), take(t, "the second", made)
			passes(3 * frameTime)
			if now := s.Stats(); now.Owed != 2 || now.Open != 1 || now.Requests != 2 {
				t.Fatalf("%d replies owed for %d requests on %d connections after a while, want 2 for 2 on 1", now.Owed, now.Requests, now.Open)
			}
			first.Send(nil)
			second.Send(nil)
			take(t, "the third", made).Send(nil)
			p.send(submit(3, "the fourth")[9:])
			take(t, "the fourth", made).Send(nil)
			seen := map[uint64]bool{}
			for range 4 {
				seen[p.packet().ID] = true
			}
			if len(seen) != 4 {
				t.Errorf("replies to %v, want four", seen)
			}
		})
		t.Run("the peer does not read", func(t *testing.T) {
			content := filler(1 << 20)
			s := &framed.Server{Engine: e, Handler: replies(content), Limits: limits}
			p := dial(t, serveNarrow(t, s))
			p.send(append(submit(1, ""), submit(2, "the second")[:9]...))
			eventually(t, "output is queued", func() bool { return s.Stats().Waiting > 0 })
			passes(3 * frameTime)
			for _, rest := range [][]byte{submit(2, "the second")[9:], nil} {
				if got := p.packet(); got.Command != wire.SubmitAck || !bytes.Equal(got.Content, content) {
					t.Fatalf("got %v %v with %d bytes", got.Command, got.Result, len(got.Content))
				}
				p.send(rest)
			}
		})
	})
}

func TestHalfATLSHandshakeIsClosedInAFramesTime(t *testing.T) {
	hello := clientHello(t)
	waiting.runPlain(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameTime: frameTime}}
		addr := serveTLS(t, s)
		begun := time.Now()
		for _, said := range [][]byte{nil, hello[:1], hello[:len(hello)/2]} {
			dial(t, addr).send(said)
		}
		dialTLS(t, addr).exchange(1, "not bothered")
		eventually(t, "three handshakes have timed out", func() bool { return s.Stats().Ended[engine.FrameTimeout] == 3 })
		between(t, begun, frameTime, 2*frameTime)
	})
}

func TestRefusedPeerThatStaysIsClosedAfterLingerTime(t *testing.T) {
	const linger = 200 * time.Millisecond
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{LingerTime: linger}}
		p := dial(t, serve(t, s))
		begun := time.Now()
		p.send([]byte{0, 0, 0, 3})
		p.wantRefusal(wire.Malformed)
		p.trickle(make([]byte, 1000), 1, 10*time.Millisecond)
		ended(t, s, engine.Malformed, 1)
		between(t, begun, linger, 2*linger)
	})
}

func TestHalfClosedPeerIsClosedAfterIdleTimeOnSockets(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		h, made := promises()
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{IdleTime: idleTime}}
		p := dial(t, serve(t, s))
		begun := time.Now()
		p.send(submit(1, ""))
		p.closeWrite()
		r := take(t, "the request reaches its handler", made)
		if _, err := p.tryPacket(); err == nil {
			t.Error("an unexpected reply")
		}
		gone(t, s, 1)
		between(t, begun, idleTime, 2*idleTime)
		wantCounted(t, s, map[engine.Reason]uint64{engine.IdleTimeout: 1})
		if err := r.Send(nil); err != framed.ErrClosed {
			t.Errorf("Send after that returned %v, want ErrClosed", err)
		}
	})
}

// A client without an accepted Conn in time is refused and disconnected, whatever else it
// sends. One that has authenticated stays, and without Connect there is no limit.
func TestConnectMustBeAcceptedInTime(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		late := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Limits: engine.Limits{AuthTime: 400 * time.Millisecond}, Handler: framed.HandlerFunc(echo),
			Connect: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				switch string(req) {
				case "ann":
					return dst, nil
				case "late":
					late <- c.Later()
					return dst, nil
				}
				return dst, wire.Unauthorised
			})}
		addr := serve(t, s)
		connect := func(credentials string) *peer {
			p := dial(t, addr)
			p.send(frame(wire.Conn, 1, 0, credentials))
			return p
		}
		ann, stranger, mute := connect("ann"), connect("bob"), dial(t, addr)
		ann.want(frame(wire.ConnAck, 1, wire.OK, ""))
		slow := connect("late")
		heard(t, late, "Connect is called").Send(nil)
		slow.want(frame(wire.ConnAck, 1, wire.OK, ""))
		stranger.want(frame(wire.ConnAck, 1, wire.Unauthorised, ""))
		stranger.exchange(2, "who asks?")
		denied := connect("late")
		heard(t, late, "Connect is called").Fail(wire.Unauthorised)
		denied.want(frame(wire.ConnAck, 1, wire.Unauthorised, ""))
		for _, p := range []*peer{stranger, mute, denied} {
			p.wantRefusal(wire.TooSlow)
			p.Close() // otherwise it would linger
		}
		ended(t, s, engine.AuthTimeout, 3)
		ann.exchange(2, "still here")
		slow.exchange(2, "still here")
	})
}

// Without Connect, AuthTime would close every connection: it is off.
func TestAuthTimeWithoutConnectIsOff(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Limits: engine.Limits{AuthTime: time.Second}, Handler: framed.HandlerFunc(echo)}
		p := serveInMemory(t, s).dial(t)
		p.send(submit(1, "one"))
		p.want(ack(1, "one"))
		passes(time.Minute)
		p.send(submit(2, "two"))
		p.want(ack(2, "two"))
	})
}
