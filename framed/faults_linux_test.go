package framed_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
)

// Events makes its own system calls, so these tests make them fail: one call of a
// conversation after the other, in every mode. All other tests also run with random
// faults, see falter.

// runEvents is run on Events alone, in every mode.
func runEvents(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	together.runOn(t, []variant{
		{onLoops, engine.Events(engine.Auto)},
		{inline, engine.Events(engine.Inline)},
		{offload, engine.Events(engine.Offload)},
	}, test)
}

// saboteur is a Fault that makes one call fail and lets all others pass.
type saboteur struct {
	victim  sys.Call
	err     error
	partial bool // the call before transfers only a single byte

	left  atomic.Int64 // matching calls until the failure; 0: none
	calls atomic.Int64 // of all kinds except waits
}

func (s *saboteur) fault(c sys.Call, n int) (int, error) {
	if c != sys.CallWait {
		s.calls.Add(1)
	}
	if c != s.victim || s.left.Load() <= 0 {
		return n, nil
	}
	switch s.left.Add(-1) {
	case 0:
		return 0, s.err
	case 1:
		if s.partial {
			return 1, nil
		}
	}
	return n, nil
}

// aim makes the n-th call from now on fail. The server must be idle, or the fault hits
// another connection.
func (s *saboteur) aim(t *testing.T, n int) {
	t.Helper()
	s.rest(t)
	s.left.Store(int64(n))
}

// hit reports whether the call has failed, and disarms the fault if not.
func (s *saboteur) hit() bool { return s.left.Swap(0) <= 0 }

// rest waits until the server makes no more calls.
func (s *saboteur) rest(t *testing.T) {
	t.Helper()
	last, quiet := int64(-1), 0
	eventually(t, "the server is idle", func() bool {
		now := s.calls.Load()
		if quiet++; now != last {
			last, quiet = now, 0
		}
		return quiet == 3
	})
}

// serveWith is serve with a fault on the system calls, and small socket buffers.
func serveWith(t *testing.T, s *framed.Server, fault sys.Fault) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, &faltering{testrun.Narrow{Listener: ln}, fault})
}

// exposed is a server with faults, with neighbours that must not be affected, and records
// of its connections.
type exposed struct {
	*framed.Server
	*saboteur
	addr       string
	neighbours []*peer
	late       chan framed.Reply

	mu     sync.Mutex
	opened int
	closed map[framed.Conn]int
}

func expose(t *testing.T, e engine.Engine, s *saboteur) *exposed {
	t.Helper()
	x := &exposed{saboteur: s, late: make(chan framed.Reply, 10), closed: map[framed.Conn]int{}}
	x.Server = &framed.Server{
		Engine:  e,
		Handler: framed.HandlerFunc(x.handle),
		ConnContext: func(ctx context.Context, _ framed.Conn) context.Context {
			x.mu.Lock()
			x.opened++
			x.mu.Unlock()
			return ctx
		},
		OnClose: func(c framed.Conn, _ engine.Reason) {
			x.mu.Lock()
			x.closed[c]++
			x.mu.Unlock()
		},
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for r := range x.late {
			r.Conn().Push(9, []byte("first this")) // it may have ended
			if err := r.Send([]byte("late")); err != nil && err != framed.ErrClosed {
				t.Errorf("a late reply: %v", err)
			}
		}
	}()
	t.Cleanup(func() { // after the server's
		close(x.late)
		<-answered
	})
	x.addr = serveWith(t, x.Server, s.fault)
	for range 3 {
		p := dial(t, x.addr)
		p.exchange(1, "hello")
		x.neighbours = append(x.neighbours, p)
	}
	return x
}

const exposedReply = 512 << 10 // of "large": more than the kernel buffers

func (x *exposed) handle(c framed.Call, dst, req []byte) ([]byte, error) {
	switch string(req) {
	case "late":
		x.late <- c.Later()
		return nil, nil
	case "slow":
		passes(5 * time.Millisecond)
	case "large":
		return append(dst, filler(exposedReply)...), nil
	}
	return append(dst, req...), nil
}

