package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/fakenet"
)

// These tests run whole servers, with the default limits, in fake time: a minute costs nothing.

// scripted is a protocol of messages with a two-byte length, served by a function. It
// answers refusals with the reason's name and a new line.
type scripted func(t *Turn, message string) error

func (p scripted) Advance(t *Turn, in []byte) (used, need int, err error) {
	for {
		rest := in[used:]
		if len(rest) < 2 {
			return used, 2 - len(rest), nil
		}
		n := 2 + int(binary.BigEndian.Uint16(rest))
		if len(rest) < n {
			return used, n - len(rest), nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		if err := p(t, string(rest[2:n])); err != nil {
			t.Out = p.Refuse(t.Out, nil, err.(Reason))
			return used, 0, err
		}
		used += n
	}
}

func (scripted) Refuse(dst, _ []byte, why Reason) []byte { return append(dst, why.String()+"\n"...) }

// message encodes a message of the scripted protocol.
func message(text string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
}

// echo answers with the message and a new line.
func echo(t *Turn, message string) error {
	t.Out = append(append(t.Out, message...), '\n')
	return nil
}

// lines is a protocol that never knows the length of its messages.
type lines struct{}

func (lines) Advance(t *Turn, in []byte) (used, need int, err error) {
	for {
		n := bytes.IndexByte(in[used:], '\n') + 1
		if n == 0 {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		t.Out = append(t.Out, in[used:used+n]...)
		used += n
	}
}

func (lines) Refuse(dst, _ []byte, why Reason) []byte { return append(dst, why.String()+"\n"...) }

// running is a server in fake time.
type running struct {
	*Server
	*fakenet.Listener
	t      *testing.T
	ended  chan ended
	served chan error
	period time.Duration
}

// ended is a call of OnClose, with its time.
type ended struct {
	why Reason
	at  time.Time
}

// virtually runs a test in fake time on every engine.
func virtually(t *testing.T, p Protocol, l Limits, test func(r *running)) {
	bubbles(t, func(t *testing.T, e Engine) { test(start(t, e, p, l)) })
}

// bubbles runs a test in fake time on every engine, except for some.
func bubbles(t *testing.T, test func(t *testing.T, e Engine), except ...Engine) {
	for _, e := range append(All(), Events(Inline), Events(Offload)) {
		if !slices.Contains(except, e) {
			t.Run(e.Name(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, e) })
			})
		}
	}
}

// start serves on a listener, which wrap may replace.
func start(t *testing.T, e Engine, p Protocol, l Limits, wrap ...func(ln *fakenet.Listener) net.Listener) *running {
	r := &running{
		Server:   &Server{Protocol: p, Engine: e, Limits: l, Logger: slog.New(slog.DiscardHandler)},
		Listener: fakenet.Listen(),
		t:        t,
		ended:    make(chan ended, 1000),
		served:   make(chan error, 1),
	}
	r.OnClose = func(_ Conn, why Reason) { r.ended <- ended{why, time.Now()} }
	r.Server.init()
	r.period = time.Duration(r.rules.Period) * time.Millisecond
	ln := net.Listener(r.Listener)
	for _, f := range wrap {
		ln = f(r.Listener)
	}
	go func() { r.served <- r.Serve(ln) }()
	t.Cleanup(r.close)
	return r
}

// close closes the server, and checks what Serve returns.
func (r *running) close() {
	r.Server.Close()
	err := <-r.served
	if r.served <- err; err != ErrServerClosed {
		r.t.Errorf("Serve returned %v", err)
	}
}

// end waits for a connection's end, with this reason and within a window after
// begun+limit that is two periods wide.
func (r *running) end(why Reason, begun time.Time, limit time.Duration) {
	r.t.Helper()
	r.endOf(<-r.ended, why, begun, limit)
}

func (r *running) endOf(got ended, why Reason, begun time.Time, limit time.Duration) {
	r.t.Helper()
	after := got.at.Sub(begun)
	if got.why != why || after < limit || after > limit+2*r.period {
		r.t.Errorf("ended for %v after %v; want %v after %v and at most %v more", got.why, after, why, limit, 2*r.period)
	}
}

