package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// TestPreparedAnswers compares prepared answers with net/http's.
func TestPreparedAnswers(t *testing.T) {
	t.Parallel()
	png := http.Header{"Content-Type": {"image/png"}, "Vary": {"Accept", "Origin"}, "X-A": {" a\r\nb "}}
	long := bytes.Repeat([]byte("0123456789"), 30_000)
	prepared := map[string]struct {
		*Prepared
		laidOut bool
		body    []byte
	}{
		"/picture":  {Prepare(200, png), true, []byte("picture")},
		"/empty":    {Prepare(404, png), true, nil},
		"/long":     {Prepare(200, png), true, long},
		"/nothing":  {Prepare(204, png), false, []byte("left out")},
		"/sniffed":  {Prepare(200, http.Header{}), false, []byte("<html>")},
		"/closes":   {Prepare(200, http.Header{"Content-Type": {"a/b"}, "Connection": {"close"}}), false, []byte("bye")},
		"/dated":    {Prepare(200, http.Header{"Content-Type": {"a/b"}, "Date": {"today"}}), false, []byte("old")},
		"/fields":   {Prepare(200, png), true, []byte("behind other fields")},
		"/wrapped":  {Prepare(200, png), true, []byte("in a wrapper")},
		"/finished": {Prepare(200, png), true, []byte("behind another answer")},
	}
	for path, p := range prepared {
		if (p.head != nil) != p.laidOut {
			t.Errorf("%s is laid out: %v", path, p.head != nil)
		}
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := prepared[r.URL.Path]
		switch r.URL.Path {
		case "/fields":
			w.Header().Set("X-Before", "b")
		case "/wrapped":
			w = wrapped{wrapped{w}}
		case "/finished":
			w.WriteHeader(http.StatusAccepted)
		}
		p.Send(w, p.body, Field{"Etag", `"tag"`}, Field{"X-B", " b\n"})
	})
	std := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go std.Serve(ln)
	t.Cleanup(func() { std.Close() })
	onEngines(t, handler, func(t *testing.T, s *Server, addr string) {
		for path := range prepared {
			for _, request := range []string{
				"GET %s HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD %s HTTP/1.1\r\nHost: h\r\n\r\n", "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
				"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "GET %s HTTP/1.0\r\n\r\n",
			} {
				request = fmt.Sprintf(request, path)
				got, want := hears(t, addr, request), hears(t, ln.Addr().String(), request)
				if got != want {
					t.Errorf("%.30q: %.300s\nnet/http: %.300s", request, got, want)
				}
			}
		}
		if fast := s.Stats().Fast; fast < uint64(4*len(prepared)) {
			t.Errorf("the fast path has served %d requests", fast)
		}
	})
}

// hears is what a client receives for a request that it sends twice.
func hears(t *testing.T, addr, request string) string {
	t.Helper()
	nc := dial(t, addr)
	io.WriteString(nc, request+request)
	in := bufio.NewReader(nc)
	var heard strings.Builder
	method, _, _ := strings.Cut(request, " ")
	for range 2 {
		answer, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			heard.WriteString("then it closes")
			break
		}
		body, err := io.ReadAll(answer.Body)
		if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil && time.Since(at).Abs() < time.Minute {
			answer.Header.Set("Date", "now")
		}
		fmt.Fprintf(&heard, "%s %v close=%v, %d: %.40q %v; ", answer.Status, answer.Header, answer.Close, answer.ContentLength, body, err)
	}
	return heard.String()
}

// TestPreparedAnswersNeedNoHeader compares the allocations with those of a single Write.
func TestPreparedAnswersNeedNoHeader(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector allocates")
	}
	p := Prepare(200, http.Header{"Content-Type": {"image/png"}, "Cache-Control": {"no-cache"}})
	body := []byte("picture")
	count := func(h http.Handler) float64 {
		of := serverOf(h)
		defer of.server.engine.Close()
		turn := &engine.Turn{}
		return testing.AllocsPerRun(500, func() {
			turn.Out = turn.Out[:0]
			of.Advance(turn, []byte(bareGet))
		})
	}
	sent := count(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { p.Send(w, body, Field{"Etag", `"x"`}) }))
	if plain := count(hello); sent > plain {
		t.Errorf("%v allocations, and %v without any header", sent, plain)
	}
}

// TestLeave lets more handlers wait than there are event loops, and then sends another request;
// also on an engine that does not detect slow handlers by itself.
func TestLeave(t *testing.T) {
	t.Parallel() // it waits
	release := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/release" {
			close(release)
			return
		}
		Leave(wrapped{w})
		Leave(w)
		<-release
		io.WriteString(w, "released")
	})
	Leave(nil) // a foreign ResponseWriter is ignored
	for _, e := range engines() {
		t.Run(e.Name(), func(t *testing.T) {
			release = make(chan struct{})
			addr := start(t, &Server{Engine: e, Handler: handler})
			var waiting []net.Conn
			for range 4 * runtime.GOMAXPROCS(0) {
				nc := dial(t, addr)
				io.WriteString(nc, getting("/"))
				waiting = append(waiting, nc)
			}
			last := dial(t, addr)
			io.WriteString(last, getting("/release"))
			readAnswer(t, bufio.NewReader(last))
			for _, nc := range waiting {
				if body := readAnswer(t, bufio.NewReader(nc)); !strings.Contains(fmt.Sprint(body), "released") {
					t.Errorf("a handler that has waited answers %q", body)
				}
			}
		})
	}
}

// BenchmarkPrepared is a response with seven fields, prepared and not.
func BenchmarkPrepared(b *testing.B) {
	h := http.Header{
		"Content-Type": {"image/png"}, "Cache-Control": {"public, max-age=86400"}, "X-Content-Type-Options": {"nosniff"},
		"Cross-Origin-Resource-Policy": {"cross-origin"}, "Access-Control-Allow-Origin": {"*"},
	}
	body := bytes.Repeat([]byte("x"), 700)
	p, plain := Prepare(200, h), Prepare(200, h)
	plain.head = nil
	for name, p := range map[string]*Prepared{"prepared": p, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			of := serverOf(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { p.Send(w, body, Field{"Etag", `"x"`}) }))
			defer of.server.engine.Close()
			turn := &engine.Turn{}
			b.ReportAllocs()
			for b.Loop() {
				turn.Out = turn.Out[:0]
				of.Advance(turn, []byte(browserGet))
			}
		})
	}
}
