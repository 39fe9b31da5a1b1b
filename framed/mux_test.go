package framed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// newMux closes m at the end of the test.
func newMux(t testing.TB, m *framed.Mux) *framed.Mux {
	t.Helper()
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMuxManyCallers(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var seen sync.Map // connections that have served a request
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			seen.Store(c.Conn(), true)
			return append(dst, req...), nil
		})})
		m := newMux(t, &framed.Mux{Addr: addr, Conns: 3, Client: framed.ClientOptions{Window: 16}})
		eventually(t, "three connections are open", func() bool { return m.Open(patient(t)) == nil && m.Stats().Conns == 3 })
		ctx := patient(t)
		var callers sync.WaitGroup
		for caller := range 128 {
			callers.Go(func() {
				var request, reply []byte
				for call := range 50 {
					request = fmt.Appendf(request[:0], "caller %d, call %d", caller, call)
					var err error
					reply, err = m.Call(ctx, append(reply[:0], "dst"...), request)
					if err != nil || string(reply) != "dst"+string(request) {
						t.Errorf("%q was answered with %q and %v", request, reply, err)
						return
					}
				}
			})
		}
		callers.Wait()
		if s := m.Stats(); s.Sent != 128*50 || s.InFlight+s.Waiting > 0 || s.Dialled != 3 || s.LastError != nil {
			t.Errorf("%+v", s)
		}
		used := 0
		seen.Range(func(any, any) bool { used++; return true })
		if used != 3 {
			t.Errorf("%d connections were used, want 3", used)
		}
	})
}

// Replies arrive out of order and at about the time when callers give up; the content
// would reveal a reply that reached another caller.
func TestMuxNeverMixesReplies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		from := seed(t)
		handler := make(later, 256)
		addr := serve(t, &framed.Server{Engine: e, Handler: handler})
		m := newMux(t, &framed.Mux{Addr: addr, Conns: 2, Client: framed.ClientOptions{Window: 32}})
		stop := make(chan struct{})
		var answering, callers sync.WaitGroup
		answering.Go(func() {
			random := rand.New(rand.NewPCG(from, 0))
			var owed []lateRequest
			for {
				select {
				case r := <-handler:
					owed = append(owed, r)
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				random.Shuffle(len(owed), func(i, j int) { owed[i], owed[j] = owed[j], owed[i] })
				for _, r := range owed[len(owed)/2:] {
					r.reply.Send(r.content)
				}
				owed = owed[:len(owed)/2]
			}
		})
		var answered, cancelled atomic.Int64
		for caller := range 200 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(from, uint64(caller+1)))
				var dst []byte
				for call := range 20 {
					request := fmt.Appendf(nil, "caller %d, call %d", caller, call)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20_000))*time.Microsecond)
					got, err := m.Call(ctx, dst[:0], request)
					cancel()
					switch {
					case err == nil && bytes.Equal(got, request):
						answered.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						cancelled.Add(1)
					default:
						t.Errorf("%q was answered with %q and %v", request, got, err)
					}
					dst = got
					clear(dst[:cap(dst)])
				}
			})
		}
		callers.Wait()
		t.Logf("%d answered, %d cancelled", answered.Load(), cancelled.Load())
		eventually(t, "late replies are dropped, and free their place", func() bool { return m.Stats().InFlight == 0 })
		close(stop)
		answering.Wait()
	})
}

