package framed_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// Slow handlers. An engine that runs handlers on a loop may hand off the loop, without
// breaking any promise to handlers: the handlers in these tests outlast the watchdog, and
// then use every feature.

// aWhile outlasts a watchdog's tick.
const aWhile = 5 * time.Millisecond

// working is state that a connection's handlers share without a lock, because they run
// one after the other.
type working struct {
	next uint64
	busy bool
}

// TestHandlersOfUnevenSpeedKeepTheirOrder: some handlers are fast, some may or will lose
// their loop, and each sees the state left by the previous one.
func TestHandlersOfUnevenSpeedKeepTheirOrder(t *testing.T) {
	const conns, each = 10, 40
	start := seed(t)
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{
			Engine: e,
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				c.SetValue(&working{})
				return ctx
			},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				w := c.Conn().Value().(*working)
				if w.busy || w.next != c.ID() {
					t.Errorf("request %d is served, want %d; another is being served: %v", c.ID(), w.next, w.busy)
				}
				w.busy = true
				w.next++
				if req[0] > 0 {
					passes(time.Duration(req[0]) * time.Millisecond)
				}
				w.busy = false
				if req[1] == 'l' {
					return nil, c.Later().Send(req)
				}
				return append(dst, req...), nil
			}),
		}
		addr := serve(t, s)
		inParallel(t, conns, func(i int) error {
			p, err := dialed(t, addr)
			if err != nil {
				return err
			}
			rnd := rand.New(rand.NewPCG(start, uint64(i)))
			var out, want []byte
			for id := range uint64(each) {
				content := string([]byte{[]byte{0, 0, 2, 5}[rnd.IntN(4)], "il"[i%2], byte(i)})
				out = append(out, submit(id, content)...)
				want = append(want, ack(id, content)...)
			}
			return p.converse(want, func(w io.Writer) error { return inPieces(w, out, rnd) })
		})
		// A late reply may reach its client before its visit has ended.
		eventually(t, "all requests are counted", func() bool { return s.Stats().Requests == conns*each })
	})
}

// TestSlowHandlerMayEndAsBadlyAsAFastOne: when a slow handler panics or exits, only its
// own connection ends, and the goroutines that serve others survive.
func TestSlowHandlerMayEndAsBadlyAsAFastOne(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		closed := make(chan engine.Reason, 100)
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				switch string(req) {
				case "exit":
					passes(aWhile)
					runtime.Goexit()
				case "panic":
					passes(aWhile)
					panic("a handler's")
				case "late exit":
					c.Later()
					passes(aWhile)
					runtime.Goexit()
				}
				return append(dst, req...), nil
			}),
			OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
		}
		addr := serve(t, s)
		var others []*peer
		for range 12 {
			others = append(others, dial(t, addr))
		}
		for round := range uint64(4) {
			for _, how := range []string{"exit", "panic", "late exit"} {
				p := dial(t, addr)
				p.exchange(1, "before")
				p.send(submit(2, how))
				p.pour(requests(100))
				io.Copy(io.Discard, p.r)
				p.Close()
				if why := heard(t, closed, "OnClose"); why != engine.Panicked {
					t.Errorf("%s: closed for %v, want %v", how, why, engine.Panicked)
				}
				for _, other := range others {
					other.exchange(round, "alive")
				}
			}
		}
		eventually(t, "only the others are open", func() bool { return s.Stats().Open == len(others) })
	})
}

// TestPushAndCloseOfAConnectionWhoseHandlerTakesItsTime: the push is sent at once, the
// reply and the end of the stream when the handler returns.
func TestPushAndCloseOfAConnectionWhoseHandlerTakesItsTime(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		release := make(chan struct{})
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			passes(aWhile)
			if err := c.Conn().Push(7, []byte("on the way")); err != nil {
				t.Errorf("push: %v", err)
			}
			<-release
			passes(aWhile)
			c.Conn().Push(8, []byte("soon"))
			c.Conn().Close()
			passes(aWhile)
			return append(dst, req...), nil
		})}
		addr := serve(t, s)
		for n := range uint64(3) {
			p := dial(t, addr)
			p.send(append(submit(1, "take your time"), submit(2, "never served")...))
			p.want(deliver(7, "on the way"))
			release <- struct{}{}
			p.want(deliver(8, "soon"))
			p.want(ack(1, "take your time"))
			p.wantEnd()
			p.Close()
			ended(t, s, engine.ClosedHere, n+1)
		}
		if n := s.Stats().Requests; n != 3 {
			t.Errorf("%d handlers ran, want 3", n)
		}
	})
}

