package framed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// outcome is the result of a Shutdown.
type outcome struct {
	engine.Drained
	err error
}

// shutdown starts a Shutdown and returns a channel for its result.
func shutdown(ctx context.Context, s *framed.Server) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		err := s.Shutdown(ctx)
		done <- outcome{s.Stats().Drained, err}
	}()
	return done
}

// drained checks a Shutdown that forced nothing.
func drained(t *testing.T, done <-chan outcome, clean int) {
	t.Helper()
	if got, want := heard(t, done, "Shutdown"), (outcome{Drained: engine.Drained{Clean: clean}}); got != want {
		t.Errorf("Shutdown ended with %+v, want %+v", got, want)
	}
}

// TestShutdownUnderLoadAnswersEveryRequestThatWasRead: 20 clients keep 16 requests in
// flight, inline and late, until they are refused because the server shuts down. Every
// request that a handler saw was answered, every stream is closed properly, and clients
// that keep sending do not delay the shutdown.
func TestShutdownUnderLoadAnswersEveryRequestThatWasRead(t *testing.T) {
	const clients, depth = 20, 16
	enough := testrun.Sized(150, 500)
	run(t, func(t *testing.T, e engine.Engine) {
		var mu sync.Mutex
		handled := map[uint64]bool{}
		owed := make(chan postponed, clients*depth)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			mu.Lock()
			handled[c.ID()] = true
			mu.Unlock()
			if c.ID()%3 == 0 {
				owed <- postponed{c.Later(), c.ID(), string(req)}
				return nil, nil
			}
			return append(dst, "re: "+string(req)...), nil
		})}
		var finisher sync.WaitGroup
		finisher.Go(func() {
			for r := range owed {
				r.Send([]byte("re: " + r.text))
			}
		})
		addr := serve(t, s)
		answered := map[uint64]bool{}
		busy := make(chan struct{}, clients)
		var begun time.Time
		var done <-chan outcome
		inParallel(t, clients+1, func(i int) error {
			if i == clients {
				for range clients {
					<-busy
				}
				begun = time.Now()
				done = shutdown(context.Background(), s)
				return nil
			}
			p, err := dialed(t, addr)
			if err != nil {
				busy <- struct{}{}
				return err
			}
			defer p.Close()
			n, next := 0, uint64(i)<<32
			for range depth {
				p.Write(submit(next, "request"))
				next++
			}
			for {
				r, err := p.tryPacket()
				if n++; n == enough || err != nil {
					busy <- struct{}{}
				}
				switch {
				case err != nil:
					return err
				case r.Command == wire.ConnAck && r.ID == 0 && r.Result == wire.ShuttingDown:
					if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
						return fmt.Errorf("after the refusal: %q, %w", rest, err)
					}
					return nil
				case r.Command != wire.SubmitAck || r.Result != wire.OK || string(r.Content) != "re: request":
					return fmt.Errorf("unexpected reply %+v", r)
				}
				mu.Lock()
				double := answered[r.ID]
				answered[r.ID] = true
				mu.Unlock()
				if double {
					return fmt.Errorf("request %x is answered twice", r.ID)
				}
				p.Write(submit(next, "request"))
				next++
			}
		})
		drained(t, done, clients)
		if took := time.Since(begun); took > patience { // the default IdleTime is six times that
			t.Errorf("the shutdown took %v", took)
		}
		close(owed)
		finisher.Wait()
		for id := range handled {
			if !answered[id] {
				t.Errorf("a handler saw request %x, but it was not answered", id)
			}
		}
		if len(answered) != len(handled) {
			t.Errorf("%d requests handled, %d answered", len(handled), len(answered))
		}
		ended(t, s, engine.ShuttingDown, clients)
	})
}

// dialed is dial for goroutines other than the test's.
func dialed(t *testing.T, addr string) (*peer, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return peerOf(t, nc), nil
}

