package http1

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/faultlog"
)

// logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logged is logged for the tests outside of the package.
type Logged = logged

// lines returns the lines of a JSON log.
func (l *logged) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var of map[string]any
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, of)
	}
	return all
}

// A panic is logged and counted alike on the fast path, on a lent connection and in HTTP/2.
// http.ErrAbortHandler is neither.
func TestPanicsAreLoggedAlike(t *testing.T) {
	t.Parallel()
	panics := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("broken")
	})
	run(t, func(t *testing.T, e engine.Engine) {
		for _, path := range []string{"/", "/abort"} {
			for _, half := range []string{"GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET " + path + " HTTP/1.0\r\n\r\n", "HTTP/2"} {
				var text logged
				set := &Server{OldGo: true, Engine: e, Logger: slog.New(slog.NewJSONHandler(&text, nil)), Handler: panics}
				var s *serving
				if half == "HTTP/2" {
					var client *http.Client
					s, client = serveTLS(t, set, true)
					if resp, err := client.Get("https://" + s.addr + path); err == nil {
						resp.Body.Close()
						t.Errorf("HTTP/2: the panic was answered: %s", resp.Status)
					}
				} else {
					s = serve(t, set)
					if got := talk(t, s.addr, half); got != "" {
						t.Errorf("%q: the panic was answered: %q", half, got)
					}
				}
				s.Shutdown(t.Context())
				lines := text.lines(t)
				if path == "/abort" {
					if len(lines) != 0 || s.Stats().Panics != 0 {
						t.Errorf("%q: the log has %v, %d panics are counted, want none", half, lines, s.Stats().Panics)
					}
					continue
				}
				if len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["msg"] != "panic in a handler" || lines[0]["panic"] != "broken" || lines[0]["reason"] != "panicked" ||
					!strings.HasPrefix(lines[0]["remote"].(string), "127.0.0.1:") || !strings.Contains(lines[0]["stack"].(string), "TestPanicsAreLoggedAlike.func1(") {
					t.Errorf("%q: the log has %v", half, lines)
				}
				if n := s.Stats().Panics; n != 1 {
					t.Errorf("%q: %d panics are counted, want 1", half, n)
				}
			}
		}
	})
}

// Calls of a handler that have no effect are logged in the same words by both halves. net/http's
// words are recognised, so that they are logged without a Logger, too.
func TestMistakesAreLoggedAlike(t *testing.T) {
	hijack := func(w http.ResponseWriter) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		nc.Close()
	}
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
	}{
		{"twice", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); w.WriteHeader(500) }},
		{"WriteHeader after Hijack", func(w http.ResponseWriter, _ *http.Request) { hijack(w); w.WriteHeader(500) }},
		{"Write after Hijack", func(w http.ResponseWriter, _ *http.Request) { hijack(w); w.Write([]byte("x")) }},
		{"length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "many")
			w.WriteHeader(200)
		}},
		{"two lengths", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
			w.Header().Set("Transfer-Encoding", "chunked")
			w.Write([]byte("x"))
		}},
	} {
		var said [2]string
		for i, request := range []string{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\nConnection: close\r\n\r\n"} {
			var text logged
			s := serve(t, &Server{Logger: slog.New(slog.NewJSONHandler(&text, nil)), Handler: c.handle})
			talk(t, s.addr, request)
			await(t, "the line", func() bool { return text.String() != "" }) // Shutdown does not wait for hijackers
			s.Shutdown(t.Context())
			lines := text.lines(t)
			if len(lines) != 1 || lines[0]["level"] != "WARN" || lines[0]["reason"] != mistaken {
				t.Errorf("%s, %.15q: the log has %v", c.name, request, lines)
				continue
			}
			said[i] = lines[0]["msg"].(string)
		}
		if said[0] != said[1] || !strings.HasPrefix(said[0], "http: ") {
			t.Errorf("%s: the fast path logs %q, net/http %q", c.name, said[0], said[1])
		}
	}
}

// breaking is a listener that fails once.
type breaking struct {
	net.Listener
	once sync.Once
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }

func (b *breaking) Accept() (nc net.Conn, err error) {
	b.once.Do(func() { err = temporary{errors.New("no luck")} })
	if err != nil {
		return nil, err
	}
	return b.Listener.Accept()
}

