package websocket

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// responded reads a response that is not an upgrade.
func (p *peer) responded() (*http.Response, string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.r, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(body)
}

// A request other than a valid handshake is refused with the status that says why.
func TestBadHandshakes(t *testing.T) {
	good := asking()
	for _, c := range []struct {
		name, sent string
		status     int
		field      [2]string
	}{
		{"plain request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 426, [2]string{"Upgrade", "websocket"}},
		{"POST", strings.Replace(good, "GET", "POST", 1), 405, [2]string{"Allow", "GET"}},
		{"another protocol", strings.Replace(good, "Upgrade: websocket", "Upgrade: h2c", 1), 426, [2]string{"Sec-Websocket-Version", "13"}},
		{"no Connection: Upgrade", strings.Replace(good, "keep-alive, Upgrade", "keep-alive", 1), 400, [2]string{}},
		{"old version", strings.Replace(good, "Version: 13", "Version: 8", 1), 426, [2]string{"Sec-Websocket-Version", "13"}},
		{"no key", strings.Replace(good, "Sec-WebSocket-Key", "X-Key", 1), 400, [2]string{}},
		{"short key", strings.Replace(good, "dGhl", "", 1), 400, [2]string{}},
		{"body", strings.Replace(good, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc", 1), 400, [2]string{}},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), 400, [2]string{}},
		{"another page", asking("Origin: https://evil.example"), 403, [2]string{}},
		{"no page in particular", asking("Origin: null"), 403, [2]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, at *place) {
				p := dialTCP(t, at.serve(&Upgrader{
					Message: echo,
					Open:    func(Conn, *http.Request) error { t.Error("Open was called"); return nil },
				}))
				p.send([]byte(c.sent))
				resp, body := p.responded()
				if resp.StatusCode != c.status || body == "" {
					t.Errorf("got %s %q, want %d", resp.Status, body, c.status)
				}
				if c.field[0] != "" && resp.Header.Get(c.field[0]) != c.field[1] {
					t.Errorf("%s is %q, want %q", c.field[0], resp.Header.Get(c.field[0]), c.field[1])
				}
			})
		})
	}
}

func TestOrigins(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		addr := at.serve(&Upgrader{Message: echo, Origins: func(r *http.Request) bool {
			return strings.HasSuffix(r.Header.Get("Origin"), ".example.net")
		}})
		upgraded(t, addr, "Origin: https://www.example.net")
		upgraded(t, addr) // not a browser
		p := dialTCP(t, addr)
		p.send([]byte(asking("Origin: http://example.org")))
		if resp, _ := p.responded(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("got %s", resp.Status)
		}
	})
	run(t, func(t *testing.T, at *place) { // the default: the request's own host
		upgraded(t, at.serve(&Upgrader{Message: echo}), "Origin: http://EXAMPLE.org:80")
	})
}

// Open may refuse a request with its own response.
func TestOpenRefuses(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo}
		u.Open = func(c Conn, r *http.Request) error {
			switch who := r.Header.Get("X-Who"); who {
			case "nobody":
				return fmt.Errorf("wrapped: %w", &Refusal{Status: 401, Text: "who are you?", Header: http.Header{"Www-Authenticate": {"Basic"}}})
			case "secret":
				return errors.New("do not tell")
			default:
				c.SetValue(who)
				return nil
			}
		}
		ended := make(chan any, 10)
		u.Closed = func(c Conn, _ Code, _ engine.Reason) { ended <- c.Value() }
		addr := at.serve(u)
		p := dialTCP(t, addr)
		p.send([]byte(asking("X-Who: nobody")))
		if resp, body := p.responded(); resp.StatusCode != 401 || body != "who are you?" || resp.Header.Get("Www-Authenticate") != "Basic" || !resp.Close {
			t.Errorf("got %s %v %q", resp.Status, resp.Header, body)
		}
		p.wantEnd()
		p = dialTCP(t, addr)
		p.send([]byte(asking("X-Who: secret")))
		if resp, body := p.responded(); resp.StatusCode != 403 || body != "Forbidden" {
			t.Errorf("got %s %q", resp.Status, body)
		}
		p.wantEnd()
		p, _ = upgraded(t, addr, "X-Who: somebody")
		p.send(frame(opClose, ""))
		p.want(closing(NoStatus, ""))
		p.wantEnd()
		if who := heard(t, ended, "the end"); who != "somebody" {
			t.Errorf("Closed was called for %v, which Open has refused", who)
		}
	})
}