func TestIdleConnectionsAreToldThatTheServerShutsDown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		var idle []*peer
		for range 10 {
			p := dial(t, addr)
			p.send(submit(1, "hello"))
			p.want(ack(1, "hello"))
			idle = append(idle, p)
		}
		fresh := dial(t, addr) // it has never sent anything
		eventually(t, "it is accepted", func() bool { return s.Stats().Open == 11 })
		done := shutdown(context.Background(), s)
		for _, p := range append(idle, fresh) {
			p.wantRefusal(wire.ShuttingDown)
			p.Close()
		}
		drained(t, done, 11)
	})
}

// gate is a handler that blocks on requests named "block" until released, and signals
// when it is entered.
func gate() (h framed.HandlerFunc, entered chan framed.Conn, release chan struct{}) {
	entered, release = make(chan framed.Conn, 64), make(chan struct{})
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		if string(req) == "block" {
			entered <- c.Conn()
			<-release
		}
		return append(dst, req...), nil
	}, entered, release
}

func TestRequestsThatTheKernelHoldsAtShutdownAreAnswered(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, entered, release := gate()
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "block"))
		heard(t, entered, "a handler")
		var out, want []byte
		for id := range uint64(200) {
			out = append(out, submit(10+id, "asked in time")...)
			want = append(want, ack(10+id, "asked in time")...)
		}
		p.send(out)
		done := shutdown(context.Background(), s)
		drainBegins(t, s)
		close(release)
		p.want(ack(1, "block"))
		p.want(want)
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, done, 1)
	})
}

// TestSlowHandlersDoNotCutADrainShort: requests sent before the shutdown are answered,
// however long the handlers before them take.
func TestSlowHandlersDoNotCutADrainShort(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, entered, release := gate()
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if c.ID() == 10 {
				<-time.After(30 * time.Millisecond)
			}
			return h(c, dst, req)
		})}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "block"))
		heard(t, entered, "a handler")
		var out []byte
		for id := range uint64(60) { // more than one read on any engine
			out = append(out, submit(10+id, fmt.Sprintf("asked in time %2000d", id))...)
		}
		p.send(out)
		done := shutdown(context.Background(), s)
		drainBegins(t, s)
		close(release)
		p.want(ack(1, "block"))
		for id := range uint64(60) {
			if r := p.packet(); r.Command != wire.SubmitAck || r.ID != 10+id {
				t.Fatalf("after %d of the 60 requests sent before the shutdown: %v %v %v", id, r.Command, r.ID, r.Result)
			}
		}
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, done, 1)
	})
}

func TestShutdownAwaitsLateReplies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(20)
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		var peers []*peer
		for range 4 {
			p := dial(t, addr)
			for id := range uint64(5) {
				p.send(submit(id, "late"))
			}
			peers = append(peers, p)
		}
		var replies []postponed
		for range 20 {
			replies = append(replies, heard(t, owed, "a handler"))
		}
		done := shutdown(context.Background(), s)
		drainBegins(t, s)
		none(t, done, "Shutdown returned although replies are owed")
		for _, r := range replies {
			if err := r.Send([]byte("done")); err != nil {
				t.Error(err)
			}
		}
		for _, p := range peers {
			for id := range uint64(5) {
				p.want(ack(id, "done"))
			}
			p.wantRefusal(wire.ShuttingDown)
			p.Close()
		}
		drained(t, done, 4)
	})
}

// TestShutdownAwaitsLateRepliesForAsLongAsItsContext: StallTime is for peers that do not
// read, not for slow handlers.
func TestShutdownAwaitsLateRepliesForAsLongAsItsContext(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{StallTime: 20 * time.Millisecond}}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "late"))
		r := heard(t, owed, "a handler")
		done := shutdown(context.Background(), s)
		select {
		case got := <-done:
			t.Fatalf("Shutdown ended with %+v before its context ended, although a reply was owed", got)
		case <-time.After(200 * time.Millisecond):
		}
		if err := r.Send([]byte("done")); err != nil {
			t.Fatal(err)
		}
		p.want(ack(1, "done"))
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, done, 1)
	})
}

