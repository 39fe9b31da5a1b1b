package observe_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/observe"
)

func TestHosts(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing, Hosts: []string{"admin.example", "Other.Example:9000"}})
	_, port, _ := net.SplitHostPort(s.addr)
	type answers struct{ open, guarded, missing int }
	hosts := map[answers][]string{
		{200, 200, 404}: {
			"127.0.0.1", "127.0.0.1:" + port, "127.9.9.9", "localhost", "LocalHost:80", "localhost.", "[::1]", "[::1]:80",
			"[::ffff:127.0.0.1]",
		},
		{200, 403, 403}: {"admin.example", "ADMIN.example:1", "other.example"}, // allowed, but not this machine's own names
		{403, 403, 403}: {
			"rebind.example", "rebind.example:" + port, "localhost.rebind.example", "127.0.0.1.rebind.example", "admin.example.rebind.example",
			"xlocalhost", "0.0.0.0", "0.0.0.0:" + port, "[::]", "192.168.1.10", "127.1", "2130706433", "0x7f.0.0.1",
			"localhost:80:80", "[localhost", "rebind.example#localhost", "rebind.example,localhost", "..", "-",
		},
	}
	for want, names := range hosts {
		for _, host := range names {
			for path, status := range map[string]int{
				"/healthz": want.open, "/metrics": want.open, "/stats": want.open, "/debug/pprof/": want.guarded, "/nope": want.missing,
			} {
				r := s.request(path)
				r.Host = host
				if a := s.do(r); a.status != status {
					t.Errorf("Host %q, GET %s: %d, want %d", host, path, a.status, status)
				}
			}
		}
	}
}

// TestAllowedHostWithToken checks that a token gives access under one of Hosts.
func TestAllowedHostWithToken(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing, Token: secret, Hosts: []string{"admin.example"}})
	r := s.request("/debug/pprof/")
	r.Host = "admin.example"
	if a := s.do(r); a.status != 401 {
		t.Errorf("without the token: %d, want 401", a.status)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if a := s.do(r); a.status != 200 {
		t.Errorf("with the token: %d, want 200", a.status)
	}
}

func TestRawHosts(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for raw, want := range map[string]string{
		"GET /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                                     " 200 ",
		"GET http://rebind.example/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                " 403 ",
		"GET /stats HTTP/1.1\r\nHost: rebind.example\r\nX-Forwarded-Host: localhost\r\nConnection: close\r\n\r\n": " 403 ",
		"GET /stats HTTP/1.1\r\nHost: localhost\r\nHost: rebind.example\r\nConnection: close\r\n\r\n":             " 400 ",
		"GET /stats HTTP/1.1\r\nConnection: close\r\n\r\n":                                                        " 400 ",
		"GET /stats HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n":                                               " 403 ",
		"GET /stats HTTP/1.0\r\n\r\n": " 403 ",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n":                " 431 ",
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                             " 405 ",
		"POST /stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nConnection: close\r\n\r\n" + "not all of": " 405 ",
	} {
		if got := s.send(raw); !strings.Contains(got, want) {
			t.Errorf("%.80q: %q, want%s", raw, got, want)
		}
	}
}

// at returns a request as a mounted Handler sees it on a connection with that local address; nil:
// the server does not provide it.
func at(local net.Addr, path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost"
	if local == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

func TestMountedElsewhere(t *testing.T) {
	h := (&observe.Admin{Stats: nothing}).Handler()
	lan := &net.TCPAddr{IP: net.IPv4(192, 168, 1, 10), Port: 80}
	loopback := &net.TCPAddr{IP: net.IPv6loopback, Port: 80}
	for _, c := range []struct {
		local net.Addr
		path  string
		want  int
	}{
		{lan, "/healthz", 200}, {lan, "/metrics", 200}, {lan, "/stats", 200},
		{lan, "/", 403}, {lan, "/debug/pprof/", 403}, {lan, "/debug/pprof/profile", 403}, {lan, "/nope", 403},
		{nil, "/healthz", 200}, {nil, "/debug/pprof/", 403},
		{loopback, "/", 200}, {loopback, "/debug/pprof/", 200},
		{&net.UnixAddr{Net: "unix", Name: "x"}, "/debug/pprof/", 200},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, at(c.local, c.path))
		if w.Code != c.want {
			t.Errorf("on %v, GET %s: %d, want %d", c.local, c.path, w.Code, c.want)
		}
	}
	r := at(lan, "/healthz")
	r.Host = "192.168.1.10:80"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("under the listen address: %d, want 200", w.Code)
	}
}

