package client

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const getHello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

// httpPlan asks a real server of net/http, whose handler counts.
func httpPlan(t *testing.T, secure bool, served *atomic.Int64, handler http.HandlerFunc) Plan {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		handler(w, r)
	}))
	p := plan("")
	p.HTTP = &HTTP{Request: []byte(getHello), Status: 200, Body: []byte("hello")}
	if secure {
		s.StartTLS()
		p.HTTP.TLS = &tls.Config{InsecureSkipVerify: true}
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	p.Addr = s.Listener.Addr().String()
	return p
}

func TestHTTP(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"one at a time":    func(p *Plan) {},
		"pipelined":        func(p *Plan) { p.Depth = 16 },
		"two loops":        func(p *Plan) { p.Loops, p.Depth = 2, 3 },
		"at a rate":        func(p *Plan) { p.Rate, p.Depth = 1000, 8 },
		"many connections": func(p *Plan) { p.Conns = 64 },
	} {
		for _, secure := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/TLS"}[secure], func(t *testing.T) {
				t.Parallel()
				var served atomic.Int64
				p := httpPlan(t, secure, &served, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
				change(&p)
				r, err := Run(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if r.Requests == 0 || r.Wrong != 0 || r.Missing != 0 || r.P50 == nil || r.Answered < r.Requests || served.Load() < r.Answered {
					t.Errorf("%+v, and %d were served", r, served.Load())
				}
			})
		}
	}
}

// TestHTTPWrongAnswers has every tenth answer be wrong in one way.
func TestHTTPWrongAnswers(t *testing.T) {
	for name, wrong := range map[string]http.HandlerFunc{
		"status":       func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); io.WriteString(w, "hello") },
		"shorter body": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hell") },
		"longer body":  func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("hello", 300)) },
		"another body": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hallo") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served, bad atomic.Int64
			p := httpPlan(t, false, &served, func(w http.ResponseWriter, r *http.Request) {
				if served.Load()%10 == 0 {
					bad.Add(1)
					wrong(w, r)
					return
				}
				io.WriteString(w, "hello")
			})
			p.Conns, p.Depth, p.Window = 1, 4, 100*time.Millisecond
			r, err := Run(t.Context(), p)
			if err != nil || r.Wrong != bad.Load() || r.Wrong == 0 || r.Answered != served.Load()-bad.Load() {
				t.Errorf("%v, %+v; %d of %d were bad", err, r, bad.Load(), served.Load())
			}
		})
	}
}

// TestHTTPAnswersThatCannotBeCut ends a plan at once.
func TestHTTPAnswersThatCannotBeCut(t *testing.T) {
	for name, answer := range map[string]string{
		"no length":     "HTTP/1.1 200 OK\r\n\r\nhello",
		"no answer":     "HELLO\r\n\r\n",
		"endless":       strings.Repeat("x", longestHead+1),
		"large":         "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"strange":       "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
		"another proto": "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	} {
		want := &HTTP{Status: 200, Body: []byte("hello")}
		if size, right, err := cut([]byte(answer), want); err == nil {
			t.Errorf("%s: %d, %v", name, size, right)
		}
	}
}

// TestHTTPAnswersDiffer in their date and in the order of their headers, and are right.
func TestHTTPAnswersDiffer(t *testing.T) {
	const (
		first  = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: 5\r\n\r\nhello"
		later  = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:01 GMT\r\nContent-Length: 5\r\n\r\nhello"
		turned = "HTTP/1.1 200 OK\r\ncontent-length:5\r\nDate: Mon, 01 Jan 2024 00:00:01 GMT\r\n\r\nhello"
		wrong  = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:01 GMT\r\nContent-Length: 5\r\n\r\nhallo"
	)
	p := plan("")
	p.Conns, p.Depth, p.HTTP = 1, 5, &HTTP{Request: []byte(getHello), Status: 200, Body: []byte("hello")}
	l, _ := loopOn(t, &p)
	c := &l.conns[0]
	if err := l.send(c); err != nil {
		t.Fatal(err)
	}
	all := first + later + turned + wrong + later
	for len(all) > 0 { // in pieces of 50 bytes
		piece := min(50, len(all))
		rest, err := l.settle(c, append(c.held, all[:piece]...))
		if err != nil {
			t.Fatal(err)
		}
		c.held = append([]byte(nil), rest...)
		all = all[piece:]
	}
	if l.answered != 4 || l.wrong != 1 || len(c.held) != 0 || len(c.free) != 5 {
		t.Errorf("%d are right and %d wrong; %q is left", l.answered, l.wrong, c.held)
	}
	if _, err := l.settle(c, []byte(first)); err != nil || l.wrong != 2 || l.answered != 4 {
		t.Errorf("an answer to nothing: %v, %d are wrong", err, l.wrong)
	}
	if l.usual.from == 0 || !l.usual.matches([]byte(later)) || l.usual.matches([]byte(turned)) || l.usual.matches([]byte(wrong)) {
		t.Errorf("the pattern is %q without %d to %d", l.usual.answer, l.usual.from, l.usual.to)
	}
}

// TestHTTPNoAllocations turns a loop whose peer answers from one buffer.
func TestHTTPNoAllocations(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	p := plan("")
	p.Conns, p.Depth, p.Warmup, p.Window = 1, 3, 0, time.Hour
	p.HTTP = &HTTP{Request: []byte(getHello), Status: 200, Body: []byte("hello")}
	l, other := loopOn(t, &p)
	l.start = time.Now()
	if err := l.send(&l.conns[0]); err != nil {
		t.Fatal(err)
	}
	l.cross()
	in, out := make([]byte, 4096), []byte(strings.Repeat(answer, p.Depth))
	const runs = 500
	n := testing.AllocsPerRun(runs, func() {
		if got, err := syscall.Read(other, in); err != nil || got != p.Depth*len(getHello) {
			t.Fatal(got, err)
		}
		if _, err := syscall.Write(other, out); err != nil {
			t.Fatal(err)
		}
		if err := l.turn(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 || l.answered < runs*int64(p.Depth) || l.wrong != 0 {
		t.Errorf("%v allocations a turn, %d answers, %d wrong", n, l.answered, l.wrong)
	}
}

// TestHTTPServerThatEnds must end a long run. A server that has not read the next request resets the connection.
func TestHTTPServerThatEnds(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var served atomic.Int64
		p := httpPlan(t, secure, &served, func(w http.ResponseWriter, r *http.Request) {
			if served.Load() == 100 {
				w.Header().Set("Connection", "close")
			}
			io.WriteString(w, "hello")
		})
		p.Window = time.Hour
		if r, err := Run(t.Context(), p); !errors.Is(err, errClosed) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("TLS %v: %+v, %v", secure, r, err)
		}
	}
}