// alive checks that no connection has ended.
func (r *running) alive() {
	r.t.Helper()
	select {
	case e := <-r.ended:
		r.t.Fatalf("a connection ended for %v", e.why)
	default:
	}
}

// client is the other side of a connection.
type client struct {
	*fakenet.Conn
	t *testing.T
	r *bufio.Reader
}

func (r *running) dial(t *testing.T) *client {
	t.Helper()
	nc, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &client{Conn: nc, t: t, r: bufio.NewReaderSize(nc, 16)}
}

// ask sends a message and wants its echo.
func (c *client) ask(text string) {
	c.t.Helper()
	c.send(message(text))
	c.want(text)
}

func (c *client) send(p []byte) {
	c.t.Helper()
	if _, err := c.Write(p); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// want reads one line.
func (c *client) want(text string) {
	c.t.Helper()
	if line, err := c.r.ReadString('\n'); err != nil || line != text+"\n" {
		c.t.Fatalf("read %q and %v, want the line %q", line, err, text)
	}
}

// wantEnd reads the end of the stream.
func (c *client) wantEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Errorf("at the end: %q and %v, want nothing and a clean close", rest, err)
	}
}

// pause lets virtual time pass.
func pause(d time.Duration) { <-time.After(d) }

func TestIdleConnectionIsClosed(t *testing.T) {
	virtually(t, scripted(echo), Limits{}, func(r *running) {
		c := r.dial(r.t)
		begun := time.Now() // that nothing is ever sent on one is idleness too
		c.want("idle_timeout")
		c.wantEnd()
		c.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)

		c = r.dial(r.t)
		for range 10 {
			pause(2 * time.Minute)
			c.ask("hello") // and that keeps it open
		}
		begun = time.Now()
		c.want("idle_timeout")
		c.wantEnd()
		if took := time.Since(begun); took < 3*time.Minute || took > 3*time.Minute+2*r.period {
			r.t.Errorf("refused after %v of idleness", took)
		}
		r.end(IdleTimeout, time.Now(), 2*time.Second) // it does not close, so it is lingered for
	})
}

// trickle sends a byte of p each second until the server has had enough.
func (r *running) trickle(c *client, p []byte) (begun time.Time) {
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		c.want(FrameTimeout.String())
		c.wantEnd()
		c.Close()
	}()
	begun = time.Now()
	for _, b := range p {
		select {
		case <-refused:
			return begun
		case <-time.After(time.Second):
			c.Write([]byte{b})
		}
	}
	<-refused
	return begun
}

func TestTrickledFrameIsRefused(t *testing.T) {
	for name, x := range map[string]struct {
		p     Protocol
		bytes []byte
		size  time.Duration
	}{
		"length known": {scripted(echo), message(strings.Repeat("x", 10<<10-2)), 10 * time.Second},
		"line":         {lines{}, bytes.Repeat([]byte("x"), 100), 5 * time.Second / 1024},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, x.p, Limits{}, func(r *running) {
				c := r.dial(r.t)
				begun := r.trickle(c, x.bytes).Add(time.Second) // its first byte
				r.end(FrameTimeout, begun, 5*time.Second+x.size.Truncate(time.Millisecond))
			})
		})
	}
}

// A frame's time is its own: many honest frames, each cut in two, take longer
// together than one may.
func TestSlowFramesAreServed(t *testing.T) {
	for name, x := range map[string]struct {
		p     Protocol
		bytes []byte
	}{
		"length known": {scripted(echo), message("xxxxxxxx")},
		"line":         {lines{}, []byte("xxxxxxxx\n")},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, x.p, Limits{}, func(r *running) {
				c := r.dial(r.t)
				c.send(x.bytes[:3])
				for range 20 {
					pause(4 * time.Second)
					c.send(slices.Concat(x.bytes[3:], x.bytes[:3]))
					c.want("xxxxxxxx")
				}
				r.alive()
			})
		})
	}
}

// big answers each message with a mebibyte.
func big(t *Turn, _ string) error {
	t.Out = append(t.Out, make([]byte, 1<<20)...)
	return nil
}