// TestShutdownWithInFlightReached: a drain continues to read what was sent when replies
// make room for it.
func TestShutdownWithInFlightReached(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(50)
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{InFlight: 2}}
		addr := serve(t, s)
		p := dial(t, addr)
		var out []byte
		for id := range uint64(50) {
			out = append(out, submit(id, "late")...)
		}
		p.send(out)
		first := heard(t, owed, "a handler")
		done := shutdown(context.Background(), s)
		drainBegins(t, s)
		first.Send([]byte("done"))
		p.want(ack(0, "done"))
		for id := uint64(1); id < 50; id++ {
			heard(t, owed, "a handler").Send([]byte("done"))
			p.want(ack(id, "done"))
		}
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, done, 1)
	})
}

func TestPartialFrameDoesNotHoldAShutdownUp(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		var peers []*peer
		for cut := range 3 {
			p := dial(t, addr)
			p.send(append(submit(1, "whole"), submit(2, "in pieces")[:1+6*cut]...))
			p.want(ack(1, "whole"))
			peers = append(peers, p)
		}
		eventually(t, "everything is read", func() bool { return s.Stats().BytesIn == 3*18+1+7+13 })
		done := shutdown(context.Background(), s)
		for _, p := range peers {
			p.wantRefusal(wire.ShuttingDown)
			p.Close()
		}
		drained(t, done, 3)
	})
}

// TestShutdownIsForcedWhenItsContextEnds: a blocked handler is stuck, a connection with
// an owed reply and a peer that does not read are forced closed, and an idle connection
// is closed cleanly.
func TestShutdownIsForcedWhenItsContextEnds(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		h, entered, release := gate()
		closed := make(chan engine.Reason, 4)
		replies := make(chan framed.Reply, 3)
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if string(req) == "late" {
					replies <- c.Later()
				}
				return h(c, dst, req)
			}),
			OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
		}
		addr := serve(t, s)
		idle, stuck, owed := dial(t, addr), dial(t, addr), dial(t, addr)
		idle.send(submit(1, "hello"))
		idle.want(ack(1, "hello"))
		stuck.send(submit(1, "block"))
		heard(t, entered, "a handler")
		for id := range uint64(3) {
			owed.send(submit(id, "late"))
		}
		var late []framed.Reply
		for range 3 {
			late = append(late, heard(t, replies, "a handler"))
		}
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		done := shutdown(ctx, s)
		idle.wantRefusal(wire.ShuttingDown)
		idle.Close()
		if why := heard(t, closed, "OnClose"); why != engine.ShuttingDown {
			t.Errorf("the idle connection closed for %v, want %v", why, engine.ShuttingDown)
		}
		none(t, done, "Shutdown returned before its context ended")
		giveUp()
		got := heard(t, done, "Shutdown")
		if want := (engine.Drained{Clean: 1, Forced: 2, Owed: 3, Stuck: 1}); !cameTo(got.Drained, want) || !errors.Is(got.err, context.Canceled) {
			t.Errorf("Shutdown ended with %+v and %v, want %+v and the context's error", got.Drained, got.err, want)
		}
		if why := heard(t, closed, "OnClose"); why != engine.Forced {
			t.Errorf("the owing connection closed for %v, want %v", why, engine.Forced)
		}
		for _, r := range late {
			if err := r.Send(nil); err != framed.ErrClosed {
				t.Errorf("Send after the end returned %v, want ErrClosed", err)
			}
		}
		none(t, closed, "OnClose before the handler has returned")
		close(release)
		if why := heard(t, closed, "OnClose"); why != engine.Forced {
			t.Errorf("the stuck connection closed for %v, want %v", why, engine.Forced)
		}
		eventually(t, "no connection is counted", func() bool { return s.Stats().Open == 0 })
		again := heard(t, shutdown(context.Background(), s), "another Shutdown")
		if again.Drained != got.Drained {
			t.Errorf("a second Shutdown returned %+v, want the same as before, %+v", again.Drained, got.Drained)
		}
	})
}