// By default a connection never has more requests in flight than the server allows, which
// would then stop reading, heartbeats included.
func TestMuxWindowIsTheServersLimit(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const calls, window = 1500, 1024
		handler := make(later, calls)
		m := newMux(t, &framed.Mux{Addr: serve(t, &framed.Server{Engine: e, Handler: handler})})
		ctx := patient(t)
		var callers sync.WaitGroup
		for range calls {
			callers.Go(func() {
				if _, err := m.Call(ctx, nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "the window is full", func() bool { s := m.Stats(); return s.InFlight == window && s.Waiting == calls-window })
		eventually(t, "all of it has arrived", func() bool { return len(handler) == window })
		for range calls {
			receive(t, handler).reply.Send(nil)
		}
		callers.Wait()
	})
}

// executions counts how often each numbered request was executed.
type executions []atomic.Int32

func (e executions) Handle(_ framed.Call, dst, req []byte) ([]byte, error) {
	e[binary.BigEndian.Uint32(req)].Add(1)
	return append(dst, req...), nil
}

// The server is killed and restarted under load, three times. No reply is wrong, no
// request is executed twice, what failed with ErrNotSent was not executed, and in the end
// calls succeed.
func TestMuxServerIsKilledAndRestarted(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const callers, most = 64, 1 << 20
		executed := make(executions, most)
		start := func(addr string) (*framed.Server, string, func()) {
			var ln net.Listener
			eventually(t, "the port is free", func() bool { // another program may have taken it meanwhile
				var err error
				ln, err = net.Listen("tcp", addr)
				return err == nil
			})
			s := &framed.Server{Engine: e, Handler: executed}
			served := make(chan error, 1)
			go func() { served <- s.Serve(front(t, ln)) }()
			return s, ln.Addr().String(), func() { s.Close(); <-served }
		}
		_, addr, kill := start("127.0.0.1:0")
		m := newMux(t, &framed.Mux{Addr: addr, Conns: 2})
		var number, answered, unknown, unsent atomic.Int64
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		var calling sync.WaitGroup
		for range callers {
			calling.Go(func() {
				for ctx.Err() == nil && !t.Failed() {
					n := number.Add(1)
					if n >= most {
						return
					}
					request := binary.BigEndian.AppendUint32(nil, uint32(n))
					callCtx, done := context.WithTimeout(ctx, time.Duration(rand.IntN(200))*time.Millisecond)
					got, err := m.Call(callCtx, nil, request)
					done()
					times := executed[n].Load()
					switch {
					case err == nil:
						answered.Add(1)
						if !bytes.Equal(got, request) || times != 1 {
							t.Errorf("request %d, executed %d times, was answered with %x", n, times, got)
						}
					case errors.Is(err, framed.ErrNotSent):
						unsent.Add(1)
						if times != 0 {
							t.Errorf("request %d was executed but failed with %v", n, err)
						}
					case errors.Is(err, framed.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
						unknown.Add(1)
					default:
						t.Errorf("request %d failed with %v", n, err)
					}
				}
			})
		}
		for range 3 {
			before := answered.Load()
			eventually(t, "calls are answered", func() bool { return answered.Load() > before+100 })
			kill()
			before = unsent.Load()
			eventually(t, "calls find no server", func() bool { return unsent.Load() > before+10 })
			_, _, kill = start(addr)
		}
		before := answered.Load()
		eventually(t, "calls are answered again", func() bool { return answered.Load() > before+100 })
		cancel()
		calling.Wait()
		m.Close()
		kill()
		for n := range min(most, number.Load()+1) {
			if times := executed[n].Load(); times > 1 {
				t.Errorf("request %d was executed %d times", n, times)
			}
		}
		t.Logf("%d answered, %d unknown, %d not sent; %+v", answered.Load(), unknown.Load(), unsent.Load(), m.Stats())
	})
}

// A drain ends the connection; the Mux connects to the next server.
func TestMuxOutlivesAShutdown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		old := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addrs := make(chan string, 2)
		addrs <- serve(t, old)
		addrs <- serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)})
		m := newMux(t, &framed.Mux{Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", <-addrs)
		}})
		wantEcho(t, m, "before")
		if err := old.Shutdown(patient(t)); err != nil {
			t.Error(err)
		}
		eventually(t, "the Mux has detected the shutdown", func() bool { return m.Stats().Lost == 1 })
		wantEcho(t, m, "after")
		if s := m.Stats(); !errors.Is(s.LastError, wire.ShuttingDown) {
			t.Errorf("%+v", s)
		}
	})
}