func TestPeerThatReadsNothingIsCutOff(t *testing.T) {
	virtually(t, scripted(big), Limits{}, func(r *running) {
		for _, half := range []bool{false, true} { // a half-close does not make it a clean end
			c := r.dial(r.t)
			begun := time.Now()
			c.send(message("more"))
			if half {
				c.CloseWrite()
			}
			r.end(WriteStall, begun, 10*time.Second)
			if got, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) || len(got) > fakenet.Buffer/2 {
				r.t.Errorf("read %d bytes and %v, want a reset: nothing must keep our bytes waiting", len(got), err)
			}
		}
	})
}

func TestPeerThatReadsSlowlyIsServed(t *testing.T) {
	virtually(t, scripted(big), Limits{}, func(r *running) {
		c := r.dial(r.t)
		c.send(message("more"))
		for got := 0; got < 1<<20; got += writeChunk {
			pause(9 * time.Second)
			if _, err := io.ReadFull(c, make([]byte, writeChunk)); err != nil {
				r.t.Fatal(err)
			}
		}
		r.alive()
	})
}

func TestRefusedPeerIsLingeredFor(t *testing.T) {
	bad := scripted(func(*Turn, string) error { return Malformed })
	virtually(t, bad, Limits{}, func(r *running) {
		c := r.dial(r.t)
		begun := time.Now()
		c.send(message("bad"))
		c.want("malformed")
		c.wantEnd()
		for {
			if _, err := c.Write([]byte("and on, and on")); err != nil {
				break
			}
			pause(100 * time.Millisecond)
		}
		r.end(Malformed, begun, 2*time.Second)

		for _, hard := range []bool{false, true} {
			c = r.dial(r.t)
			begun = time.Now()
			c.send(message("bad"))
			c.want("malformed")
			c.wantEnd()
			if hard { // it counts as refused all the same
				c.SetLinger(0)
			}
			c.Close() // it has heard: no reason to wait
			if e := <-r.ended; !e.at.Equal(begun) || e.why != Malformed {
				r.t.Errorf("lingered for %v after the peer had closed; ended for %v", e.at.Sub(begun), e.why)
			}
		}
	})
}

// later promises a reply to every message, and sends the Reply to replies.
func later(replies chan Reply) scripted {
	return func(t *Turn, _ string) error {
		replies <- t.Later()
		return nil
	}
}

// owing runs a test in fake time on every engine, with a client to which a late reply is owed.
func owing(t *testing.T, test func(r *running, c *client, reply Reply)) {
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, 1)
		r := start(t, e, later(replies), Limits{})
		c := r.dial(t)
		c.send(message("please"))
		test(r, c, <-replies)
	})
}

func TestReplyThatNeverComes(t *testing.T) {
	owing(t, func(r *running, c *client, reply Reply) {
		pause(time.Hour) // with a reply owed, it is not idle
		r.alive()
		begun := time.Now()
		c.CloseWrite()
		got := <-r.ended
		r.endOf(got, got.why, begun, 3*time.Minute)
		if got.why == PeerClosed {
			r.t.Errorf("counted as %v although a reply was owed", got.why)
		}
		if err := reply.Send([]byte("too late\n")); err != ErrClosed {
			r.t.Errorf("Send returned %v, want ErrClosed", err)
		}
	})
}

// The idle timeout starts when no reply is owed any more: a client that waited five
// minutes for a reply is not closed at the moment when it arrives.
func TestIdleTimeBeginsAfterTheLastReply(t *testing.T) {
	owing(t, func(r *running, c *client, reply Reply) {
		pause(5 * time.Minute)
		reply.Send([]byte("here\n"))
		begun := time.Now()
		c.want("here")
		c.want("idle_timeout")
		c.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)
	})
}

// A reply that was sent is owed until it is written: on a busy machine that may take long
// enough for the sweeper to look.
func TestSentReplyIsOwedUntilItIsWritten(t *testing.T) {
	owing(t, func(r *running, c *client, reply Reply) {
		pause(5 * time.Minute)
		k, x, err := reply.conn.lockToPost(false)
		if err != nil || !x.promises.Settle(reply.ticket) {
			r.t.Fatal("no reply is owed")
		}
		x.late++
		k.s.mu.Unlock() // and Send goes no further for now
		begun := time.Now()
		other := r.dial(r.t) // makes the sweeper look
		other.want("idle_timeout")
		other.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)
		pause(time.Minute)
		r.alive()
		k.s.mu.Lock()
		k.held().finishPost(x, [][]byte{[]byte("here\n")}, len("here\n"), true)
		begun = time.Now()
		c.want("here")
		c.want("idle_timeout")
		c.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)
	})
}