// converse performs every operation of a connection, and reports whether it completed:
// all replies, then a clean close. An early end is not an error, but a wrong byte is.
func (x *exposed) converse(t *testing.T) (whole bool) {
	t.Helper()
	read, ended := x.Stats().BytesIn, x.ended()
	p := dial(t, x.addr)
	defer p.Close()
	// say sends b and waits until it is read, or until the connection has ended.
	say := func(b []byte) {
		p.Write(b)
		read += uint64(len(b))
		eventually(t, "the request is read", func() bool { return x.Stats().BytesIn >= read || x.ended() > ended })
	}
	pieces := submit(2, "a request in two pieces")
	var many, answers []byte
	for id := range uint64(50) {
		many = append(many, submit(id, "one of many")...)
		answers = append(answers, ack(id, "one of many")...)
	}
	for _, talk := range []struct{ out, then, want []byte }{
		{submit(1, "hello"), nil, ack(1, "hello")},
		{pieces[:7], pieces[7:], ack(2, "a request in two pieces")},
		{many, nil, answers},
		{submit(3, "late"), nil, append(deliver(9, "first this"), ack(3, "late")...)},
		{submit(4, "slow"), nil, ack(4, "slow")},
		{submit(5, "large"), submit(6, "behind it"), append(ack(5, string(filler(exposedReply))), ack(6, "behind it")...)},
	} {
		say(talk.out)
		if talk.then != nil {
			p.Write(talk.then)
		}
		got := make([]byte, len(talk.want))
		n, err := io.ReadFull(p.r, got)
		if !bytes.Equal(got[:n], talk.want[:n]) {
			t.Errorf("got %.80q, want %.80q", got[:n], talk.want)
		}
		if err != nil {
			return false
		}
	}
	p.closeWrite()
	rest, err := io.ReadAll(p.r)
	if len(rest) > 0 {
		t.Errorf("at the end: %.80q", rest)
	}
	return err == nil
}

// ended returns how many connections have ended, for any reason.
func (x *exposed) ended() (n uint64) {
	for _, ended := range x.Stats().Ended {
		n += ended
	}
	return n
}

// settle checks that the neighbours are still served and that all others have ended: n of
// them, each with one OnClose, and counted as in why.
func (x *exposed) settle(t *testing.T, n int, why map[engine.Reason]uint64) {
	t.Helper()
	eventually(t, "only the neighbours are left, and no output is queued", func() bool {
		st := x.Stats()
		return st.Open == len(x.neighbours) && st.Owed == 0 && st.Waiting == 0
	})
	for _, p := range x.neighbours {
		p.exchange(7, "still here")
	}
	wantCounted(t, x.Server, why)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opened != len(x.closed)+len(x.neighbours) || x.opened > n+len(x.neighbours) {
		t.Errorf("of %d connections ConnContext saw %d and OnClose %d, want all except the %d open ones",
			n+len(x.neighbours), x.opened, len(x.closed), len(x.neighbours))
	}
	for c, times := range x.closed {
		if times != 1 {
			t.Errorf("OnClose was called %d times for %v", times, c)
		}
	}
}

// Ensures that Events uses the Fault; otherwise every test with faults would pass without
// them.
func TestEventsAsksTheFaultBeforeItsSystemCalls(t *testing.T) {
	names := map[sys.Call]string{sys.CallRead: "read", sys.CallWrite: "write", sys.CallWait: "wait", sys.CallRegister: "register"}
	runEvents(t, func(t *testing.T, e engine.Engine) {
		var asked [16]atomic.Int64
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		dial(t, serveWith(t, s, func(c sys.Call, n int) (int, error) {
			asked[c].Add(1)
			return n, nil
		})).exchange(1, "hello")
		for call, name := range names {
			if asked[call].Load() == 0 {
				t.Errorf("no %s has called the fault", name)
			}
		}
	})
}

// falter does everything that a kernel may do, and nothing else.
func TestFalterDoesAllThatAKernelMayDo(t *testing.T) {
	const calls = 10_000
	one, same := falter(seed(t)), falter(seed(t))
	interrupted, refused, cut, whole := 0, 0, 0, 0
	for i := range calls {
		n := 1 + i%4096
		allow, err := one(sys.CallWrite, n)
		if again, fault := same(sys.CallWrite, n); again != allow || fault != err {
			t.Fatalf("call %d: %d and %v, and then %d and %v for the same seed", i, allow, err, again, fault)
		}
		switch {
		case err == syscall.EINTR && allow == 0:
			interrupted++
		case err != nil || allow < 0 || allow > n:
			t.Fatalf("%d of %d and %v is not a valid answer", allow, n, err)
		case allow == 0:
			refused++
		case allow < n:
			cut++
		default:
			whole++
		}
	}
	t.Logf("%d interrupted, %d refused, %d cut short, %d whole", interrupted, refused, cut, whole)
	if min(interrupted, refused, cut, whole) < calls/30 {
		t.Error("one of them is too rare")
	}
}

