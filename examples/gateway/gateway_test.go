package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// running is a gateway that serves until the test ends.
type running struct {
	*gateway
	srv  *framed.Server
	addr string
	left chan engine.Reason // one for each connection that has ended
}

// onEveryEngine runs a test on every engine, new ones included.
func onEveryEngine(t *testing.T, test func(t *testing.T, g *running)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			g := newGateway("sesame", slog.New(slog.DiscardHandler))
			test(t, start(t, g, g.server(e)))
		})
	}
}

func start(t *testing.T, g *gateway, srv *framed.Server) *running {
	t.Helper()
	r := &running{gateway: g, srv: srv, left: make(chan engine.Reason, 16)}
	forget := srv.OnClose
	srv.OnClose = func(c framed.Conn, why engine.Reason) {
		forget(c, why)
		r.left <- why
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), srv, ln) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// user is a client whose pushes are queued for the test to check.
type user struct {
	t     *testing.T
	ctx   context.Context
	c     *framed.Client
	heard chan string
}

// dial connects without logging in.
func (r *running) dial(t *testing.T) *user {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	u := &user{t: t, ctx: ctx, heard: make(chan string, 64)}
	c, err := framed.Dial(ctx, r.addr, framed.ClientOptions{
		OnDeliver: func(id uint64, content []byte) { u.heard <- fmt.Sprintf("%d %s", id, content) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	u.c = c
	return u
}

// login connects and logs in.
func (r *running) login(t *testing.T, name string) *user {
	t.Helper()
	u := r.dial(t)
	u.connect(name+" sesame", "welcome "+name, nil)
	return u
}

func (u *user) connect(credentials, want string, wantErr error) {
	u.t.Helper()
	got, err := u.c.Connect(u.ctx, nil, []byte(credentials))
	if string(got) != want || !errors.Is(err, wantErr) {
		u.t.Errorf("Conn %q: %q, %v; want %q, %v", credentials, got, err, want, wantErr)
	}
}

func (u *user) submit(request string, want error) {
	u.t.Helper()
	got, err := u.c.Call(u.ctx, nil, []byte(request))
	if len(got) > 0 || !errors.Is(err, want) {
		u.t.Errorf("Submit %q: %q, %v; want nothing, %v", request, got, err, want)
	}
}

func (u *user) hears(want string) {
	u.t.Helper()
	select {
	case got := <-u.heard:
		if got != want {
			u.t.Errorf("heard %q, want %q", got, want)
		}
	case <-u.ctx.Done():
		u.t.Errorf("did not hear %q", want)
	}
}

// leaves waits until a connection has ended.
func (r *running) leaves(t *testing.T, want engine.Reason) {
	t.Helper()
	select {
	case why := <-r.left:
		if why != want {
			t.Errorf("a connection ended with %v, want %v", why, want)
		}
	case <-time.After(patience):
		t.Fatalf("no connection ended with %v", want)
	}
}

func TestRouting(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann, bob := g.login(t, "ann"), g.login(t, "bob")
		ann.submit("to bob hello", nil)
		bob.hears("1 from ann hello")
		bob.submit("to ann  more than one  word ", nil)
		ann.hears("2 from bob  more than one  word ")
		ann.submit("to ann a note", nil)
		ann.hears("3 from ann a note")
		ann.submit("to bob ", nil)
		bob.hears("4 from ann ")
	})
}

func TestUnknownName(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann := g.login(t, "ann")
		ann.submit("to zoe hello", noSuchDevice)
		ann.submit("to  hello", noSuchDevice)
		for _, request := range []string{"", "to", "to bob", "for bob hello", "tobob hello you"} {
			ann.submit(request, wire.Malformed)
		}
		bob := g.login(t, "bob")
		ann.submit("to bob hello", nil)
		bob.hears("1 from ann hello")
		bob.c.Close()
		g.leaves(t, engine.PeerClosed)
		ann.submit("to bob are you there?", noSuchDevice)
	})
}

func TestUnauthorised(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann, eve := g.login(t, "ann"), g.dial(t)
		eve.submit("to ann hello", wire.Unauthorised)
		for _, credentials := range []string{"", " ", "ann", "ann sesam", "ann sesame ", " sesame", "ann  sesame"} {
			eve.connect(credentials, "", wire.Unauthorised)
		}
		eve.submit("to ann hello", wire.Unauthorised)
		ann.submit("to ann still me", nil)
		ann.hears("1 from ann still me")
		eve.connect("eve sesame", "welcome eve", nil) // the connection has survived it
		eve.submit("to ann hello", nil)
		ann.hears("2 from eve hello")
	})
}

func TestReplacedLogin(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann, bob := g.login(t, "ann"), g.login(t, "bob")
		again := g.login(t, "bob")
		g.leaves(t, engine.ClosedHere)
		<-bob.c.Done()
		if err := bob.c.Err(); !errors.Is(err, io.EOF) {
			t.Errorf("the first connection ended with %v, want a close", err)
		}
		ann.submit("to bob hello", nil)
		again.hears("1 from ann hello")
	})
}

// A Conn packet on a connection that is already logged in: the heartbeat, the same name
// again, another name.
func TestLoginAgain(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann, bob := g.login(t, "ann"), g.login(t, "bob")
		bob.connect("", "", nil)
		ann.submit("to bob one", nil)
		bob.hears("1 from ann one")
		bob.connect("bob sesame", "welcome bob", nil)
		ann.submit("to bob two", nil)
		bob.hears("2 from ann two")
		bob.connect("rob sesame", "welcome rob", nil)
		ann.submit("to bob three", noSuchDevice)
		ann.submit("to rob three", nil)
		bob.hears("3 from ann three")
		bob.submit("to ann four", nil)
		ann.hears("4 from rob four")
	})
}

// logLines is a log that a test can wait for.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestRecovered(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			said := make(logLines, 4)
			g := newGateway("sesame", slog.New(slog.NewTextHandler(said, nil)))
			srv := g.server(e)
			srv.Handler = g.times.around(g.recovered(framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
				return dst, wire.Result(req[0])
			})))
			u := start(t, g, srv).dial(t)
			u.submit("", wire.Failed) // its handler panics
			u.submit("A", wire.Result('A'))
			if line := <-said; !strings.Contains(line, "panic in a handler") || !strings.Contains(line, "gateway_test.go") {
				t.Errorf("the log says %s, want the panic and its stack", line)
			}
			if st := srv.Stats(); len(said) > 0 || st.Panics != 0 || st.Open != 1 {
				t.Errorf("%d more lines, %d panics that the server saw, %d connections open; want 0, 0, 1", len(said), st.Panics, st.Open)
			}
			if calls, failed := g.times.calls.Load(), g.times.failed.Load(); calls != 2 || failed != 2 {
				t.Errorf("timed %d calls, %d failed; want 2 and 2", calls, failed)
			}
		})
	}
}

func TestTimed(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, g *running) {
		ann := g.login(t, "ann")
		ann.submit("to ann hello", nil)
		ann.submit("to zoe hello", noSuchDevice)
		ann.connect("", "", nil)
		if calls, failed := g.times.calls.Load(), g.times.failed.Load(); calls != 4 || failed != 1 || g.times.total.Load() <= 0 {
			t.Errorf("timed %d calls, %d failed, %d ns; want 4, 1 and some", calls, failed, g.times.total.Load())
		}
	})
}