// pondering is a protocol that thinks for a minute before it serves the message "ponder".
type pondering struct {
	scripted
	once sync.Once
}

func (p *pondering) Advance(t *Turn, in []byte) (used, need int, err error) {
	if string(in) == string(message("ponder")) {
		p.once.Do(func() { pause(time.Minute) })
	}
	return p.scripted.Advance(t, in)
}

// A connection that begins to wait for the request budget wakes the sweeper, because
// nothing else may ever happen: while more than half of the budget is owed, only the
// sweeper lets connections continue.
func TestWaitForTheRequestBudgetWakesTheSweeper(t *testing.T) {
	const limit = 4
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, limit)
		r := start(t, e, &pondering{scripted: later(replies)}, Limits{TotalInFlight: limit, IdleTime: -1})
		slow, other := r.dial(t), r.dial(t)
		ask := func(c *client) Reply {
			c.send(message("late"))
			reply := <-replies
			synctest.Wait() // until its visit has ended
			return reply
		}
		answer := func(c *client, reply Reply) {
			reply.Send([]byte("here\n"))
			c.want("here")
		}
		answer(slow, ask(slow)) // a connection that is answered at once would not wait
		slow.send(message("ponder"))
		begun := time.Now()
		for range limit - 1 {
			ask(other) // never answered
		}
		answer(other, ask(other)) // frees one place, which the line gets only when half are free
		select {
		case reply := <-replies:
			if waited := time.Since(begun) - time.Minute; waited <= 0 || waited > 3*r.period {
				t.Errorf("waited for %v, want at most %v", waited, 3*r.period)
			}
			answer(slow, reply)
		case <-time.After(time.Hour):
			t.Error("still waiting after an hour")
		}
	})
}

// A handler that runs for longer than the idle timeout.
func TestSlowHandlerIsNotIdleness(t *testing.T) {
	slow := scripted(func(t *Turn, message string) error {
		pause(4 * time.Minute)
		return echo(t, message)
	})
	virtually(t, slow, Limits{}, func(r *running) {
		c := r.dial(r.t)
		c.ask("one")
		c.ask("two")
		begun := time.Now()
		c.want("idle_timeout")
		c.Close()
		r.end(IdleTimeout, begun, 3*time.Minute)
	})
}

func TestTakenOverSocketHasNoTimers(t *testing.T) {
	var took struct {
		unread string
		err    error
	}
	take := scripted(func(t *Turn, text string) error {
		if text == "slowly" {
			pause(4 * time.Minute)
		}
		t.Out = append(t.Out, "yours\n"...)
		return t.TakeOver(forGood(func(nc net.Conn, unread []byte) {
			var more [4]byte
			_, took.err = io.ReadFull(nc, more[:])
			took.unread = string(unread) + string(more[:])
			nc.Write([]byte("bye\n"))
		}))
	})
	for _, text := range []string{"at once", "slowly"} {
		t.Run(text, func(t *testing.T) {
			virtually(t, take, Limits{}, func(r *running) {
				c := r.dial(r.t)
				c.send(message(text))
				c.want("yours")
				pause(time.Hour)
				c.Write([]byte("more"))
				if e := <-r.ended; e.why != ClosedHere || took.err != nil || took.unread != "more" {
					r.t.Fatalf("ended for %v; user code read %q and %v", e.why, took.unread, took.err)
				}
				c.want("bye")
				c.wantEnd()
			})
		})
	}
}

// The idle timeout starts again when a loan ends.
func TestIdleTimeBeginsAfterALoan(t *testing.T) {
	lend := scripted(func(t *Turn, message string) error {
		if message != "lend" {
			return echo(t, message)
		}
		return t.TakeOver(func(_ net.Conn, unread []byte) ([]byte, bool) {
			pause(time.Hour)
			return unread, true
		})
	})
	virtually(t, lend, Limits{}, func(r *running) {
		c := r.dial(r.t)
		begun := time.Now()
		c.send(message("lend"))
		c.want("idle_timeout")
		c.Close()
		r.end(IdleTimeout, begun.Add(time.Hour), 3*time.Minute)
	})
}

