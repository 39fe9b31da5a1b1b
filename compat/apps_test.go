//go:build linux

// Package compat runs applications and tools that others wrote, unchanged, behind
// http1.Server: routers and their middleware, file servers, proxies, WebSocket
// libraries, curl, nginx and a browser. net/http serves the same applications beside it
// and says what the right answers are. One application is ours, since a browser is here:
// examples/chat.
//
//	go test -count=1 ./compat                          what a merge needs
//	go test -count=1 ./compat -timeout 60m -v -args -all   every engine, faults at full size
package compat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
)

var (
	all  = flag.Bool("all", false, "run every engine, faults at full size, and fail where a goal is missed")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "split what is sent as the run with this `seed` did")
)

// patience bounds everything that a test waits for.
const patience = 15 * time.Second

const mib = 1 << 20

func TestMain(m *testing.M) {
	flag.Parse()
	before := sockets()
	code := m.Run()
	shared.close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if after := sockets(); after > before {
			fmt.Fprintf(os.Stderr, "%d sockets are open, %d were before\n", after, before)
			code = 1
		}
	}
	os.Exit(code)
}

// sockets is how many this process has.
func sockets() (n int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// size is small, or full with -all.
func size[N any](small, full N) N {
	if *all {
		return full
	}
	return small
}

// side is a server to put an application behind.
type side struct {
	name   string
	engine *engine.Engine // nil: net/http's own server
	secure bool           // serve uses TLS, without HTTP/2
	http2  bool           // serve uses TLS, with it
	limits engine.Limits
}

// oracle is net/http.
func oracle() side { return side{name: "net/http"} }

// events is http1 on the engine that the heavy tests use.
func events() []side {
	e := engine.Events(engine.Auto)
	return []side{{name: e.Name(), engine: &e}}
}

// withTLS are engines, and http1 on event loops over TLS.
func withTLS() []side {
	e := engine.Events(engine.Auto)
	return append(engines(), side{name: e.Name() + " over TLS", engine: &e, secure: true})
}

// engines are http1 on each engine that is tested.
func engines() []side {
	e := engine.Buffered(0)
	sides := append(events(), side{name: e.Name(), engine: &e})
	if *all {
		for _, e := range engine.All() {
			if !slices.ContainsFunc(sides, func(s side) bool { return s.name == e.Name() }) {
				sides = append(sides, side{name: e.Name(), engine: &e})
			}
		}
	}
	return sides
}

// eachSide runs a test on net/http, which shows that the test is right, and on http1.
func eachSide(t *testing.T, sides []side, run func(t *testing.T, on side)) {
	for _, on := range append([]side{oracle()}, sides...) {
		t.Run(on.name, func(t *testing.T) { run(t, on) })
	}
}

// served is a running server.
type served struct {
	addr   string
	secure bool
	http   *http1.Server // nil: net/http
}

// url is the address of a path.
func (s *served) url(path string) string {
	if s.secure {
		return "https://" + s.addr + path
	}
	return "http://" + s.addr + path
}

// serve serves std.Handler until the test ends, which every server must survive in peace.
func serve(t *testing.T, on side, std *http.Server) *served {
	if on.http2 {
		return serveTLS(t, on, std, certificate(t))
	}
	if on.secure {
		std.Protocols = new(http.Protocols)
		std.Protocols.SetHTTP1(true)
		return serveTLS(t, on, std, certificate(t))
	}
	return serveOn(t, on, std, false)
}

// serveTLS is serve with TLS, and HTTP/2 for clients that ask for it.
func serveTLS(t *testing.T, on side, std *http.Server, cert tls.Certificate) *served {
	std.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	return serveOn(t, on, std, true)
}

func serveOn(t *testing.T, on side, std *http.Server, secure bool) *served {
	t.Helper()
	std.ErrorLog = cmp.Or(std.ErrorLog, log.New(io.Discard, "", 0))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{addr: ln.Addr().String(), secure: secure}
	var server interface {
		Serve(net.Listener) error
		ServeTLS(ln net.Listener, cert, key string) error
		Shutdown(context.Context) error
	} = std
	if on.engine != nil {
		s.http = &http1.Server{Std: std, Engine: *on.engine, Limits: on.limits}
		server = s.http
	}
	ended := make(chan error, 1)
	go func() {
		if secure {
			ended <- server.ServeTLS(ln, "", "")
		} else {
			ended <- server.Serve(ln)
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s
}

// newClient is a client whose connections end with the test. Its clean-up runs before
// those of servers that were started earlier.
func newClient(t *testing.T, transport *http.Transport) *http.Client {
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// answer is what a client sees of a response.
type answer struct {
	text  string
	ended bool // the server closes the connection
}

// volatile are headers that differ from one answer to the next.
var volatile = []string{"Date"}

// readAnswer reads a response and those with a 1xx status before it.
func readAnswer(r *bufio.Reader, method string) (a answer, err error) {
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return answer{"no answer", true}, err
		}
		body, err := io.ReadAll(resp.Body)
		text := new(strings.Builder)
		fmt.Fprintf(text, "%s %s length %d, encoding %q, close %t\n", resp.Proto, resp.Status, resp.ContentLength, resp.TransferEncoding, resp.Close)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			if slices.Contains(volatile, name) {
				fmt.Fprintf(text, "%s %d\n", name, len(resp.Header[name]))
				continue
			}
			fmt.Fprintf(text, "%s: %q\n", name, resp.Header[name])
		}
		fmt.Fprintf(text, "trailer %q\n%q, whole: %t\n", resp.Trailer, body, err == nil)
		a.text += text.String()
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			a.ended = resp.Close || err != nil
			return a, nil
		}
	}
}