// A connection may break at any call. It ends with that reason, once, and affects no
// other; replies owed to it are dropped.
func TestConnectionThatBreaksAtAnyCallEndsAlone(t *testing.T) {
	for _, blow := range []struct {
		name    string
		call    sys.Call
		err     error
		partial bool
	}{
		{"read/reset", sys.CallRead, syscall.ECONNRESET, false},
		{"write/pipe", sys.CallWrite, syscall.EPIPE, false},
		{"write/reset after a byte", sys.CallWrite, syscall.ECONNRESET, true},
	} {
		t.Run(blow.name, func(t *testing.T) {
			runEvents(t, func(t *testing.T, e engine.Engine) {
				x := expose(t, e, &saboteur{victim: blow.call, err: blow.err, partial: blow.partial})
				for n := 1; ; n++ {
					x.aim(t, n)
					whole := x.converse(t)
					if x.hit() { // the client may not notice if it was the last call
						x.settle(t, n, map[engine.Reason]uint64{engine.PeerReset: uint64(n)})
						continue
					}
					if !whole {
						t.Error("no call failed, but the conversation did not complete")
					}
					x.settle(t, n, map[engine.Reason]uint64{engine.PeerReset: uint64(n - 1), engine.PeerClosed: 1})
					if t.Logf("%d calls failed", n-1); n < 6 {
						t.Error("fewer than the steps of a conversation")
					}
					return
				}
			})
		})
	}
}

// When the connection of a refused peer breaks during the refusal, it is counted either
// as refused or as broken, once.
func TestConnectionThatBreaksWhileItIsRefusedIsCountedOnce(t *testing.T) {
	for name, call := range map[string]sys.Call{"read": sys.CallRead, "write": sys.CallWrite} {
		t.Run(name, func(t *testing.T) {
			runEvents(t, func(t *testing.T, e engine.Engine) {
				x := expose(t, e, &saboteur{victim: call, err: syscall.ECONNRESET})
				for n, hit := 1, true; hit; n++ {
					x.aim(t, n)
					p := dial(t, x.addr)
					p.Write(append(submit(1, "hello"), 0, 0, 0, 3))
					io.Copy(io.Discard, p.r)
					p.Write([]byte("more"))
					p.Close()
					eventually(t, "only the neighbours are left", func() bool { return x.Stats().Open == len(x.neighbours) })
					hit = x.hit()
					ended := x.Stats().Ended
					if refused, broken := ended[engine.Malformed], ended[engine.PeerReset]; refused+broken != uint64(n) || refused == 0 && !hit {
						t.Errorf("of %d peers, %d are counted as refused and %d as broken", n, refused, broken)
					}
					x.settle(t, n, map[engine.Reason]uint64{engine.Malformed: ended[engine.Malformed], engine.PeerReset: ended[engine.PeerReset]})
				}
			})
		})
	}
}

// Whichever call fails during it, a shutdown ends with all connections counted.
func TestShutdownWhileConnectionsBreakEndsWithAllCounted(t *testing.T) {
	for name, call := range map[string]sys.Call{"read": sys.CallRead, "write": sys.CallWrite} {
		t.Run(name, func(t *testing.T) {
			runEvents(t, func(t *testing.T, e engine.Engine) {
				for n, hit := 1, true; hit; n++ {
					entered, release := make(chan struct{}, 1), make(chan struct{})
					s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
						if string(req) == "block" {
							entered <- struct{}{}
							<-release
						}
						return append(dst, req...), nil
					})}
					breaks := &saboteur{victim: call, err: syscall.ECONNRESET}
					addr := serveWith(t, s, breaks.fault)
					idle, busy := dial(t, addr), dial(t, addr)
					idle.exchange(1, "hello")
					busy.send(submit(1, "block"))
					heard(t, entered, "a handler")
					busy.send(requests(20))
					breaks.aim(t, n)
					done := shutdown(context.Background(), s)
					drainBegins(t, s)
					close(release)
					var leaving sync.WaitGroup
					for _, p := range []*peer{idle, busy} {
						leaving.Go(func() {
							io.Copy(io.Discard, p.r)
							p.Close()
						})
					}
					got := heard(t, done, "Shutdown")
					hit = breaks.hit()
					total := uint64(0)
					for _, ended := range s.Stats().Ended {
						total += ended
					}
					if want := (engine.Drained{Clean: 2}); got.Drained != want || got.err != nil || total != 2 || s.Stats().Open != 0 {
						t.Errorf("Shutdown ended with %+v and %v, want %+v; %d connections are counted and %d are open, want 2 and 0 (all: %v)",
							got.Drained, got.err, want, total, s.Stats().Open, s.Stats().Ended)
					}
					leaving.Wait()
				}
			})
		})
	}
}