func TestMuxSendsCredentialsFirst(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{
			Engine: e,
			Connect: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if string(req) != "secret" {
					return dst, wire.Unauthorised
				}
				c.Conn().SetValue("ann")
				return dst, nil
			}),
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				name, _ := c.Conn().Value().(string)
				if string(req) == "close" {
					c.Conn().Close()
				}
				return append(dst, name...), nil
			}),
		}
		var secret atomic.Pointer[string]
		m := newMux(t, &framed.Mux{Addr: serve(t, s), Credentials: func(context.Context) ([]byte, error) {
			if s := secret.Load(); s != nil {
				return []byte(*s), nil
			}
			return nil, errors.ErrUnsupported
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.Open(ctx); !errors.Is(err, framed.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without credentials Open returned %v", err)
		}
		wrong, right := "guess", "secret"
		secret.Store(&wrong)
		if _, err := m.Call(patient(t), nil, nil); !errors.Is(err, wire.Unauthorised) || !errors.Is(err, framed.ErrNotSent) {
			t.Errorf("with wrong credentials Call returned %v", err)
		}
		secret.Store(&right)
		eventually(t, "the credentials are accepted", func() bool { return m.Open(patient(t)) == nil })
		for range 3 {
			lost := m.Stats().Lost
			if got, err := m.Call(patient(t), nil, []byte("close")); err != nil || string(got) != "ann" {
				t.Errorf("Call returned %q and %v", got, err)
			}
			eventually(t, "the server has closed", func() bool { return m.Stats().Lost > lost })
		}
	})
}

func TestMuxPushesFromEveryConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const conns = 3
		var pushed sync.Map
		all := make(chan uint64, 100)
		var number atomic.Uint64
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		s.Connect = framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			return dst, c.Conn().Push(number.Add(1), []byte("welcome"))
		})
		m := newMux(t, &framed.Mux{
			Addr:        serve(t, s),
			Conns:       conns,
			Credentials: func(context.Context) ([]byte, error) { return nil, nil },
			Client: framed.ClientOptions{OnDeliver: func(id uint64, content []byte) {
				if _, again := pushed.LoadOrStore(id, true); again || string(content) != "welcome" {
					t.Errorf("push %d brought %q, again: %t", id, content, again)
				}
				all <- id
			}},
		})
		if err := m.Open(patient(t)); err != nil {
			t.Fatal(err)
		}
		for range conns {
			receive(t, all)
		}
	})
}

func TestMuxResultsAreTheCallers(t *testing.T) {
	t.Cleanup(countLeaks(t))
	s := &framed.Server{Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
		return append(dst, req...), wire.Unauthorised
	})}
	m := newMux(t, &framed.Mux{Addr: serve(t, s)})
	if _, err := m.Call(patient(t), nil, nil); err != wire.Unauthorised {
		t.Errorf("Call returned %v", err)
	}
	if s := m.Stats(); s.Sent != 1 {
		t.Errorf("%d requests were sent, want 1", s.Sent)
	}
}

func TestMuxMisuse(t *testing.T) {
	var unused framed.Mux
	unused.Close()
	unused.Close()
	if _, err := unused.Call(t.Context(), nil, nil); !errors.Is(err, framed.ErrClosed) {
		t.Errorf("a closed Mux returned %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a Mux without Addr and Dial did not panic")
		}
	}()
	new(framed.Mux).Call(t.Context(), nil, nil)
}

func TestMuxAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("sync.Pool drops some of its values under the race detector")
	}
	addr := serve(t, &framed.Server{Handler: framed.HandlerFunc(echo)})
	m := newMux(t, &framed.Mux{Addr: addr, Conns: 2, StallTime: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, reply := make([]byte, 100), make([]byte, 0, 100)
	n := testing.AllocsPerRun(2000, func() {
		if _, err := m.Call(ctx, reply, request); err != nil {
			t.Error(err)
		}
	})
	if n >= 1 {
		t.Errorf("%v allocations for a call, server and all; want none", n)
	}
}
