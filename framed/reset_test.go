package framed_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// promises hands the promised replies to the test, which may answer them.
func promises() (framed.HandlerFunc, <-chan framed.Reply) {
	made := make(chan framed.Reply, 1<<16)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		made <- c.Later()
		return dst, nil
	}, made
}

// take receives from c, with the test's timeout.
func take[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case v = <-c:
	case <-deadline.C:
		t.Fatalf("not after %v: %s", patience, what)
	}
	return v
}

// gone waits until the server has had n connections and has none left.
func gone(t *testing.T, s *framed.Server, n int) {
	t.Helper()
	eventually(t, "no connection is open", func() bool {
		now := s.Stats()
		return now.Accepted == uint64(n) && now.Open == 0 && now.Owed == 0 && now.Waiting == 0
	})
}

// twoRequests returns a stream, and wholeBefore, which returns how many requests are
// complete in its first n bytes.
func twoRequests() (stream []byte, wholeBefore func(n int) int) {
	first, second := submit(1, "first"), submit(2, "the second")
	return append(first[:len(first):len(first)], second...), func(n int) int {
		switch {
		case n < len(first):
			return 0
		case n < len(first)+len(second):
			return 1
		}
		return 2
	}
}

// A connection may break after any byte, before or after the server has read it.
func TestResetAtEveryByteEndsOneConnection(t *testing.T) {
	stream, wholeBefore := twoRequests()
	run(t, func(t *testing.T, e engine.Engine) {
		for _, noticed := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline, bytes noticed %v", noticed), func(t *testing.T) {
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				addr := serve(t, s)
				neighbour := dial(t, addr)
				for n := range len(stream) + 1 {
					before := s.Stats().BytesIn
					p := dial(t, addr)
					p.send(stream[:n])
					if noticed {
						awaitRead(s, before+uint64(n))
					}
					p.reset()
					if noticed {
						ended(t, s, engine.PeerReset, uint64(n)+1)
					}
				}
				ended(t, s, engine.PeerReset, uint64(len(stream)+1))
				neighbour.exchange(1, "still here")
				wantCounted(t, s, map[engine.Reason]uint64{engine.PeerReset: uint64(len(stream) + 1)})
			})
		}
		t.Run("replies outstanding", func(t *testing.T) {
			h, made := promises()
			s := &framed.Server{Engine: e, Handler: h}
			addr := serve(t, s)
			for n := range len(stream) + 1 {
				p := dial(t, addr)
				p.send(stream[:n])
				var owed []framed.Reply
				for range wholeBefore(n) {
					owed = append(owed, take(t, "a request reaches its handler", made))
				}
				p.reset()
				ended(t, s, engine.PeerReset, uint64(n)+1)
				for _, r := range owed {
					if err := r.Send(nil); err != framed.ErrClosed {
						t.Errorf("Send after a reset at byte %d returned %v, want ErrClosed", n, err)
					}
				}
			}
			gone(t, s, len(stream)+1)
		})
	})
}

func TestHalfCloseAtEveryByteAnswersWhatWasWhole(t *testing.T) {
	stream, wholeBefore := twoRequests()
	run(t, func(t *testing.T, e engine.Engine) {
		t.Run("inline", func(t *testing.T) {
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
			addr := serve(t, s)
			for n := range len(stream) + 1 {
				p := dial(t, addr)
				p.send(stream[:n])
				p.closeWrite()
				want := append(ack(1, "first"), ack(2, "the second")...)
				p.want(want[:[]int{0, len(ack(1, "first")), len(want)}[wholeBefore(n)]])
				p.wantEnd()
			}
			ended(t, s, engine.PeerClosed, uint64(len(stream)+1))
			gone(t, s, len(stream)+1)
		})
		t.Run("replies outstanding", func(t *testing.T) {
			h, made := promises()
			s := &framed.Server{Engine: e, Handler: h}
			addr := serve(t, s)
			for n := range len(stream) + 1 {
				p := dial(t, addr)
				p.send(stream[:n])
				p.closeWrite()
				for range wholeBefore(n) {
					r := take(t, "a request reaches its handler", made)
					if err := r.Send([]byte("late")); err != nil {
						t.Fatalf("a late reply to a half-closed peer: %v", err)
					}
				}
				for id := range wholeBefore(n) {
					p.want(ack(uint64(id)+1, "late"))
				}
				p.wantEnd()
			}
			ended(t, s, engine.PeerClosed, uint64(len(stream)+1))
			gone(t, s, len(stream)+1)
		})
	})
}

