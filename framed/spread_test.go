package framed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/wire"
)

// The clients of a server that drains over a time come evenly to the next one, and no call of theirs fails or
// is executed twice.
func TestSpreadDrainHandsOverEvenly(t *testing.T) {
	const clients, whole = 600, 20 * time.Second
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var executed, answered atomic.Int64
				var servers [2]*framed.Server
				var listeners [2]*fakenet.Listener
				served := make(chan error, 2)
				for i := range servers {
					servers[i] = &framed.Server{Engine: e, Limits: engine.Limits{SpreadTime: whole}, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
						executed.Add(1)
						return echo(c, dst, req)
					})}
					listeners[i] = fakenet.Listen()
					go func() { served <- servers[i].Serve(listeners[i]) }()
				}
				var mu sync.Mutex
				var came []time.Time // to the second server
				dial := func(context.Context) (net.Conn, error) {
					if nc, err := listeners[0].Dial(); err == nil {
						return nc, nil
					}
					mu.Lock()
					came = append(came, time.Now())
					mu.Unlock()
					return listeners[1].Dial()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var calling sync.WaitGroup
				for i := range clients {
					calling.Go(func() {
						m := &framed.Mux{Dial: dial}
						defer m.Close()
						if err := m.Open(ctx); err != nil {
							t.Error(err)
						}
						for n := 0; ctx.Err() == nil; n++ {
							if i%2 == 0 { // the others only listen
								want := fmt.Sprint(i, n)
								if got, err := m.Call(context.Background(), nil, []byte(want)); err != nil || string(got) != want {
									t.Errorf("Call: %q, %v", got, err)
								}
								answered.Add(1)
							}
							<-time.After(rand.N(3 * time.Second))
						}
					})
				}
				<-time.After(10 * time.Second)
				raw, err := listeners[0].Dial()
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // it is served
				calling.Go(func() {
					defer raw.Close()
					last := wire.Append(nil, wire.Packet{Command: wire.ConnAck, Result: wire.ShuttingDown, Content: []byte("1000")})
					if said, err := io.ReadAll(raw); err != nil || !bytes.Equal(said, last) {
						t.Errorf("a connection was told %q and %v", said, err)
					}
				})
				began := time.Now()
				if err := servers[0].Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < whole-2*time.Second || took > whole+time.Second {
					t.Errorf("the drain took %v", took)
				}
				<-time.After(5 * time.Second)
				cancel()
				calling.Wait()
				servers[1].Close()
				for range servers {
					if err := <-served; !errors.Is(err, framed.ErrServerClosed) {
						t.Error(err)
					}
				}
				if n, want := executed.Load(), answered.Load(); n != want {
					t.Errorf("%d calls were executed, %d answered", n, want)
				}
				counts := map[int]int{}
				for _, at := range came {
					counts[int(at.Sub(began)/time.Second)]++
				}
				for second, n := range counts {
					if want := clients / int(whole/time.Second); n > want*3/2 {
						t.Errorf("%d came in second %d, want %d, and half more at most", n, second, want)
					}
				}
				if len(came) != clients {
					t.Errorf("%d came, want %d", len(came), clients)
				}
			})
		})
	}
}

// A Mux stays away for a random part of the time that a refusal names, also before it has logged in.
func TestMuxComesBackAsAsked(t *testing.T) {
	for _, result := range []wire.Result{wire.ShuttingDown, wire.Overloaded} {
		m := &framed.Mux{Credentials: func(context.Context) ([]byte, error) { return []byte("me"), nil }}
		var pauses []time.Duration
		var last time.Time
		inMemory(t, m, func(dial int, p *peer) {
			if dial > 0 {
				pauses = append(pauses, time.Since(last))
			}
			p.tryPacket()
			if dial%2 == 0 { // the others are refused at the login
				p.Write(wire.Append(nil, wire.Packet{Command: wire.ConnAck, ID: 1}))
			}
			last = time.Now() // before the client can dial again
			p.Write(wire.Append(nil, wire.Packet{Command: wire.ConnAck, Result: result, Content: wire.AppendWithin(nil, 40*time.Second)}))
		}, func(t *testing.T) {
			m.Open(t.Context())
			<-time.After(time.Hour)
		})
		var sum time.Duration
		for _, d := range pauses {
			if sum += d; d > 40*time.Second {
				t.Errorf("%v: %v, want 40 s at most", result, d)
			}
		}
		if mean := sum / time.Duration(len(pauses)); mean < 15*time.Second || mean > 25*time.Second {
			t.Errorf("%v: %v on average, want 20 s", result, mean)
		}
	}
}

// Clients that all come at once are admitted at Limits.AcceptRate, and no call of theirs fails: they log in first, as only so
// many are refused in words at once, and whoever has sent a request by then cannot know what became of it.
func TestStormIsAdmitted(t *testing.T) {
	const clients, rate = 600, 40
	synctest.Test(t, func(t *testing.T) {
		var executed atomic.Int64
		ln := fakenet.Listen()
		s := &framed.Server{Limits: engine.Limits{AcceptRate: rate}, Connect: framed.HandlerFunc(echo), Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			executed.Add(1)
			return echo(c, dst, req)
		})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		began := time.Now()
		var mu sync.Mutex
		counts := map[int]int{}
		var calling sync.WaitGroup
		for range clients {
			calling.Go(func() {
				m := &framed.Mux{
					Dial:        func(context.Context) (net.Conn, error) { return ln.Dial() },
					Credentials: func(context.Context) ([]byte, error) { return []byte("me"), nil },
				}
				if _, err := m.Call(t.Context(), nil, []byte("hello")); err != nil {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				mu.Lock()
				counts[int(time.Since(began)/time.Second)]++
				mu.Unlock()
				<-time.After(2 * time.Minute)
				m.Close()
			})
		}
		calling.Wait()
		s.Close()
		<-served
		for second, n := range counts {
			if n > rate*3/2 || second > clients/rate*2 {
				t.Errorf("%d were admitted in second %d, want %d a second", n, second, rate)
			}
		}
		if n := executed.Load(); n != clients {
			t.Errorf("%d calls were executed, want %d", n, clients)
		}
	})
}