// If Open panics, the connection ends, and no part of an upgrade is sent.
func TestOpenPanics(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error { panic("as asked") }}
		u.Closed = func(Conn, Code, engine.Reason) { t.Error("Closed was called") }
		p := dialTCP(t, at.serve(u))
		p.send([]byte(asking()))
		if all, err := io.ReadAll(p.r); err != nil || strings.Contains(string(all), " 101 ") {
			t.Errorf("got %q, %v", all, err)
		}
	})
}

func TestSubprotocols(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo, Protocols: []string{"chat.v2", "chat.v1"}}
		chosen := make(chan string, 2)
		u.Open = func(_ Conn, r *http.Request) error { chosen <- u.Subprotocol(r); return nil }
		addr := at.serve(u)
		for offered, want := range map[string]string{"chat.v1, chat.v2": "chat.v2", "chat.v0,chat.v1": "chat.v1", "other": ""} {
			_, resp := upgraded(t, addr, "Sec-WebSocket-Protocol: "+offered)
			if got, told := resp.Header.Get("Sec-Websocket-Protocol"), <-chosen; got != want || told != want {
				t.Errorf("offered %q: chose %q and sent %q, want %q", offered, got, told, want)
			}
		}
	})
}

// wrapper is middleware's ResponseWriter, as loggers use it.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Middleware may wrap the ResponseWriter and set header fields. After the upgrade, the connection
// still needs no goroutine on Events.
func TestMiddleware(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		at.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
				w.Header().Set("Sec-WebSocket-Accept", "nonsense")
				next.ServeHTTP(wrapper{wrapper{w}}, r)
			})
		}
		u := &Upgrader{Message: echo}
		p, resp := upgraded(t, at.serve(u))
		if got := resp.Header.Get("Set-Cookie"); got != "seen=1" {
			t.Errorf("the cookie is %q", got)
		}
		p.send(frame(opText, "x"))
		p.want(served(opText, "x"))
		if hijacked := u.hijacked.started; hijacked != (at.engine == nil) {
			t.Errorf("hijacked: %v", hijacked)
		}
	})
}

// HTTP/2 has no upgrades: such a request is refused with that reason.
func TestHTTP2(t *testing.T) {
	std := httptest.NewUnstartedServer(&Upgrader{Message: echo})
	std.EnableHTTP2 = true
	std.StartTLS()
	defer std.Close()
	resp, err := std.Client().Get(std.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.ProtoMajor != 2 || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "HTTP/1.1") {
		t.Errorf("got %s %s %q", resp.Proto, resp.Status, body)
	}
}

// Over TLS everything works as without.
func TestTLS(t *testing.T) {
	std := httptest.NewUnstartedServer(nil) // only for its certificate
	std.StartTLS()
	defer std.Close()
	config := &tls.Config{Certificates: std.TLS.Certificates}
	run(t, func(t *testing.T, at *place) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conns := make(chan Conn, 1)
		addr := at.serveOn(&Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error { conns <- c; return nil }}, engine.NewTLSListener(ln, config))
		nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		p := peerOf(t, nc)
		p.send([]byte(asking() + string(frame(opText, "at once"))))
		p.switched()
		p.want(served(opText, "at once"))
		c := heard(t, conns, "the connection")
		if c.TLS() == nil || c.RemoteAddr().String() != nc.LocalAddr().String() || c.LocalAddr().String() != addr {
			t.Errorf("TLS %v, from %v to %v", c.TLS(), c.RemoteAddr(), c.LocalAddr())
		}
		if err := c.Text([]byte("pushed")); err != nil {
			t.Error(err)
		}
		p.want(served(opText, "pushed"))
		p.send(frame(opClose, ""))
		p.want(closing(NoStatus, ""))
	})
}