// TestLateRepliesOfSlowHandlers: replies are promised and sent before, during and after
// the handler's long run, and never twice.
func TestLateRepliesOfSlowHandlers(t *testing.T) {
	const conns, each = 8, 24
	run(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan postponed, conns*each)
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for r := range owed {
				if err := r.Send([]byte(r.text)); err != nil {
					t.Errorf("Send: %v", err)
				}
				if err := r.Send([]byte(r.text)); err != engine.ErrSettled && err != engine.ErrClosed { // the peer may have disconnected after its last reply
					t.Errorf("a second Send returned %v, want ErrSettled", err)
				}
			}
		}()
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			slow := func() {
				if c.ID()%8 < 4 {
					passes(2 * time.Millisecond)
				}
			}
			switch c.ID() % 4 {
			case 0: // sent while the handler runs
				owed <- postponed{c.Later(), c.ID(), string(req)}
				slow()
			case 1: // promised after that
				slow()
				owed <- postponed{c.Later(), c.ID(), string(req)}
			case 2: // sent by the handler itself
				r := c.Later()
				slow()
				return nil, r.Send(req)
			default: // no promise
				slow()
				return append(dst, req...), nil
			}
			return nil, nil
		})}
		addr := serve(t, s)
		inParallel(t, conns, func(i int) error {
			p, err := dialed(t, addr)
			if err != nil {
				return err
			}
			var out []byte
			for id := range uint64(each) {
				out = append(out, submit(id, fmt.Sprint(i, id))...)
			}
			p.Write(out)
			seen := map[uint64]bool{}
			for range each {
				r, err := p.tryPacket()
				if err != nil {
					return err
				}
				if seen[r.ID] || string(r.Content) != fmt.Sprint(i, r.ID) {
					return fmt.Errorf("unexpected reply %v %q", r, r.Content)
				}
				seen[r.ID] = true
			}
			return nil
		})
		s.Close() // no handler runs any more
		close(owed)
		<-finished
	})
}

// TestOthersGoOnWhileHooksBlock: when ConnContext or OnClose block, other connections are
// served, and the connection's own requests wait.
func TestOthersGoOnWhileHooksBlock(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var blocks atomic.Bool // for the next ConnContext and the next OnClose
		entered, release := make(chan string, 2), make(chan struct{})
		block := func(hook string) {
			if blocks.CompareAndSwap(true, false) {
				entered <- hook
				<-release
			}
		}
		closed := make(chan engine.Reason, 100)
		s := &framed.Server{
			Engine:  e,
			Handler: framed.HandlerFunc(echo),
			ConnContext: func(ctx context.Context, _ framed.Conn) context.Context {
				block("ConnContext")
				return ctx
			},
			OnClose: func(_ framed.Conn, why engine.Reason) {
				block("OnClose")
				closed <- why
			},
		}
		addr := serve(t, s)
		var others []*peer
		for range 12 {
			p := dial(t, addr)
			p.exchange(1, "hello")
			others = append(others, p)
		}
		goOn := func(hook string) {
			t.Helper()
			if got := heard(t, entered, hook); got != hook {
				t.Fatalf("%s blocks, want %s", got, hook)
			}
			for id := range uint64(5) {
				for _, p := range others {
					p.exchange(id, "not blocked")
				}
			}
			for range 4 {
				p := dial(t, addr)
				p.exchange(1, "new")
				p.Close()
				heard(t, closed, "another connection's OnClose")
			}
		}
		for range 3 {
			blocks.Store(true)
			p := dial(t, addr)
			p.send(submit(1, "when I am let in"))
			goOn("ConnContext")
			release <- struct{}{}
			p.want(ack(1, "when I am let in"))

			blocks.Store(true)
			p.closeWrite()
			goOn("OnClose")
			release <- struct{}{}
			if why := heard(t, closed, "OnClose"); why != engine.PeerClosed {
				t.Errorf("closed for %v, want %v", why, engine.PeerClosed)
			}
		}
		eventually(t, "only the others are open", func() bool { return s.Stats().Open == len(others) })
	})
}