// TestForcedCountsWhateverTheConnectionWasDoing: a connection that is forced closed while
// replies are owed was not closed cleanly, even if its peer had closed its side, or a
// handler had closed it.
func TestForcedCountsWhateverTheConnectionWasDoing(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, doing := range []string{"half-closed", "closed by a handler"} {
			h, owed := postponing(1)
			closed := make(chan engine.Reason, 1)
			s := &framed.Server{
				Engine: e, Handler: h,
				OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
			}
			p := dial(t, serve(t, s))
			p.send(submit(1, "late"))
			r := heard(t, owed, "a handler")
			if doing == "half-closed" {
				p.send(submit(2, "last"))
				p.closeWrite()
				p.want(ack(2, "last"))
			} else {
				r.Conn().Close()
			}
			none(t, closed, "OnClose although a reply is owed")
			ctx, giveUp := context.WithCancel(t.Context())
			giveUp()
			got := heard(t, shutdown(ctx, s), "Shutdown")
			if want := (engine.Drained{Forced: 1, Owed: 1}); !cameTo(got.Drained, want) {
				t.Errorf("%s: Shutdown ended with %+v, want %+v", doing, got.Drained, want)
			}
			if why := heard(t, closed, "OnClose"); why == engine.PeerClosed {
				t.Errorf("%s: closed for %v although a reply was owed", doing, why)
			}
		}
	})
}

func TestCloseEndsAShutdownsPatience(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "late"))
		r := heard(t, owed, "a handler")
		done := shutdown(context.Background(), s)
		drainBegins(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("Close returned %v", err)
		}
		got := heard(t, done, "Shutdown")
		if want := (engine.Drained{Forced: 1, Owed: 1}); got.Drained != want || !errors.Is(got.err, framed.ErrServerClosed) {
			t.Errorf("Shutdown ended with %+v and %v, want %+v and ErrServerClosed", got.Drained, got.err, want)
		}
		if err := r.Send(nil); err != framed.ErrClosed {
			t.Errorf("Send after Close returned %v, want ErrClosed", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("a second Close returned %v", err)
		}
	})
}

func TestCloseCutsOff(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		closed := make(chan engine.Reason, 2)
		h, owed := postponing(1)
		s := &framed.Server{Engine: e, Handler: h, OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why }}
		addr := serve(t, s)
		idle, busy := dial(t, addr), dial(t, addr)
		idle.send(submit(1, "hello"))
		idle.want(ack(1, "hello"))
		busy.send(submit(1, "late"))
		heard(t, owed, "a handler")
		s.Close()
		for range 2 {
			if why := heard(t, closed, "OnClose"); why != engine.Forced && why != engine.ShuttingDown {
				t.Errorf("closed for %v, want %v", why, engine.Forced)
			}
		}
		if st := s.Stats(); st.Open != 0 {
			t.Errorf("%d connections are open after Close", st.Open)
		}
	})
}

// TestCloseAmidLeaveTakingLeavesNobodyBehind: connections end by themselves while the
// server is closed, and in either order none outlives Close.
func TestCloseAmidLeaveTakingLeavesNobodyBehind(t *testing.T) {
	const conns = 20
	rounds := testrun.Sized(10, 40)
	run(t, func(t *testing.T, e engine.Engine) {
		for round := range rounds {
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
			addr := serve(t, s)
			var peers []*peer
			for range conns {
				p := dial(t, addr)
				p.exchange(1, "hello")
				peers = append(peers, p)
			}
			s.Close() // starts a drain and interrupts it
			if st := s.Stats(); st.Open > 0 {
				t.Fatalf("round %d: %d connections are open after Close", round, st.Open)
			}
			for _, p := range peers {
				p.Close()
			}
		}
	})
}