// Frames that arrive with the request are served after the response, however they are split.
func TestFramesBehindTheRequest(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		addr := at.serve(&Upgrader{Message: echo})
		all := asking() + string(frame(opText, "at once"))
		for cut := 1; cut < len(all); cut += 11 {
			p := dialTCP(t, addr)
			p.send([]byte(all[:cut]))
			p.send([]byte(all[cut:]))
			p.switched()
			p.want(served(opText, "at once"))
			p.send(frame(opClose, ""))
			p.want(closing(NoStatus, ""))
			p.wantEnd()
		}
	})
}

// Shutdown sends GoingAway after the answers to earlier messages.
func TestShutdown(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		u := &Upgrader{Message: echo}
		ends := tellsEnds(u)
		addr := at.serve(u)
		var peers []*peer
		for range 10 {
			p, _ := upgraded(t, addr)
			p.send(frame(opText, "hello"))
			p.want(served(opText, "hello"))
			peers = append(peers, p)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := at.end(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
		for _, p := range peers {
			p.want(closing(GoingAway, "the server is shutting down"))
			p.wantEnd()
		}
		wg.Wait()
		for range peers {
			if got := heard(t, ends, "the end"); got != (ended{GoingAway, engine.ShuttingDown}) {
				t.Errorf("Closed got %v", got)
			}
		}
	})
}

// After Shutdown an Upgrader on net/http refuses requests.
func TestUpgradeAfterShutdown(t *testing.T) {
	u := &Upgrader{Message: echo}
	std := httptest.NewServer(u)
	defer std.Close()
	p, _ := upgraded(t, std.Listener.Addr().String())
	p.send(frame(opText, "hello"))
	p.want(served(opText, "hello"))
	p.Close()
	if err := u.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = dialTCP(t, std.Listener.Addr().String())
	p.send([]byte(asking()))
	if resp, _ := p.responded(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s", resp.Status)
	}
	if err := (&Upgrader{Message: echo}).Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown of an unused Upgrader: %v", err)
	}
}

// A client beyond the limit of the Upgrader's own engine gets a response that says so.
func TestTooManyOnNetHTTP(t *testing.T) {
	at := &place{t: t, limits: engine.Limits{Conns: 1}}
	addr := at.serve(&Upgrader{Message: echo})
	p, _ := upgraded(t, addr)
	p.send(frame(opText, "hello"))
	p.want(served(opText, "hello"))
	other := dialTCP(t, addr)
	other.send([]byte(asking()))
	if resp, _ := other.responded(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s", resp.Status)
	}
	p.send(frame(opText, "still here"))
	p.want(served(opText, "still here"))
}

// On a server that cannot hijack connections, the response says so.
func TestNoHijacker(t *testing.T) {
	u := &Upgrader{Message: echo}
	defer u.Shutdown(t.Context())
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(asking())))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	u.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("got %d", w.Code)
	}
}