// The sweeper is the only part of a server with a timer, and every sweep updates the
// clock: while the clock stands still, the server does not wake up.
func TestIdleServerDoesNotWakeUp(t *testing.T) {
	standsStill := func(r *running, d time.Duration) {
		r.t.Helper()
		before := r.clock.Now()
		for range 100 {
			pause(d / 100)
			if now := r.clock.Now(); now != before {
				r.t.Fatalf("swept at %d ms, after %d", now, before)
			}
		}
		if !r.clock.Parked() {
			r.t.Error("the clock reports that it ticks")
		}
	}
	virtually(t, scripted(echo), Limits{IdleTime: -1}, func(r *running) {
		for range 100 {
			r.dial(r.t).ask("hello")
		}
		pause(3 * r.period)
		standsStill(r, 100*time.Hour)
		for range 3 {
			c := r.dial(r.t)
			c.ask("hello")
			pause(3 * r.period)
			standsStill(r, time.Hour)
		}
		r.alive()
	})
	virtually(t, scripted(echo), Limits{}, func(r *running) {
		for range 10 { // with a limit to come, it sleeps until that is due
			r.dial(r.t).ask("hello")
			pause(time.Second)
		}
		standsStill(r, 150*time.Second)
	})
}

// With ten different due times, the sweeper wakes up for those.
func TestSweepsAreFew(t *testing.T) {
	virtually(t, scripted(echo), Limits{}, func(r *running) {
		const n = 10
		for range n {
			c := r.dial(r.t)
			c.ask("hello")
			go func() {
				io.Copy(io.Discard, c.r)
				c.Close()
			}()
			pause(10 * time.Second)
		}
		sweeps, last := 0, r.clock.Now()
		for len(r.ended) < n {
			pause(10 * time.Millisecond)
			if now := r.clock.Now(); now != last {
				sweeps, last = sweeps+1, now
			}
		}
		// Each end costs a due sweep, what it stamps, and one that finds nothing.
		if most := 4 * n; sweeps > most {
			r.t.Errorf("%d sweeps to end %d connections, want at most %d", sweeps, n, most)
		}
	})
}

func TestLimitsHoldAfterMonthsOfSilence(t *testing.T) {
	virtually(t, scripted(echo), Limits{}, func(r *running) {
		for _, days := range []int{1, 20, 5, 30, 50} {
			pause(time.Duration(days) * 24 * time.Hour)
			c := r.dial(r.t)
			c.ask("hello")
			begun := time.Now()
			patience := time.AfterFunc(time.Hour, func() { c.Close() }) // whatever the server does
			c.r.ReadString('\n')
			patience.Stop()
			c.Close()
			r.end(IdleTimeout, begun, 3*time.Minute)
		}
	})
}

// drained is the result of a Shutdown.
type drained struct {
	Drained
	err  error
	took time.Duration
}

// shutdown starts a Shutdown with a service manager's usual timeout.
func (r *running) shutdown() chan drained {
	done := make(chan drained, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
		defer cancel()
		begun := time.Now()
		err := r.Server.Shutdown(ctx)
		done <- drained{r.Server.Stats().Drained, err, time.Since(begun)}
	}()
	return done
}

func TestDrain(t *testing.T) {
	before := strings.Repeat("sent before ", 170)
	slow := scripted(func(t *Turn, message string) error {
		if message == "slow" {
			pause(20 * time.Second)
		}
		return echo(t, message)
	})
	bubbles(t, func(t *testing.T, e Engine) {
		r := start(t, e, slow, Limits{})
		idle, half, busy := r.dial(r.t), r.dial(r.t), r.dial(r.t)
		idle.ask("hello")
		half.send(message("never whole")[:5])
		busy.send(message("slow"))
		busy.send(bytes.Repeat(message(before), 30)) // more than one read
		synctest.Wait()
		begun := time.Now()
		done := r.shutdown()
		for _, c := range []*client{idle, half} {
			c.want("shutting_down")
			c.wantEnd()
			c.Close()
		}
		if took := time.Since(begun); took > time.Second {
			r.t.Errorf("an idle connection was refused only after %v", took)
		}
		busy.want("slow")
		for range 30 {
			busy.want(before)
		}
		busy.want("shutting_down")
		busy.wantEnd()
		busy.Close()
		got := <-done
		if got.err != nil || got.Drained != (Drained{Clean: 3}) || got.took < 20*time.Second || got.took > 21*time.Second {
			r.t.Errorf("%+v, want 3 clean after 20 s", got)
		}
	}, Events(Inline)) // its loop waits for the handler
}

