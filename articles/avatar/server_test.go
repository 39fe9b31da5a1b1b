package avatar

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// startServer serves on a port of this machine until the test ends.
func startServer(t *testing.T, l Limits, config *tls.Config) (*Server, string) {
	t.Helper()
	s := &Server{Service: newService(t, l), TLS: config}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, ln.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// closes waits until the server has closed a connection, and returns what it said.
func closes(t *testing.T, what string, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s: the connection is still open", what)
	}
	return string(said)
}

// TestTimeouts has clients that never come to an end, each in its own way.
func TestTimeouts(t *testing.T) {
	const brief = 200 * time.Millisecond
	long := Limits{HeaderTime: time.Hour, ReadTime: time.Hour, WriteTime: time.Hour, IdleTime: time.Hour}
	request := "GET /avatar/a HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		what, send string
		change     func(*Limits)
	}{
		{"a head that does not end", request, func(l *Limits) { l.HeaderTime = brief }},
		{"no request at all", "", func(l *Limits) { l.IdleTime = brief }},
		{"a body that does not come", request + "Content-Length: 9\r\n\r\n", func(l *Limits) { l.ReadTime = brief; l.HeaderTime = brief }},
		{"no next request", request + "\r\n", func(l *Limits) { l.IdleTime = brief }},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := long
			c.change(&l)
			_, addr := startServer(t, l, nil)
			conn := dial(t, addr)
			io.WriteString(conn, c.send)
			closes(t, c.what, conn)
		})
	}
	t.Run("a client that does not read", func(t *testing.T) {
		l := long
		l.WriteTime = brief
		_, addr := startServer(t, l, nil)
		conn := dial(t, addr)
		many := []byte(strings.Repeat("GET /avatar/a?size=512 HTTP/1.1\r\nHost: x\r\n\r\n", 1000))
		for { // until both directions are full, and then the server has enough
			if _, err := conn.Write(many); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Error("the connection is still open")
				}
				return
			}
		}
	})
}

// TestHeaderBytes is a head that is too long.
func TestHeaderBytes(t *testing.T) {
	_, addr := startServer(t, Limits{}, nil)
	conn := dial(t, addr)
	go io.WriteString(conn, "GET /v1/"+strings.Repeat("a", 10<<20)+" HTTP/1.1\r\nHost: x\r\n\r\n") // until it is closed
	line, err := bufio.NewReader(conn).ReadString('\n')
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		t.Error("nothing happens")
	case err == nil && !strings.HasPrefix(line, "HTTP/1.1 431 "): // an error is a reset that has overtaken it
		t.Errorf("%q", line)
	}
}

// TestConnections is one connection more than there may be.
func TestConnections(t *testing.T) {
	s, addr := startServer(t, Limits{Connections: 2}, nil)
	request := "GET /avatar/a HTTP/1.1\r\nHost: x\r\n\r\n"
	var held []net.Conn
	for range 2 {
		conn, kept := dial(t, addr), s.Stats().InputMemory
		io.WriteString(conn, request+"GET /avatar") // in the middle of a request it does not make room
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		for until := time.Now().Add(patience); s.Stats().InputMemory == kept; runtime.Gosched() {
			if time.Now().After(until) {
				t.Fatal("the half request is not kept") // the answer is sent before it is looked at
			}
		}
		held = append(held, conn)
	}
	if said := closes(t, "the third", dial(t, addr)); !strings.Contains(said, "503 ") {
		t.Errorf("the third is told %q", said)
	}
	if st := s.Stats(); st.Open != 2 || st.Ended[engine.TooManyConns] != 1 || st.Accepted != 2 {
		t.Errorf("%+v", st)
	}
	held[0].Close()
	for until := time.Now().Add(patience); ; { // until the server knows that it has gone
		conn := dial(t, addr)
		io.WriteString(conn, request)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil && strings.Contains(line, "200") {
			return
		}
		conn.Close()
		if time.Now().After(until) {
			t.Fatal("the place of a connection that has gone stays taken")
		}
	}
}