func TestToken(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing, Token: secret})
	for _, path := range []string{"/healthz", "/metrics", "/stats"} {
		s.want(200, path)
	}
	for _, path := range []string{"/", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/nope"} {
		a := s.want(401, path)
		if got := a.header.Get("WWW-Authenticate"); got != `Bearer realm="hone admin"` {
			t.Errorf("WWW-Authenticate %q", got)
		}
	}
	for authorization, want := range map[string]int{
		"Bearer " + secret:             200,
		"bearer " + secret:             200,
		"Bearer " + secret[:15]:        401,
		"Bearer " + secret + "0":       401,
		"Bearer  " + secret:            401,
		"Bearer":                       401,
		"Bearer ":                      401,
		secret:                         401,
		"Basic " + secret:              401,
		"Bearer x, Bearer " + secret:   401,
		"Bearer " + secret + "\x80":    401,
		"Bearer FEDCBA9876543210":      401,
		"Bearer " + secret + " " + "x": 401,
	} {
		r := s.request("/debug/pprof/")
		r.Header.Set("Authorization", authorization)
		if a := s.do(r); a.status != want {
			t.Errorf("Authorization %q: %d, want %d", authorization, a.status, want)
		}
	}
}

// TestProxies sends requests through a proxy on this machine, which connects over loopback.
func TestProxies(t *testing.T) {
	signs := []http.Header{
		{"Forwarded": {"for=192.0.2.1"}}, {"Via": {"1.1 front"}}, {"X-Forwarded-For": {"192.0.2.1"}}, {"X-Forwarded-For": {""}},
		{"X-Forwarded-Host": {"admin.example"}}, {"X-Forwarded-Proto": {"https"}}, {"X-Forwarded-Anything": {"1"}},
		{"X-Real-Ip": {"127.0.0.1"}}, {"True-Client-Ip": {"192.0.2.1"}}, {"Cf-Connecting-Ip": {"192.0.2.1"}},
	}
	private := []string{"/metrics", "/stats", "/", "/debug/pprof/", "/debug/pprof/heap", "/nope"}
	ask := func(s *site, path string, sign http.Header, bearer string) answer {
		r := s.request(path)
		maps.Copy(r.Header, sign)
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		return s.do(r)
	}
	t.Run("without token", func(t *testing.T) {
		s := start(t, &observe.Admin{Stats: nothing})
		for _, sign := range signs {
			if a := ask(s, "/healthz", sign, ""); a.status != 200 {
				t.Errorf("%v, GET /healthz: %d, want 200", sign, a.status)
			}
			for _, path := range private {
				if a := ask(s, path, sign, ""); a.status != 403 || !strings.Contains(a.body, "through a proxy") || !strings.Contains(a.body, "token") {
					t.Errorf("%v, GET %s: %d %.200q, want 403 and what to do", sign, path, a.status, a.body)
				}
			}
		}
		for path, want := range map[string]string{"/stats": " 403 ", "/debug/pprof/": " 403 ", "/healthz": " 200 "} {
			if got := s.send("GET " + path + " HTTP/1.0\r\nHost: 127.0.0.1:7070\r\nConnection: close\r\n\r\n"); !strings.Contains(got, want) {
				t.Errorf("as nginx sends it by default, GET %s: %.80q, want%s", path, got, want)
			}
		}
	})
	t.Run("with token", func(t *testing.T) {
		s := start(t, &observe.Admin{Stats: nothing, Token: secret})
		for _, sign := range signs {
			for _, path := range private {
				if a := ask(s, path, sign, ""); a.status != 401 {
					t.Errorf("%v without the token, GET %s: %d, want 401", sign, path, a.status)
				}
			}
			for path, want := range map[string]int{"/metrics": 200, "/stats": 200, "/": 200, "/debug/pprof/": 200, "/nope": 404} {
				if a := ask(s, path, sign, secret); a.status != want {
					t.Errorf("%v with the token, GET %s: %d, want %d", sign, path, a.status, want)
				}
			}
		}
	})
}