// Limits of time apply to WebSockets, and have codes.
func TestLimits(t *testing.T) {
	inFakeTime(t, func(t *testing.T, at *place) {
		at.limits = engine.Limits{IdleTime: time.Minute}
		u := &Upgrader{Message: echo}
		ends := tellsEnds(u)
		open := at.fake(u)
		p, begun := open(), time.Now()
		p.send(piece(opText, false, "never ends"))
		p.want(closing(PolicyViolation, "a message took too long"))
		p.wantEnd()
		if got, took := <-ends, time.Since(begun); got != (ended{PolicyViolation, engine.FrameTimeout}) || took < 5*time.Second || took > 7*time.Second {
			t.Errorf("Closed got %v after %v", got, took)
		}
		p, begun = open(), time.Now()
		p.want([]byte{finBit | byte(opPing), 0}) // the client does not answer it
		p.want(closing(PolicyViolation, "idle for too long"))
		p.wantEnd()
		if got, took := <-ends, time.Since(begun); got != (ended{PolicyViolation, engine.IdleTimeout}) || took < time.Minute || took > 62*time.Second {
			t.Errorf("Closed got %v after %v", got, took)
		}
		p = open()
		for range 10 { // longer than IdleTime
			p.want([]byte{finBit | byte(opPing), 0})
			p.send(frame(opPong, ""))
		}
		p.send(frame(opText, "still here"))
		p.want(served(opText, "still here"))
	})
}

// An http1.Server with hooks releases the value that it stored with a connection.
func TestHooksOfHTTP1(t *testing.T) {
	states := make(chan http.ConnState, 10)
	srv := &http1.Server{Std: &http.Server{Handler: &Upgrader{
		Message: func(c Call, dst, msg []byte) ([]byte, error) {
			return fmt.Append(dst, c.Conn().Value()), nil
		},
		Open: func(c Conn, r *http.Request) error {
			if c.Value() != nil {
				t.Errorf("the value is %v", c.Value())
			}
			c.SetValue("mine")
			return nil
		},
	}, ConnState: func(_ net.Conn, s http.ConnState) { states <- s }}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	p, _ := upgraded(t, ln.Addr().String())
	p.send(frame(opText, "?"))
	p.want(appendFrame(nil, byte(opText)|finBit, []byte("mine")))
	srv.Close()
	<-served
	close(states)
	var all []http.ConnState
	for s := range states {
		all = append(all, s)
	}
	if fmt.Sprint(all) != "[new active hijacked]" {
		t.Errorf("states %v", all)
	}
}

// A request that http1 lends to net/http can still become a WebSocket.
func TestUpgradeOnLoan(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			at := &place{t: t, engine: &e}
			u := &Upgrader{Message: echo}
			addr := at.serve(u)
			p := dialTCP(t, addr)
			p.send([]byte(strings.ReplaceAll(asking(), "\r\n", "\n") + string(frame(opText, "at once"))))
			p.switched()
			p.want(served(opText, "at once"))
			p.send(frame(opText, "again"))
			p.want(served(opText, "again"))
			if !u.hijacked.started {
				t.Error("http1 has not lent it")
			}
			p.send(frame(opClose, ""))
			p.want(closing(NoStatus, ""))
			p.wantEnd()
		})
	}
}

// A client that Open accepts counts as authenticated.
func TestAuthTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, at *place) {
		at.limits.AuthTime = time.Second
		p := at.fake(&Upgrader{Message: echo})()
		<-time.After(time.Minute)
		p.send(frame(opText, "still here"))
		p.want(served(opText, "still here"))
	})
}

// With AuthLater, a client that is not trusted within AuthTime is disconnected.
func TestAuthLater(t *testing.T) {
	inFakeTime(t, func(t *testing.T, at *place) {
		at.limits.AuthTime = time.Second
		open := at.fake(&Upgrader{AuthLater: true, Message: func(c Call, dst, msg []byte) ([]byte, error) {
			if string(msg) == "secret" {
				c.Conn().Trust()
			}
			return append(dst, msg...), nil
		}})
		trusted, other := open(), open()
		trusted.send(frame(opText, "secret"))
		trusted.want(served(opText, "secret"))
		other.send(frame(opText, "guess"))
		other.want(served(opText, "guess"))
		other.want(closing(PolicyViolation, closureTexts[engine.AuthTimeout]))
		other.Close()
		<-time.After(time.Minute)
		trusted.send(frame(opText, "still here"))
		trusted.want(served(opText, "still here"))
	})
}