func TestResetDuringALargeReply(t *testing.T) {
	eachWay(t, filler(testrun.Sized(6<<20, 12<<20)), func(t *testing.T, e engine.Engine, h framed.Handler) {
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		for n := range uint64(2) {
			p := dial(t, addr)
			p.send(submit(1, ""))
			if _, err := io.CopyN(io.Discard, p, 100_000); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the reply is queued", func() bool { return s.Stats().Waiting > 0 })
			p.reset()
			ended(t, s, engine.PeerReset, n+1)
		}
		gone(t, s, 2)
	})
}

func TestResetWhileAHandlerIsBlocked(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		entered, release := make(chan struct{}, 1), make(chan struct{})
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "block" {
				entered <- struct{}{}
				<-release
			}
			return append(dst, req...), nil
		})}
		addr := serve(t, s)
		neighbour := dial(t, addr)
		p := dial(t, addr)
		p.send(append(submit(1, "block"), submit(2, "behind")...))
		take(t, "the handler is entered", entered)
		p.reset()
		for id := range uint64(10) {
			neighbour.exchange(id, "not blocked")
		}
		if n := s.Stats().Open; n != 2 {
			t.Errorf("%d connections open while the handler of a broken one is blocked, want 2", n)
		}
		close(release)
		ended(t, s, engine.PeerReset, 1)
		neighbour.exchange(99, "still here")
	})
}

// While the server does not read it cannot detect a reset; the replies that it then tries
// to send fail.
func TestResetWhileReadingIsPaused(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, made := promises()
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{InFlight: 2}}
		p := dial(t, serve(t, s))
		p.send(requests(5))
		first, second := take(t, "a request", made), take(t, "another", made)
		p.reset()
		eventually(t, "a reply fails or the connection has ended", func() bool {
			first.Send(nil)
			second.Send(nil)
			for len(made) > 0 {
				(<-made).Send(nil)
			}
			return s.Stats().Ended[engine.PeerReset] == 1
		})
		gone(t, s, 1)
	})
}

// A half-close is graceful and implies waiting for replies: it does not make a later
// failure count as a clean end.
func TestWhatHappensAfterAHalfCloseIsCountedAsItIs(t *testing.T) {
	content := filler(1 << 20)
	limits := engine.Limits{StallTime: 200 * time.Millisecond, IdleTime: 200 * time.Millisecond}
	waiting.eachWay(t, content, func(t *testing.T, e engine.Engine, h framed.Handler) {
		t.Run("it never reads", func(t *testing.T) {
			s := &framed.Server{Engine: e, Handler: h, Limits: limits}
			p := dial(t, serveNarrow(t, s))
			p.send(submit(1, ""))
			p.closeWrite()
			gone(t, s, 1)
			wantCounted(t, s, map[engine.Reason]uint64{engine.WriteStall: 1})
		})
		t.Run("it resets", func(t *testing.T) {
			s := &framed.Server{Engine: e, Handler: h}
			p := dial(t, serveNarrow(t, s))
			p.send(submit(1, ""))
			p.closeWrite()
			eventually(t, "the reply is queued", func() bool { return s.Stats().Waiting > 0 })
			p.reset()
			gone(t, s, 1)
			wantCounted(t, s, map[engine.Reason]uint64{engine.PeerReset: 1})
		})
	})
}

// A refused peer that resets instead of reading the refusal still counts as refused.
func TestResetWhileRefusedIsCountedOnce(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		for range 50 {
			p := dial(t, addr)
			p.send([]byte{0, 0, 0, 3})
			if got := p.packet(); got.Result != wire.Malformed {
				t.Fatalf("got %+v", got)
			}
			p.reset()
		}
		gone(t, s, 50)
		wantCounted(t, s, map[engine.Reason]uint64{engine.Malformed: 50})
	})
}