// The kernel may lack the memory, or the permission, to watch another socket. Such a
// connection would get no events, so it is closed.
func TestConnectionThatCannotBeWatchedIsClosedAndCounted(t *testing.T) {
	for name, err := range map[string]error{"no memory": syscall.ENOMEM, "too many": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			runEvents(t, func(t *testing.T, e engine.Engine) {
				x := expose(t, e, &saboteur{victim: sys.CallRegister, err: err})
				for n := 1; n <= 5; n++ {
					x.aim(t, 1)
					p := dial(t, x.addr)
					if rest, err := io.ReadAll(p.r); len(rest) > 0 && err == nil {
						t.Errorf("read %q, want nothing or a refusal and the end", rest)
					}
					p.Close()
					if !x.hit() {
						t.Fatal("a connection was accepted without being watched")
					}
					x.settle(t, n, map[engine.Reason]uint64{engine.NoDescriptors: uint64(n)})
				}
				x.rest(t)
				if !x.converse(t) {
					t.Error("the next connection is not served")
				}
			})
		})
	}
}

// The same for every later change of the interest: the conversation continues, or the
// connection is closed and counted, but it is never left without events.
func TestConnectionThatCannotBeWatchedAnyLongerIsNotForgotten(t *testing.T) {
	runEvents(t, func(t *testing.T, e engine.Engine) {
		x := expose(t, e, &saboteur{victim: sys.CallRegister, err: syscall.ENOMEM})
		cut := uint64(0)
		for n, hit := uint64(1), true; hit; n++ {
			x.aim(t, int(n))
			whole := x.converse(t)
			if hit = x.hit(); !hit && !whole {
				t.Error("no call failed, but the conversation did not complete")
			}
			eventually(t, "the connection has ended", func() bool { return x.ended() == n })
			if now := x.Stats().Ended[engine.NoDescriptors]; !whole && now != cut+1 {
				t.Errorf("call %d failed and the connection was cut off; %d are counted for it, want one more than %d", n, now, cut)
			} else {
				cut = now
			}
			x.settle(t, int(n), map[engine.Reason]uint64{engine.NoDescriptors: cut, engine.PeerClosed: n - cut})
			t.Logf("call %d failed: %v; went on: %v", n, hit, whole)
		}
	})
}

// Waits may fail, be interrupted or return nothing: then they are repeated, and no
// connection is lost.
func TestWaitsThatFailForAWhileLoseNobody(t *testing.T) {
	for name, fail := range map[string]error{"interrupted": syscall.EINTR, "nothing": nil, "no memory": syscall.ENOMEM} {
		t.Run(name, func(t *testing.T) {
			runEvents(t, func(t *testing.T, e engine.Engine) {
				var failing, failed atomic.Int64
				h, owed := postponing(20)
				s := &framed.Server{Engine: e, Handler: h}
				addr := serveWith(t, s, func(c sys.Call, n int) (int, error) {
					if c == sys.CallWait && failing.Add(-1) >= 0 {
						failed.Add(1)
						return 0, fail
					}
					return n, nil
				})
				var peers []*peer
				for range 20 {
					p := dial(t, addr)
					p.exchange(1, "hello")
					peers = append(peers, p)
				}
				for round := range uint64(10) {
					failing.Store(500)
					for _, p := range peers {
						p.send(append(submit(round, "asked"), submit(100, "late")...))
					}
					for _, p := range peers {
						p.want(ack(round, "asked"))
					}
					for range peers {
						r := heard(t, owed, "a handler")
						if err := r.Send([]byte("done")); err != nil {
							t.Error(err)
						}
					}
					for _, p := range peers {
						p.want(ack(100, "done"))
					}
				}
				if failed.Load() == 0 {
					t.Error("no wait has failed; the test proves nothing")
				}
				failing.Store(1 << 40)
				begun := time.Now()
				s.Close()
				between(t, begun, 0, 0)
			})
		})
	}
}
