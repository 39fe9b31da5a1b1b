package framed_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/wire"
)

// uncomparable is a listener that cannot be a map key.
type uncomparable struct {
	net.Listener
	_ []func()
}

// TestListenAndServeWantsAPort: without a port, net picks a random one, which clients
// could not know; port 0 requests that explicitly.
func TestListenAndServeWantsAPort(t *testing.T) {
	for addr, want := range map[string]string{
		"":           `framed: Server.Addr "" has no port; set it to HOST:PORT, :PORT or unix:PATH`,
		":":          `framed: Server.Addr ":" has no port; set it to HOST:PORT, :PORT or unix:PATH`,
		"127.0.0.1:": `framed: Server.Addr "127.0.0.1:" has no port; set it to HOST:PORT, :PORT or unix:PATH`,
		"unix:":      `framed: Server.Addr "unix:" is not a file, so no permissions would protect it; set it to unix:PATH`,
		"unix:@name": `framed: Server.Addr "unix:@name" is not a file, so no permissions would protect it; set it to unix:PATH`,
	} {
		s := &framed.Server{Addr: addr, Handler: framed.HandlerFunc(echo)}
		done := make(chan error, 1)
		go func() { done <- s.ListenAndServe() }()
		select {
		case err := <-done:
			if fmt.Sprint(err) != want {
				t.Errorf("Addr %q: %v, want %s", addr, err, want)
			}
		case <-time.After(patience / 10):
			t.Errorf("Addr %q: ListenAndServe succeeded, want the error %s", addr, want)
		}
		s.Close()
	}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TestOneServerServesEveryListenerAtOnce: sockets and other connections share one
// server's limits, pushes and shutdown, even where an engine serves them differently.
func TestOneServerServesEveryListenerAtOnce(t *testing.T) {
	run(t, servesEveryListenerAtOnce)
}

// TestZeroEngineIsTheDefault: and behaves the same.
func TestZeroEngineIsTheDefault(t *testing.T) {
	runOn(t, []variant{{"zero", engine.Engine{}}}, servesEveryListenerAtOnce)
	s := &framed.Server{Handler: framed.HandlerFunc(echo)}
	defer s.Close()
	all := engine.All()
	if want, got := all[len(all)-1].Name(), s.Stats().Engine; got != want {
		t.Errorf("the zero Engine is %q, want %q", got, want)
	}
}

func servesEveryListenerAtOnce(t *testing.T, e engine.Engine) {
	var met []framed.Conn
	introduced := make(chan framed.Conn, 1)
	s := &framed.Server{
		Engine: e,
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			switch string(req) {
			case "hello":
				introduced <- c.Conn()
			case "everybody":
				for i, to := range met {
					if err := to.Push(uint64(i), req); err != nil {
						t.Errorf("push to connection %d: %v", i, err)
					}
				}
			}
			return append(dst, req...), nil
		}),
		Limits: engine.Limits{Conns: 5},
	}
	tcp, hidden, private := serve(t, s), serveOn(t, s, adapter{listenTCP(t)}), serveTLS(t, s)
	memory := memoryListener{fakenet.Listen()}
	serveOn(t, s, adapter{memory})
	doors := []func() *peer{
		func() *peer { return dial(t, tcp) },
		func() *peer { return dial(t, hidden) },
		func() *peer { return dialTLS(t, private) },
		func() *peer { return memory.dial(t) },
	}
	var peers []*peer
	for _, enter := range append(doors, doors[0]) {
		p := enter()
		p.send(submit(1, "hello"))
		met = append(met, heard(t, introduced, "a handler"))
		p.want(ack(1, "hello"))
		peers = append(peers, p)
	}
	for i, p := range peers {
		p.send(submit(9, "everybody"))
		for j, q := range peers {
			if i != j {
				q.want(deliver(uint64(j), "everybody"))
			}
		}
		push, answer := deliver(uint64(i), "everybody"), ack(9, "everybody")
		got := make([]byte, 0, len(push)+len(answer))
		for range 2 { // in either order
			packet := p.packet()
			got = wire.Append(got, packet)
		}
		if text := string(got); text != string(push)+string(answer) && text != string(answer)+string(push) {
			t.Errorf("connection %d got %q, want its push and its answer", i, got)
		}
	}
	for i, enter := range doors {
		if i != 2 { // TLS is closed without a refusal, in the middle of its handshake
			p := enter()
			p.wantRefusal(wire.Overloaded)
			p.Close()
		}
	}
	ended(t, s, engine.TooManyConns, 3)
	done := shutdown(context.Background(), s)
	for _, p := range peers {
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
	}
	drained(t, done, 5)
}

// TestListenerThatCannotBeComparedIsServed: a net.Listener need not be comparable.
func TestListenerThatCannotBeComparedIsServed(t *testing.T) {
	runPlain(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		ln := uncomparable{Listener: listenTCP(t)}
		served, panicked := make(chan error, 1), make(chan any, 1)
		go func() {
			defer func() {
				if v := recover(); v != nil {
					ln.Close()
					panicked <- v
				}
			}()
			served <- s.Serve(ln)
		}()
		if nc, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			p := peerOf(t, nc)
			p.Write(submit(1, "hello"))
			if _, err := p.tryPacket(); err == nil {
				s.Close()
			}
		}
		select {
		case v := <-panicked:
			t.Fatalf("Serve panics: %v", v) // it holds its locks, so the server cannot be closed
		case err := <-served:
			if err != framed.ErrServerClosed {
				t.Errorf("Serve returned %v, want ErrServerClosed", err)
			}
		case <-time.After(patience):
			t.Fatal("Serve did not return")
		}
	})
}

// On a full server idle clients stay, unless GiveWay is set.
func TestIdleClientsGiveWay(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, gives := range []bool{false, true} {
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 2}, GiveWay: gives}
			addr := serve(t, s)
			one, two := dial(t, addr), dial(t, addr)
			one.exchange(1, "one")
			two.exchange(2, "two")
			three := dial(t, addr)
			if !gives {
				three.wantRefusal(wire.Overloaded)
				one.exchange(3, "one")
				two.exchange(4, "two")
				continue
			}
			three.exchange(5, "three")
			ended(t, s, engine.Displaced, 1)
		}
	})
}