// TestProxiesOnUnixSocket does the same with a proxy on the unix socket.
func TestProxiesOnUnixSocket(t *testing.T) {
	h := (&observe.Admin{Stats: nothing}).Handler()
	r := at(&net.UnixAddr{Net: "unix", Name: "x"}, "/debug/pprof/")
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("through a proxy: %d, want 403", w.Code)
	}
}

// TestReverseProxy sends requests through net/http's reverse proxy, as from another machine.
func TestReverseProxy(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	inside, err := url.Parse("http://" + s.addr)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Transport: s.http.Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(inside)
		r.SetXForwarded()
	}})
	defer front.Close()
	defer front.Client().CloseIdleConnections()
	for path, want := range map[string]int{"/healthz": 200, "/stats": 403, "/debug/pprof/heap": 403} {
		resp, err := front.Client().Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s through the proxy: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestTokenInURL(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing, Token: secret})
	for _, path := range []string{"/debug/pprof/?token=" + secret, "/healthz?token=" + secret, "/?x=1&token", "/metrics?tok%65n=" + secret} {
		r := s.request(path)
		r.Header.Set("Authorization", "Bearer "+secret)
		if a := s.do(r); a.status != 400 || !strings.Contains(a.body, "logs") || strings.Contains(a.body, secret) {
			t.Errorf("GET %s: %d %q", path, a.status, a.body)
		}
	}
}

func TestOtherSitesPages(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		r := s.request("/debug/pprof/heap")
		r.Header.Set("Sec-Fetch-Site", site)
		if a := s.do(r); a.status != want {
			t.Errorf("Sec-Fetch-Site: %s: %d, want %d", site, a.status, want)
		}
	}
}

func TestListenRefusesOtherMachines(t *testing.T) {
	countLeaks(t)
	addrs := []string{
		"0.0.0.0:0", "[::]:0", ":0", "192.168.1.10:0", "10.1.2.3:8081", "[2001:db8::1]:0", "[fd00::1]:8081", "[::ffff:10.1.2.3]:0", "8.8.8.8:80",
	}
	for _, token := range []string{"", "short"} {
		for _, addr := range addrs {
			ln, err := (&observe.Admin{Stats: nothing, Token: token}).Listen(addr)
			if err == nil {
				ln.Close()
			}
			if !errors.Is(err, observe.ErrNoToken) {
				t.Errorf("Listen(%q) with token %q: %v, want ErrNoToken", addr, token, err)
				continue
			}
			for _, way := range []string{"127.0.0.1:PORT", "unix:PATH", "set a token"} {
				if text := err.Error(); !strings.Contains(text, way) {
					t.Errorf("%q does not say %q", text, way)
				}
			}
		}
	}
}