// What net/http logs goes to Std.ErrorLog, and refused connections to Logger. Without
// Std.ErrorLog, everything goes to Logger.
func TestErrorLogComesFirst(t *testing.T) {
	for _, first := range []bool{true, false} {
		var text, other logged
		s := &Server{
			OldGo: true, Logger: slog.New(slog.NewJSONHandler(&other, nil)), Limits: engine.Limits{Conns: 1}, Std: &http.Server{},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/panic":
					panic("broken")
				case "/twice":
					w.WriteHeader(200)
					w.WriteHeader(500)
				}
			}),
		}
		if first {
			s.Std.ErrorLog = log.New(&text, "std: ", 0)
		}
		secure, _ := serveTLS(t, s, false)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bare := serveOn(t, s, &breaking{Listener: ln})
		ask := func(addr, request string) {
			talk(t, addr, request)
			await(t, "the connection's end", func() bool { return s.Stats().Open == 0 })
		}
		ask(bare.addr, getting("/panic"))
		ask(bare.addr, "GET /twice HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		for range 3 {
			ask(secure.addr, getting("/"))
		}
		held, kept := bare.dial(t), s.Stats().InputMemory
		say(t, held, getting("/")+"GET / HT") // it does not make room
		readAnswer(t, bufio.NewReader(held))
		await(t, "the half request", func() bool { return s.Stats().InputMemory > kept })
		talk(t, bare.addr, getting("/"))
		held.Close()
		s.Shutdown(t.Context())

		wants := []string{
			"std: http: Accept error: no luck; retrying\n",
			"std: http: panic serving 127.0.0.1:", ": broken\ngoroutine ",
			"std: http: superfluous response.WriteHeader call from github.com/hone-go/hone/http1.",
		}
		if !first {
			wants = nil
			if text.String() != "" {
				t.Errorf("Std.ErrorLog is not set, and got %s", &text)
			}
		}
		for _, want := range wants {
			if n := strings.Count(text.String(), want); n != 1 {
				t.Errorf("Std.ErrorLog has %q %d times, want once:\n%s", want, n, &text)
			}
		}
		reasons := ""
		shaken := strings.Count(text.String(), "std: http: TLS handshake error from ")
		for _, of := range regexp.MustCompile(`(\d+) (?:further lines|more) suppressed`).FindAllStringSubmatch(text.String(), -1) {
			n, _ := strconv.Atoi(of[1])
			shaken += n
		}
		for _, l := range other.lines(t) {
			reason := l["reason"].(string)
			if reason == handshake {
				n, _ := l["suppressed"].(float64)
				shaken += int(n)
				if l["msg"] != faultlog.Further {
					shaken++
				}
			}
			if reason != handshake || !strings.Contains(reasons, reason) {
				reasons += " " + reason
			}
		}
		if shaken != 3 { // one line and two suppressed, unless the machine needs more than a second for them
			t.Errorf("with Std.ErrorLog: %v; %d failed handshakes are logged or counted, want 3:\n%s", first, shaken, &text)
		}
		want := " too_many_conns"
		if !first {
			want = " accept_failed panicked handler_mistake tls_handshake too_many_conns"
		}
		if reasons != want {
			t.Errorf("with Std.ErrorLog: %v; Logger has the reasons%s, want%s", first, reasons, want)
		}
	}
}

// A client's HTTP/2 mistakes are logged as lines of net/http, not of a handler.
func TestNetHTTPsOtherLines(t *testing.T) {
	var text logged
	s := &Server{OldGo: true, Logger: slog.New(slog.NewJSONHandler(&text, nil)), Handler: http.HandlerFunc(said)}
	s.init()
	s.std.ErrorLog.Print("http2: server connection error from 127.0.0.1:1: PROTOCOL_ERROR")
	s.std.ErrorLog.Print("ignoring invalid trailer \"Content-Length\"")
	s.Close()
	lines := text.lines(t)
	if len(lines) != 2 || lines[0]["reason"] != byNetHTTP || lines[0]["level"] != "WARN" || lines[1]["reason"] != mistaken {
		t.Errorf("the log has %v", lines)
	}
}