// methodOf is the first word of a request.
func methodOf(request string) string {
	method, _, _ := strings.Cut(request, " ")
	return method
}

// connect opens a connection that fails at the end of patience.
func connect(t *testing.T, addr string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn), bufio.NewReader(c)
}

// ways are how the requests of one connection reach the server.
var ways = []struct {
	name string
	send func(c net.Conn, requests []string, answered func())
}{
	{"one by one", func(c net.Conn, requests []string, answered func()) {
		for _, request := range requests {
			io.WriteString(c, request) // a refusal may be faster
			answered()
		}
	}},
	{"pipelined", func(c net.Conn, requests []string, _ func()) {
		io.WriteString(c, strings.Join(requests, ""))
	}},
	{"split", func(c net.Conn, requests []string, _ func()) {
		random := rand.New(rand.NewPCG(*seed, 0))
		for text := strings.Join(requests, ""); text != ""; {
			n := min(len(text), 1+random.IntN(64))
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return // the server has closed the connection
			}
			text = text[n:]
		}
	}},
}

// converse sends requests over one connection and reads their answers.
func converse(t *testing.T, s *served, requests []string, send func(net.Conn, []string, func())) (answers []answer) {
	t.Helper()
	c, r := connect(t, s.addr)
	defer c.Close()
	var sending sync.WaitGroup
	defer sending.Wait()
	next := make(chan struct{}, len(requests))
	defer close(next)
	sending.Go(func() { send(c, requests, func() { <-next }) })
	for _, request := range requests {
		a, err := readAnswer(r, methodOf(request))
		answers = append(answers, a)
		next <- struct{}{}
		if err != nil {
			c.Close()
			break
		}
	}
	return answers
}

// connections are a script's requests by connection: net/http closes each after its last.
func connections(t *testing.T, s *served, script []string) (conns [][]string) {
	t.Helper()
	var c net.Conn
	var r *bufio.Reader
	for _, request := range script {
		if c == nil {
			c, r = connect(t, s.addr)
			conns = append(conns, nil)
		}
		end := &conns[len(conns)-1]
		*end = append(*end, request)
		io.WriteString(c, request)
		if a, _ := readAnswer(r, methodOf(request)); a.ended {
			c.Close()
			c = nil
		}
	}
	return conns
}

// sameAsNetHTTP has a script of requests answered by an application behind net/http and
// behind http1, in every way, and finds the differences.
func sameAsNetHTTP(t *testing.T, app func() http.Handler, script []string) {
	t.Helper()
	plain := serve(t, oracle(), &http.Server{Handler: app()})
	conns := connections(t, plain, script)
	for _, on := range engines() {
		t.Run(on.name, func(t *testing.T) {
			s := serve(t, on, &http.Server{Handler: app()})
			for _, way := range ways {
				for _, requests := range conns {
					want, got := converse(t, plain, requests, way.send), converse(t, s, requests, way.send)
					for i := range min(len(want), len(got)) {
						if want[i] != got[i] {
							t.Errorf("%s (-args -seed %d): %.300q: %s", way.name, *seed, requests[i], difference(want[i], got[i]))
						}
					}
					if len(want) != len(got) {
						t.Errorf("%s (-args -seed %d): %.300q…: net/http answers %d, http1 %d", way.name, *seed, requests, len(want), len(got))
					}
					if t.Failed() {
						return // a request that is never answered takes long
					}
				}
			}
			st := s.http.Stats()
			t.Logf("%d requests on the fast path, %d loans", st.Fast, st.Loans)
		})
	}
}

// difference is what differs between two answers, by line.
func difference(want, got answer) string {
	text := new(strings.Builder)
	a, b := strings.Split(want.text, "\n"), strings.Split(got.text, "\n")
	for i := range max(len(a), len(b)) {
		var w, g string
		if i < len(a) {
			w = a[i]
		}
		if i < len(b) {
			g = b[i]
		}
		if w != g {
			fmt.Fprintf(text, "\n\tnet/http: %s\n\thttp1:    %s", shortened(w), shortened(g))
		}
	}
	if want.ended != got.ended {
		fmt.Fprintf(text, "\n\tnet/http closes: %t, http1 closes: %t", want.ended, got.ended)
	}
	return text.String()
}

// shortened is the beginning and the end of a long line.
func shortened(line string) string {
	if len(line) > 400 {
		return line[:200] + " … " + line[len(line)-200:]
	}
	return line
}

// request is a request's text.
func request(line string, headers ...string) string { return requestWith("", line, headers...) }

// requestWith has a body, and says its length.
func requestWith(body, line string, headers ...string) string {
	text := bytes.NewBufferString(line + " HTTP/1.1\r\nHost: app.test\r\n")
	for _, h := range headers {
		text.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(text, "Content-Length: %d\r\n", len(body))
	}
	return text.String() + "\r\n" + body
}

// chunked has a body in chunks of that many bytes.
func chunked(body string, chunk int, line string, headers ...string) string {
	text := new(strings.Builder)
	text.WriteString(request(line, append(headers, "Transfer-Encoding: chunked")...))
	for len(body) > 0 {
		n := min(chunk, len(body))
		fmt.Fprintf(text, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return text.String() + "0\r\n\r\n"
}

// needs is the path of a program that make deps installs. Without it the test is skipped,
// and fails where all tests are asked for.
func needs(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name) // where not everybody looks
	}
	if err != nil {
		testrun.Lacks(t, name+" is not here: make deps installs it")
	}
	return path
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for until := time.Now().Add(patience); !holds(); <-ticker.C {
		if time.Now().After(until) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}