// TestHTTP2 is spoken over TLS to those who ask for it.
func TestHTTP2(t *testing.T) {
	cert, pool := certificate(t)
	_, addr := startServer(t, Limits{Streams: 7}, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	for _, h2 := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		client := &http.Client{Transport: transport, Timeout: patience}
		resp, err := client.Get("https://" + addr + "/avatar/John%20Doe")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := map[bool]int{true: 2, false: 1}[h2]; err != nil || resp.ProtoMajor != want || len(body) == 0 || resp.ContentLength != int64(len(body)) {
			t.Errorf("HTTP/%d: %d bytes, %v", resp.ProtoMajor, len(body), err)
		}
		transport.CloseIdleConnections()
	}
}

// certificate is one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestShutdown answers what was asked and ends.
func TestShutdown(t *testing.T) {
	s, addr := startServer(t, Limits{}, nil)
	conn := dial(t, addr)
	io.WriteString(conn, "GET /avatar/a HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// TestAbuse asks for everything that has brought such services down, of the
// service itself and through a server, and then looks at what is left of it.
func TestAbuse(t *testing.T) {
	const cache = 1 << 20
	s := newService(t, Limits{CacheBytes: cache})
	names := []string{
		"%00", "%FF%FE", "%E2%80%AE%E2%80%AEabc", "..%2f..%2f..%2fetc%2fpasswd", "..%5c..%5c", "%0d%0aSet-Cookie:%20a=b",
		"%3Cscript%3E", "%25s%25n", "%F0%9F%91%A9%E2%80%8D%F0%9F%9A%80", "H" + strings.Repeat("%CC%81", 500), strings.Repeat("a", 8000),
		strings.Repeat("%E5%BC%A0", 1000), "%EF%BF%BF", "%F4%8F%BF%BF", strings.Repeat("(", 250), strings.Repeat("@", 250), strings.Repeat("a@", 120),
	}
	forms := []string{
		"/avatar/%s", "/avatar/%s?size=1000000000", "/avatar/%s?size=-1", "/avatar/%s?size=abc",
		"/api/?name=%s&size=1e9&length=1000000000&font-size=1e308&format=svg", "/api/%s/-1/x/y/-5/-1/yes/no/yes/svg",
		"/avatar/0bc83cb571cd1c500bc83cb571cd1c50?d=initials&name=%s&s=1000000000", "/%s",
	}
	for _, name := range names {
		for _, form := range forms {
			target := strings.Replace(form, "%s", name, 1)
			w := ask(t, s, "GET", target)
			if w.Code >= 500 || w.Code == 200 && w.Body.Len() > 64<<10 || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%.80s: %d, %d bytes", target, w.Code, w.Body.Len())
			}
			if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.80s: %d %v", target, w.Code, w.Header())
			}
		}
	}
	n := 100_000
	if testing.Short() || testrun.Race {
		n = 5_000
	}
	before := heap()
	var asking sync.WaitGroup
	for g := range 16 {
		asking.Go(func() {
			for i := g; i < n; i += 16 {
				r := httptest.NewRequest("GET", fmt.Sprintf("/avatar/%c%c%d?size=%d", 'A'+i%26, 'a'+i/26%26, i, 16+i%48), nil)
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code != 200 && w.Code != 503 {
					t.Errorf("%s: %d", r.URL, w.Code)
					return
				}
			}
		})
	}
	asking.Wait()
	if grown := heap() - before; grown > cache+(64<<20) {
		t.Errorf("%d distinct names have taken %d MiB", n, grown>>20)
	}
	if st := s.Stats(); st.Bytes > cache+(64<<10) {
		t.Errorf("%+v", st)
	}
}

// TestUseMemory changes the collector only where nobody has said how it is to work.
func TestUseMemory(t *testing.T) {
	gogc, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(gogc); debug.SetMemoryLimit(limit) }()
	l := Limits{CacheBytes: 16 << 20}
	t.Setenv("GOGC", "100")
	l.UseMemory()
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("with GOGC: a limit of %d", got)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	l.UseMemory()
	if got := debug.SetMemoryLimit(-1); got != 64<<20 || debug.SetGCPercent(100) != 400 {
		t.Errorf("a limit of %d MiB", got>>20)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