func TestListenInvalidAddress(t *testing.T) {
	countLeaks(t)
	for _, addr := range []string{"", "8081", "localhost", "127.0.0.1:99999", "127.0.0.1:x:y", "off", "unix:", "unix:@hone", "tcp://127.0.0.1:0"} {
		ln, err := (&observe.Admin{Stats: nothing, Token: secret}).Listen(addr)
		if err == nil {
			ln.Close()
			t.Errorf("Listen(%q) succeeded", addr)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, "observe: ") || !strings.Contains(text, "unix:PATH") {
			t.Errorf("Listen(%q): %v; does not say what to do", addr, err)
		}
	}
	for _, token := range []string{secret + "\n", "two words of a token", "tökentökentöken"} {
		if ln, err := (&observe.Admin{Stats: nothing, Token: token}).Listen("127.0.0.1:0"); err == nil {
			ln.Close()
			t.Errorf("token %q, which a header cannot carry, was accepted", token)
		}
	}
}

func TestListenOnLoopback(t *testing.T) {
	countLeaks(t)
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.3.2.1:0"} {
		ln, err := (&observe.Admin{Stats: nothing}).Listen(addr)
		if err != nil && addr == "127.3.2.1:0" && runtime.GOOS != "linux" {
			continue // only Linux has all of 127.0.0.0/8
		}
		if err != nil {
			t.Errorf("Listen(%q): %v", addr, err)
			continue
		}
		ln.Close()
	}
}

// elsewhere is a listener with a public address that is not really listening there.
type elsewhere struct {
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func (l *elsewhere) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *elsewhere) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *elsewhere) Addr() net.Addr { return l.addr }

func TestServeRefusesWhatListenRefuses(t *testing.T) {
	countLeaks(t)
	for _, ip := range []string{"0.0.0.0", "::", "192.168.1.10"} {
		ln := &elsewhere{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 8081}, closed: make(chan struct{})}
		if err := (&observe.Admin{Stats: nothing}).Serve(ln); !errors.Is(err, observe.ErrNoToken) {
			t.Errorf("Serve on %s: %v, want ErrNoToken", ip, err)
		}
		receive(t, "the listener is closed", ln.closed)
	}
	ln := &elsewhere{addr: &net.TCPAddr{IP: net.IPv4zero, Port: 8081}, closed: make(chan struct{})}
	startOn(t, &observe.Admin{Stats: nothing, Token: secret}, ln)
}

// TestHandlers: further pages are guarded like the Admin's own, and accept no POST.
func TestHandlers(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method) })
	s := start(t, &observe.Admin{
		Stats: nothing, Token: secret,
		Handlers: map[string]http.Handler{"/own/stats": page},
	})
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/own/stats", secret, 200},
		{"GET", "/own/stats", "", 401},
		{"POST", "/own/stats", secret, 405},
		{"GET", "/own/none", secret, 404},
	} {
		r := s.request(c.path)
		r.Method = c.method
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if got := s.do(r); got.status != c.want {
			t.Errorf("%v: %d, want %d", c, got.status, c.want)
		}
	}
}

// TestStaleUnixSocket: a server that was killed leaves its socket file, which must not keep the
// next one down.
func TestStaleUnixSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("tells no stale socket from a live one")
	}
	path := filepath.Join(t.TempDir(), "admin")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	a := &observe.Admin{Stats: nothing}
	ln, err := a.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	s := startOn(t, a, ln)
	if got := s.do(s.request("/healthz")); got.status != 200 {
		t.Errorf("GET /healthz: %d", got.status)
	}
}

func TestUnixSocket(t *testing.T) {
	countLeaks(t)
	path := filepath.Join(t.TempDir(), "admin")
	a := &observe.Admin{Stats: nothing}
	ln, err := a.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the socket file is %v (%v), want mode 0600", info.Mode(), err)
	}
	if second, err := a.Listen("unix:" + path); err == nil {
		second.Close()
		t.Error("a second Listen replaced the file")
	} else if text := err.Error(); runtime.GOOS != "windows" && !strings.HasSuffix(text, "; stop it, or use another path") {
		t.Errorf("%q does not say what to do", text)
	}
	s := startOn(t, a, ln)
	for _, path := range everything {
		r := s.request(path)
		r.Host = "whatever"
		if a := s.do(r); a.status != 200 {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
	s.shutdown()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is still there after Shutdown: %v", err)
	}
}