// A late reply may be sent until the shutdown's context ends.
func TestDrainWaitsForLateReplies(t *testing.T) {
	owing(t, func(r *running, c *client, reply Reply) {
		done := r.shutdown()
		pause(20 * time.Second)
		if err := reply.Send([]byte("here\n")); err != nil {
			r.t.Errorf("Send 20 s into a shutdown of 25: %v", err)
		} else {
			c.want("here")
			c.want("shutting_down")
			c.wantEnd()
		}
		c.Close()
		if got := <-done; got.err != nil || got.Drained != (Drained{Clean: 1}) || got.took < 20*time.Second {
			r.t.Errorf("%+v, want 1 clean after 20 s", got)
		}
	})
}

func TestShutdownForces(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		release := make(chan struct{})
		replies := make(chan Reply, 10)
		r := start(t, e, scripted(func(t *Turn, message string) error {
			switch message {
			case "stick":
				<-release
			case "later":
				replies <- t.Later()
				return nil
			}
			return echo(t, message)
		}), Limits{})
		idle, stuck, owed, left := r.dial(t), r.dial(t), r.dial(t), r.dial(t)
		idle.ask("hello")
		stuck.send(message("stick"))
		owed.send(message("later"))
		left.send(message("later"))
		left.CloseWrite()
		<-replies
		<-replies
		synctest.Wait()
		done := r.shutdown()
		idle.want("shutting_down")
		idle.Close()
		got := <-done
		if want := (Drained{Clean: 1, Forced: 3, Owed: 2, Stuck: 1}); got.Drained != want || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v; want %+v and DeadlineExceeded", got.Drained, got.err, want)
		}
		if got.took < 25*time.Second || got.took > 26*time.Second {
			t.Errorf("forced after %v, want 25 s and a moment", got.took)
		}
		if n := len(r.ended); n != 3 {
			t.Errorf("%d connections ended, want all but the stuck one", n)
		}
		for range len(r.ended) {
			if e := <-r.ended; e.why == PeerClosed {
				t.Errorf("one ended for %v although a reply was owed", e.why)
			}
		}
		close(release)
		synctest.Wait()
		if n := len(r.ended); n != 1 {
			t.Errorf("%d connections ended after the stuck handler returned, want 1", n)
		}
		if err := r.Server.Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another Shutdown: %v, want the error of the first", err)
		}
		if again := r.Server.Stats().Drained; again != got.Drained {
			t.Errorf("the counts changed to %+v", again)
		}
	}, Events(Inline)) // its loop waits for the handler
}

// Close does not wait, and a Shutdown in progress stops waiting.
func TestCloseHurriesShutdown(t *testing.T) {
	bubbles(t, func(t *testing.T, e Engine) {
		replies := make(chan Reply, 10)
		r := start(t, e, later(replies), Limits{})
		c, closed := r.dial(t), r.dial(t)
		closed.send(message("please"))
		reply := <-replies
		reply.Conn().Close(ClosedHere) // forced all the same, because its reply is owed
		c.send(message("please"))
		<-replies
		done := r.shutdown()
		pause(5 * time.Second)
		r.Server.Close()
		got := <-done
		if err := reply.Send(nil); err != ErrClosed {
			t.Errorf("Send returned %v after the end, want ErrClosed", err)
		}
		if want := (Drained{Forced: 2, Owed: 2}); got.Drained != want || !errors.Is(got.err, ErrServerClosed) || got.took > 6*time.Second {
			t.Errorf("%+v, want %+v and ErrServerClosed after 5 s", got, want)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client reads %v, want a reset", err)
		}
	})
}

// forGood gives a socket away for good.
func forGood(serve func(nc net.Conn, unread []byte)) func(nc net.Conn, unread []byte) ([]byte, bool) {
	return func(nc net.Conn, unread []byte) ([]byte, bool) {
		serve(nc, unread)
		return nil, false
	}
}
