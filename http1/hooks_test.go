package http1

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// states records the calls of ConnState.
type states struct {
	mu   sync.Mutex
	seen map[net.Conn][]string
}

func (s *states) note(nc net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[net.Conn][]string{}
	}
	s.seen[nc] = append(s.seen[nc], state.String())
}

// only returns the states of the only connection.
func (s *states) only() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) != 1 {
		return fmt.Sprintf("%d connections", len(s.seen))
	}
	for _, list := range s.seen {
		return strings.Join(list, " ")
	}
	return ""
}

// ConnState is called once per state, whichever half serves the connection, and in net/http's
// order.
func TestConnState(t *testing.T) {
	cases := []struct{ name, sent, nethttp, want string }{ // an empty want is nethttp
		{"both halves", getting("/1") + chunked + getting("/2"), "new active idle active idle active idle closed", ""},
		{"hijacked", "GET /hijack HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "new active hijacked", ""},
		{"hijacked on the fast path", getting("/hijack"), "new active hijacked", ""},
		{"refused", "nonsense and more of it\r\n\r\n", "new active closed", ""},
		{"half a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", "new active idle closed", "new active closed"}, // no handler is called
		{"silent", "", "new closed", ""},
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hijack" {
			echo(w, r)
			return
		}
		if nc, _, err := http.NewResponseController(w).Hijack(); err == nil {
			nc.Close()
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var oracle states
			talk(t, plain(t, &http.Server{Handler: http.HandlerFunc(handler), ConnState: oracle.note}), c.sent)
			await(t, "net/http's states", func() bool { return oracle.only() == c.nethttp })
			run(t, func(t *testing.T, e engine.Engine) {
				var got states
				s := serve(t, &Server{Engine: e, Std: &http.Server{Handler: http.HandlerFunc(handler), ConnState: got.note}})
				talk(t, s.addr, c.sent)
				await(t, "the connection's end", func() bool { return s.Stats().Open == 0 && s.Stats().Accepted == 1 })
				if got, want := got.only(), cmp.Or(c.want, c.nethttp); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// BaseContext is called once per listener and ConnContext once per connection; handlers of
// both halves see their values.
func TestContextHooks(t *testing.T) {
	type key string
	run(t, func(t *testing.T, e engine.Engine) {
		var mu sync.Mutex
		var calls []string
		call := func(name string) {
			mu.Lock()
			calls = append(calls, name)
			mu.Unlock()
		}
		std := &http.Server{
			BaseContext: func(ln net.Listener) context.Context {
				call("base")
				return context.WithValue(context.Background(), key("base"), ln.Addr().String())
			},
			ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
				call("conn")
				return context.WithValue(ctx, key("conn"), nc.RemoteAddr().String())
			},
		}
		std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			fmt.Fprint(w, ctx.Value(key("base")), " ", ctx.Value(key("conn")) == r.RemoteAddr, " ", ctx.Value(http.ServerContextKey) == std, " ", ctx.Value(http.LocalAddrContextKey))
		})
		s := &Server{Engine: e, Std: std}
		one := serve(t, s)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []*serving{one, serveOn(t, s, ln)} {
			nc := at.dial(t)
			r := bufio.NewReader(nc)
			for _, request := range []string{getting("/"), chunked} {
				say(t, nc, request)
				if got, want := readAnswer(t, r), fmt.Sprintf("200 %s true true %s", at.addr, at.addr); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(calls)
		if got := strings.Join(calls, " "); got != "base base conn conn" {
			t.Errorf("calls: %s", got)
		}
	})
}

// Both halves report the same addresses, behind a proxy and on unix sockets.
func TestAddresses(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.RemoteAddr, " ", r.Context().Value(http.LocalAddrContextKey))
	})
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: handler, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		nc := s.dial(t)
		say(t, nc, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"+getting("/")+chunked)
		r := bufio.NewReader(nc)
		want := "200 192.0.2.7:4711 " + s.addr
		if one, two := readAnswer(t, r), readAnswer(t, r); one != want || two != want {
			t.Errorf("got %q and %q, want %q", one, two, want)
		}

		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		serveOn(t, &Server{Engine: e, Handler: handler}, ln)
		unix, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close()
		say(t, unix, getting("/")+chunked)
		r = bufio.NewReader(unix)
		want = "200 @ " + path
		if one, two := readAnswer(t, r), readAnswer(t, r); one != want || two != want {
			t.Errorf("got %q and %q, want %q", one, two, want)
		}
	})
}

// A hook's connection has addresses, cannot be read, but can be closed.
func TestShownConn(t *testing.T) {
	shown := make(chan net.Conn, 1)
	s := serve(t, &Server{Std: &http.Server{Handler: http.HandlerFunc(echo), ConnState: func(nc net.Conn, state http.ConnState) {
		if state == http.StateNew {
			shown <- nc
		}
	}}})
	nc := s.dial(t)
	theirs := <-shown
	if theirs.RemoteAddr().String() != nc.LocalAddr().String() || theirs.LocalAddr().String() != nc.RemoteAddr().String() {
		t.Errorf("addresses %v and %v", theirs.RemoteAddr(), theirs.LocalAddr())
	}
	if n, err := theirs.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("it can be read")
	}
	theirs.Close()
	if all, err := io.ReadAll(nc); len(all) != 0 || err != nil {
		t.Errorf("read %q, %v", all, err)
	}
}

// A hook that closes its connection also closes it while it is lent, as httptest's servers
// expect.
func TestHookClosesALentConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		shown := make(chan net.Conn, 1)
		var once sync.Once
		begun, handled := make(chan struct{}), make(chan error, 1)
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: time.Hour}, Std: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				_, err := io.ReadAll(r.Body)
				handled <- err
			}),
			ConnState: func(nc net.Conn, state http.ConnState) { once.Do(func() { shown <- nc }) },
		}})
		nc := s.dial(t)
		say(t, nc, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		<-begun
		(<-shown).Close()
		if err := <-handled; err == nil {
			t.Error("the handler read an incomplete body without an error")
		}
		await(t, "the end", func() bool { return s.Stats().Open == 0 })
	})
}

// A server with HTTP/1 switched off answers nothing, as net/http does.
func TestWithoutHTTP1(t *testing.T) {
	t.Parallel()
	std := &http.Server{Handler: http.HandlerFunc(echo), Protocols: new(http.Protocols)}
	std.Protocols.SetUnencryptedHTTP2(true)
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Std: std})
		nc := s.dial(t)
		say(t, nc, getting("/"))
		if got, _ := io.ReadAll(nc); len(got) > 0 { // the connection may end with a reset
			t.Errorf("answers %q", got)
		}
		await(t, "the end", func() bool { return s.Stats().Open == 0 })
	})
}
