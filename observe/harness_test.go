package observe_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/observe"
)

// patience limits everything that a test waits for.
const patience = 60 * time.Second

// secret is a token that is long enough for any listener.
const secret = "0123456789abcdef"

func TestMain(m *testing.M) {
	if os.Getenv(childRole) == "serve" {
		if err := serveAsChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 && !goroutinesEnd(before) {
		fmt.Fprintf(os.Stderr, "goroutines outlive the tests:\n%s\n", stacks())
		code = 1
	}
	os.Exit(code)
}

// goroutinesEnd waits until at most this many goroutines exist, and reports whether that happened
// within patience. The tests here run one by one.
func goroutinesEnd(most int) bool {
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > most; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	text := make([]byte, 1<<20)
	return text[:runtime.Stack(text, true)]
}

// eventually polls until a condition holds that has no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("timed out after %v: %s", patience, what)
		}
	}
}

// receive waits for a value from ch, or for its end.
func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out after %v: %s", patience, what)
		panic("unreachable")
	}
}

// countLeaks compares the goroutines and descriptors at the end of the test with those now. Call it
// first, so that it runs after every other clean-up.
func countLeaks(t *testing.T) {
	before, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return // a failed test may leave things behind
		}
		if !goroutinesEnd(before) {
			t.Errorf("goroutines outlive the test:\n%s", stacks())
		}
		if runtime.GOOS == "linux" {
			eventually(t, "descriptors are closed", func() bool { return openFiles() <= files })
		}
	})
}

func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// nothing returns the stats of an unused server.
func nothing() engine.Stats { return engine.Stats{Engine: "buffered"} }

// site is a running Admin and a client for it.
type site struct {
	t     *testing.T
	admin *observe.Admin
	addr  string
	http  *http.Client
}

// start serves a on a free loopback port until the test ends.
func start(t *testing.T, a *observe.Admin) *site {
	t.Helper()
	countLeaks(t)
	ln, err := a.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, a, ln)
}

func startOn(t *testing.T, a *observe.Admin, ln net.Listener) *site {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	addr := ln.Addr()
	transport := &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, addr.Network(), addr.String())
		},
	}
	s := &site{t: t, admin: a, addr: addr.String(), http: &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if addr.Network() == "unix" {
		s.addr = "localhost"
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.shutdown()
		if err := receive(t, "Serve returns", served); err != http.ErrServerClosed {
			t.Errorf("Serve returned %v, want http.ErrServerClosed", err)
		}
	})
	return s
}

func (s *site) shutdown() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.admin.Shutdown(ctx); err != nil {
		s.t.Errorf("Shutdown: %v", err)
	}
}

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   string
}

// request makes a GET request for path; change it before do.
func (s *site) request(path string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequest("GET", "http://"+s.addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	a, err := s.try(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *site) try(r *http.Request) (answer, error) {
	response, err := s.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

func (s *site) get(path string) answer {
	s.t.Helper()
	return s.do(s.request(path))
}

// want is get with an expected status.
func (s *site) want(status int, path string) answer {
	s.t.Helper()
	a := s.get(path)
	if a.status != status {
		s.t.Fatalf("GET %s: %d %q, want %d", path, a.status, a.body, status)
	}
	return a
}

// send writes a raw request and returns the status line.
func (s *site) send(raw string) string {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	io.WriteString(nc, raw)
	b, err := io.ReadAll(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	return string(line)
}

// series are the samples of an exposition by name and labels.
type series map[string]float64

func (s *site) scrape() series {
	s.t.Helper()
	return parse(s.t, s.want(200, "/metrics").body)
}

func parse(t *testing.T, exposition string) series {
	t.Helper()
	all := series{}
	for line := range strings.Lines(exposition) {
		if line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[cut+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[line[:cut]] = v
	}
	return all
}