// TestSecondShutdownHasTheSameOutcome: both calls wait and return the same counts.
func TestSecondShutdownHasTheSameOutcome(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, entered, release := gate()
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "block"))
		heard(t, entered, "a handler")
		one := shutdown(context.Background(), s)
		drainBegins(t, s)
		two := shutdown(context.Background(), s)
		none(t, two, "the second Shutdown returned before the drain ended")
		close(release)
		p.want(ack(1, "block"))
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, one, 1)
		drained(t, two, 1)
	})
}

// TestSecondShutdownHeedsItsOwnContext: a caller with a shorter deadline does not wait
// for the other's.
func TestSecondShutdownHeedsItsOwnContext(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, "late"))
		heard(t, owed, "a handler")
		one := shutdown(context.Background(), s)
		drainBegins(t, s)
		ctx, giveUp := context.WithCancel(t.Context())
		giveUp()
		select {
		case got := <-shutdown(ctx, s):
			if !errors.Is(got.err, context.Canceled) {
				t.Errorf("the second Shutdown returned %v, want its context's error", got.err)
			}
		case <-time.After(time.Second):
			t.Error("the second Shutdown still waits after its context has ended")
		}
		s.Close()
		heard(t, one, "the first Shutdown")
	})
}

func TestServeAfterShutdown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		drained(t, shutdown(context.Background(), s), 0) // one that has never served
		for range 2 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(ln); err != framed.ErrServerClosed {
				t.Errorf("Serve after Shutdown returned %v, want ErrServerClosed", err)
			}
			if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener returned %v, want it closed", err)
			}
		}
		s = &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		s.Close()
		s.Addr = "127.0.0.1:0"
		if err := s.ListenAndServe(); err != framed.ErrServerClosed {
			t.Errorf("ListenAndServe after Close returned %v, want ErrServerClosed", err)
		}
	})
}

// TestZeroServerCanBeClosed: cleaning up after a failed set-up needs no condition.
// Serving without a Handler still panics.
func TestZeroServerCanBeClosed(t *testing.T) {
	for name, end := range map[string]func(*framed.Server) error{
		"Close":    (*framed.Server).Close,
		"Shutdown": func(s *framed.Server) error { return s.Shutdown(t.Context()) },
	} {
		s := new(framed.Server)
		for range 2 {
			if err := end(s); err != nil {
				t.Errorf("%s of a zero Server returned %v", name, err)
			}
		}
		if got := s.Stats(); got.Open != 0 || got.Drained != (engine.Drained{}) {
			t.Errorf("after %s a zero Server counts %+v", name, got)
		}
	}
	ln := listenTCP(t)
	defer ln.Close()
	for name, serve := range map[string]func(*framed.Server) error{
		"Serve":          func(s *framed.Server) error { return s.Serve(ln) },
		"ListenAndServe": (*framed.Server).ListenAndServe,
	} {
		func() {
			s := &framed.Server{Addr: "127.0.0.1:0"}
			defer s.Close()
			defer func() {
				if got, want := fmt.Sprint(recover()), "framed: Server.Handler is nil"; got != want {
					t.Errorf("%s without a Handler panics with %q, want %q", name, got, want)
				}
			}()
			serve(s)
		}()
	}
}

func TestServerOfSeveralListenersDrainsThemAll(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		var peers []*peer
		for range 3 {
			p := dial(t, serve(t, s))
			p.send(submit(1, "hello"))
			p.want(ack(1, "hello"))
			peers = append(peers, p)
		}
		done := shutdown(context.Background(), s)
		for _, p := range peers {
			p.wantRefusal(wire.ShuttingDown)
			p.Close()
		}
		drained(t, done, 3)
	})
}

// cameTo compares the counts of a forced Shutdown. It waits about 30 ms for connections
// to end: on a busy machine more than those in user code may be stuck.
func cameTo(got, want engine.Drained) bool {
	if got.Stuck > want.Stuck {
		got.Stuck = want.Stuck
	}
	return got == want
}
