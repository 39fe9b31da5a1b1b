package framed_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

func TestMuxGo(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const calls = 500
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if strings.HasSuffix(string(req), "7") {
				return dst, wire.Unauthorised
			}
			return append(dst, req...), nil
		})})
		m := newMux(t, &framed.Mux{Addr: addr, Conns: 2, Client: framed.ClientOptions{Window: 16}})
		ctx := patient(t)
		var under sync.WaitGroup
		for i := range calls {
			request := fmt.Sprintf("call %d", i)
			under.Add(1)
			err := m.Go(ctx, []byte("dst, "), []byte(request), func(reply []byte, err error) {
				defer under.Done()
				want, wantErr := "dst, "+request, error(nil)
				if strings.HasSuffix(request, "7") {
					want, wantErr = "dst, ", wire.Unauthorised
				}
				if string(reply) != want || err != wantErr {
					t.Errorf("%q was answered with %q and %v", request, reply, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		under.Wait()
		if s := m.Stats(); s.Sent != calls || s.InFlight+s.Waiting > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A call in flight needs no goroutine, wherever it waits.
func TestMuxGoNeedsNoGoroutines(t *testing.T) {
	const calls = 1000
	m := &framed.Mux{Heartbeat: -1, Client: framed.ClientOptions{Window: calls / 2}}
	inMemory(t, m, serveNothing, func(t *testing.T) {
		ended := 0
		ask := func() {
			if err := m.Go(t.Context(), nil, []byte("request"), func(_ []byte, err error) {
				if !errors.Is(err, framed.ErrClosed) {
					t.Errorf("done got %v", err)
				}
				ended++
			}); err != nil {
				t.Fatal(err)
			}
		}
		ask() // the first one dials
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range calls - 1 {
			ask()
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 0 {
			t.Errorf("%d calls in flight have %d more goroutines than one", calls, n)
		}
		if s := m.Stats(); s.InFlight != calls/2 || s.Waiting != calls/2 {
			t.Errorf("%+v", s)
		}
		m.Close()
		if ended != calls {
			t.Errorf("after Close %d of %d calls have ended", ended, calls)
		}
		if err := m.Go(t.Context(), nil, nil, func([]byte, error) { t.Error("done of a call that Go refused") }); !errors.Is(err, framed.ErrClosed) || !errors.Is(err, framed.ErrNotSent) {
			t.Errorf("after Close Go returned %v", err)
		}
	})
}

// Without a connection a call waits until its ctx ends, until there is one, or until the
// server refuses the credentials.
func TestMuxGoWaitsForAConnection(t *testing.T) {
	down := errors.New("down")
	for name, refuse := range map[string]bool{"accepted": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			m := &framed.Mux{Credentials: func(context.Context) ([]byte, error) { return nil, nil }}
			inMemory(t, m, func(dial int, p *peer) {
				if refuse {
					p.Write(packet(wire.ConnAck, p.packet().ID, wire.Unauthorised, ""))
				}
				serveEcho(dial, p)
			}, func(t *testing.T) {
				dial, start := m.Dial, time.Now()
				m.Dial = func(ctx context.Context) (net.Conn, error) {
					if time.Since(start) < 20*time.Second {
						return nil, down
					}
					return dial(ctx)
				}
				short, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				type end struct {
					call int
					err  error
					took time.Duration
				}
				ends := make(chan end, 10)
				for i := range cap(ends) {
					ctx := t.Context()
					if i%3 == 1 {
						ctx = short
					}
					if err := m.Go(ctx, nil, []byte("hello"), func(reply []byte, err error) {
						if err == nil && string(reply) != "hello" {
							t.Errorf("answered with %q", reply)
						}
						ends <- end{i, err, time.Since(start)}
					}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if s := m.Stats(); s.Waiting != cap(ends) {
					t.Errorf("%+v", s)
				}
				for range cap(ends) {
					o := <-ends
					switch {
					case o.call%3 == 1:
						if o.took != 7*time.Second || !errors.Is(o.err, framed.ErrNotSent) || !errors.Is(o.err, context.DeadlineExceeded) || !errors.Is(o.err, down) {
							t.Errorf("call %d ended after %v with %v", o.call, o.took, o.err)
						}
					case refuse:
						if !errors.Is(o.err, wire.Unauthorised) || !errors.Is(o.err, framed.ErrNotSent) {
							t.Errorf("call %d ended with %v", o.call, o.err)
						}
					case o.err != nil || o.took < 20*time.Second:
						t.Errorf("call %d ended after %v with %v", o.call, o.took, o.err)
					}
				}
				if s := m.Stats(); s.Waiting+s.InFlight > 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// As with Call, a request that was certainly not executed is sent again, and one that may
// have been is not. If ctx ends after it was sent, the reply is still delivered.
func TestMuxGoSendsAgainOnlyWhatWasNotExecuted(t *testing.T) {
	m := &framed.Mux{}
	var asked []string // over all connections; one goroutine at a time
	inMemory(t, m, func(dial int, p *peer) {
		for {
			got, err := p.tryPacket()
			if err != nil {
				return
			}
			asked = append(asked, fmt.Sprint(dial, " ", string(got.Content)))
			switch {
			case dial == 0: // it drains
				p.Write(packet(wire.ConnAck, 0, wire.ShuttingDown, ""))
				return
			case string(got.Content) == "last":
				return
			}
			p.Write(ack(got.ID, string(got.Content)))
		}
	}, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 2)
		call := func(content string) {
			if err := m.Go(ctx, nil, []byte(content), func(_ []byte, err error) { ends <- err }); err != nil {
				t.Fatal(err)
			}
		}
		call("first")
		if err := <-ends; err != nil {
			t.Errorf("the first call ended with %v", err)
		}
		call("last")
		cancel()
		if err := <-ends; !errors.Is(err, framed.ErrClosed) || errors.Is(err, framed.ErrNotSent) {
			t.Errorf("the last call ended with %v", err)
		}
		if err := m.Go(ctx, nil, nil, nil); !errors.Is(err, framed.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("with a ctx that has ended Go returned %v", err)
		}
		m.Close()
		if want := []string{"0 first", "1 first", "1 last"}; !slices.Equal(asked, want) {
			t.Errorf("the servers got %q, want %q", asked, want)
		}
	})
}

func TestMuxGoAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("sync.Pool drops some of its values under the race detector")
	}
	addr := serve(t, &framed.Server{Handler: framed.HandlerFunc(echo)})
	m := newMux(t, &framed.Mux{Addr: addr, Conns: 2, StallTime: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, room := make([]byte, 100), make([]byte, 0, 100)
	ended := make(chan struct{})
	done := func(_ []byte, err error) {
		if err != nil {
			t.Error(err)
		}
		ended <- struct{}{}
	}
	n := testing.AllocsPerRun(2000, func() {
		if err := m.Go(ctx, room, request, done); err != nil {
			t.Error(err)
		}
		<-ended
	})
	if n >= 1 {
		t.Errorf("%v allocations for a call, server and all; want none", n)
	}
}

// Close ends the calls that wait for a connection before it returns.
func TestMuxGoEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &framed.Mux{Dial: func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ended := 0
		for range 3 {
			if err := m.Go(t.Context(), nil, nil, func(_ []byte, err error) {
				if !errors.Is(err, framed.ErrClosed) || !errors.Is(err, framed.ErrNotSent) {
					t.Errorf("a call ended with %v", err)
				}
				ended++
			}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		m.Close()
		if ended != 3 {
			t.Errorf("%d of 3 calls have ended", ended)
		}
	})
}
