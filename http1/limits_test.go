package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// strikes are timeouts that a client hits, in both halves. The client then reads nothing, as
// with net/http.
var strikes = []struct {
	name, sent string
	limits     engine.Limits
	std        *http.Server
	stays      bool // stays on loan while idle
	why        engine.Reason
}{
	{name: "slow head", sent: "GET / HTTP/1.1\r\nHo", limits: engine.Limits{FrameTime: soon}, why: engine.FrameTimeout},
	{name: "slow head on loan", sent: "GET / HTTP/1.0\r\nHost: a\n", limits: engine.Limits{FrameTime: soon}, why: engine.FrameTimeout},
	{name: "slow body", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx", limits: engine.Limits{FrameTime: soon}, why: engine.FrameTimeout},
	{name: "slow body on loan", sent: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", limits: engine.Limits{FrameTime: soon}, why: engine.FrameTimeout},
	{name: "slow large body", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx", limits: engine.Limits{FrameTime: soon}, why: engine.FrameTimeout},
	{name: "idle", sent: getting("/quick"), limits: engine.Limits{IdleTime: soon}, why: engine.IdleTimeout},
	{name: "idle after a loan", sent: quickUpload, limits: engine.Limits{IdleTime: soon}, why: engine.IdleTimeout},
	{name: "idle on loan", sent: quickUpload, limits: engine.Limits{IdleTime: soon}, stays: true, why: engine.IdleTimeout},
	{name: "ReadHeaderTimeout", sent: "GET / HTTP/1.1\r\nHo", std: &http.Server{ReadHeaderTimeout: soon}, why: engine.FrameTimeout},
	{name: "ReadHeaderTimeout on loan", sent: "GET / HTTP/1.0\r\nHost: a\n", std: &http.Server{ReadHeaderTimeout: soon}, why: engine.FrameTimeout},
	{name: "ReadTimeout", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx", std: &http.Server{ReadTimeout: soon}, why: engine.FrameTimeout},
	{name: "ReadTimeout on loan", sent: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", std: &http.Server{ReadTimeout: soon}, why: engine.FrameTimeout},
	{name: "IdleTimeout", sent: getting("/quick"), std: &http.Server{IdleTimeout: soon}, why: engine.IdleTimeout},
	{name: "IdleTimeout on loan", sent: quickUpload, std: &http.Server{IdleTimeout: soon}, stays: true, why: engine.IdleTimeout},
}

const (
	soon        = 60 * time.Millisecond
	quickUpload = "POST /quick HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)

func TestLimitsOfTime(t *testing.T) {
	t.Parallel() // it waits
	for i := range strikes {
		c := &strikes[i]
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				var std http.Server
				copyServer(&std, c.std)
				std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						panic(http.ErrAbortHandler)
					}
				})
				s := serve(t, &Server{Engine: e, Limits: c.limits, Std: &std})
				if c.stays {
					await(t, "the start", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.lending })
					s.lender.returns = false
				}
				nc := s.dial(t)
				say(t, nc, c.sent)
				all, err := io.ReadAll(nc)
				if err != nil {
					t.Fatal(err)
				}
				if quick := strings.Contains(c.sent, "/quick"); quick != strings.HasPrefix(string(all), "HTTP/1.1 200 OK\r\n") || !quick && len(all) > 0 {
					t.Errorf("read %q", all)
				}
				nc.Close() // so that the server need not linger
				await(t, "the connection's end", func() bool { return s.Stats().Open == 0 })
				if st := s.Stats(); st.Ended[c.why] != 1 {
					t.Errorf("no connection ended with %v: %v", c.why, st.Ended)
				}
			})
		})
	}
}

// A client that does not read a large answer is disconnected, whichever half writes it.
func TestStallTime(t *testing.T) {
	t.Parallel() // it waits
	file := bytes.Repeat([]byte("x"), 8<<20)
	for _, request := range []string{getting("/"), chunked, getting("/file"), strings.Replace(chunked, "/up", "/file", 1)} {
		t.Run(request[:9], func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				ended := make(chan struct{})
				s := serve(t, &Server{Engine: e, Limits: engine.Limits{StallTime: 100 * time.Millisecond}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(ended)
					if r.URL.Path == "/file" {
						http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
						return
					}
					for range 1 << 20 {
						if _, err := w.Write(file[:1<<20]); err != nil {
							return
						}
					}
				})})
				nc := s.dial(t)
				nc.SetReadBuffer(4 << 10)
				say(t, nc, request)
				<-ended
				await(t, "the connection's end", func() bool { return s.Stats().Open == 0 })
				if st := s.Stats(); st.Ended[engine.WriteStall] != 1 {
					t.Errorf("no connection ended with a write stall: %v", st.Ended)
				}
			})
		})
	}
}

// A body that a handler waits for may take any time, as long as it keeps to Limits.FrameRate.
func TestFrameRateOnLoan(t *testing.T) {
	t.Parallel() // it waits
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: 500 * time.Millisecond, FrameRate: 100}, Handler: http.HandlerFunc(echo)})
		nc := s.dial(t)
		say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 15 { // 100 bytes each allow for a second
			say(t, nc, "64\r\n"+strings.Repeat("x", 100)+"\r\n")
			<-time.After(50 * time.Millisecond)
		}
		say(t, nc, "0\r\n\r\n")
		if got := readAnswer(t, bufio.NewReader(nc)); !strings.HasSuffix(got, "xx\" <nil>") {
			t.Error(got)
		}
	})
}

// A read deadline that a handler sets or clears replaces our limit.
func TestHandlersOwnReadDeadline(t *testing.T) {
	t.Parallel() // it waits
	run(t, func(t *testing.T, e engine.Engine) {
		waits := make(chan struct{})
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: soon}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Time{})
			close(waits)
			echo(w, r)
		})})
		nc := s.dial(t)
		say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		<-waits
		<-time.After(4 * soon)
		say(t, nc, "1\r\nx\r\n0\r\n\r\n")
		if got := readAnswer(t, bufio.NewReader(nc)); got != `200 POST / "x" <nil>` {
			t.Error(got)
		}
	})
}

// Both halves have one limit for heads: a larger one gets 431.
func TestMaxHeaderBytes(t *testing.T) {
	for _, set := range []*Server{{Std: &http.Server{MaxHeaderBytes: 1000}}, {Limits: engine.Limits{FrameSize: 1000}}} {
		run(t, func(t *testing.T, e engine.Engine) {
			s := serve(t, &Server{Engine: e, Std: set.Std, Limits: set.Limits, Handler: http.HandlerFunc(echo)})
			for _, c := range []struct {
				line string
				size int
				want int
			}{{"GET / HTTP/1.1\r\nHost: a", 500, 200}, {"GET / HTTP/1.0", 500, 200}, {"GET / HTTP/1.1\r\nHost: a", 10_000, 431}, {"GET / HTTP/1.0", 10_000, 431}} {
				nc := s.dial(t)
				io.WriteString(nc, c.line+"\r\nX: "+strings.Repeat("x", c.size)+"\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != c.want {
					t.Errorf("%q and %d bytes: status %d, want %d", c.line, c.size, resp.StatusCode, c.want)
				}
				nc.Close()
			}
		})
	}
}

// A client beyond the connection limit gets an HTTP response that says so.
func TestTooManyConns(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{Conns: 1}, Handler: http.HandlerFunc(echo)})
		first := s.dial(t)
		say(t, first, getting("/"))
		readAnswer(t, bufio.NewReader(first))
		second := s.dial(t)
		say(t, second, getting("/"))
		if got := readAnswer(t, bufio.NewReader(second)); got != "503 503 Service Unavailable: too many connections" {
			t.Error(got)
		}
		if st := s.Stats(); st.Ended[engine.TooManyConns] != 1 {
			t.Error(st.Ended)
		}
	})
}

// A limit set for one half applies to both, and limits that are not set have defaults.
func TestLimitsAreOneSet(t *testing.T) {
	for _, c := range []struct {
		name       string
		set        *Server
		frame      time.Duration
		rate       int
		idle       time.Duration
		stall      time.Duration
		headers    time.Duration // net/http's ReadHeaderTimeout
		theirsIdle time.Duration
	}{
		{"nothing", &Server{}, 5 * time.Second, 1 << 10, 3 * time.Minute, 10 * time.Second, 5 * time.Second, 3 * time.Minute},
		{"Limits", &Server{Limits: engine.Limits{FrameTime: 1e9, IdleTime: 2e9, StallTime: 3e9, FrameRate: 7}}, 1e9, 7, 2e9, 3e9, 1e9, 2e9},
		{"Std", &Server{Std: &http.Server{ReadHeaderTimeout: 1e9, IdleTimeout: 2e9, WriteTimeout: 3e9}}, 1e9, 1 << 10, 2e9, 3e9, 1e9, 2e9},
		{"ReadTimeout", &Server{Std: &http.Server{ReadTimeout: 10e9}}, 10e9, 1<<31 - 1, 10e9, 10e9, 10e9, 10e9},
		{"ReadTimeout and a shorter head", &Server{Std: &http.Server{ReadTimeout: 9e9, ReadHeaderTimeout: 1e9}}, 1e9, 6144, 9e9, 10e9, 1e9, 9e9},
		{"both", &Server{Limits: engine.Limits{FrameTime: 1e9, IdleTime: 1e9}, Std: &http.Server{ReadHeaderTimeout: 2e9, IdleTimeout: 2e9}}, 1e9, 1 << 10, 1e9, 10e9, 2e9, 2e9},
		{"off", &Server{Limits: engine.Limits{FrameTime: -1, IdleTime: -1}}, 1<<63 - 1, 1 << 10, 1<<63 - 1, 10e9, -1, -1},
	} {
		s := &Server{Std: c.set.Std, Limits: c.set.Limits}
		s.init()
		l, std := s.lender.limits, &s.lender.std
		got := []any{l.FrameTime, l.FrameRate, l.IdleTime, l.StallTime, std.ReadHeaderTimeout, std.IdleTimeout}
		if want := []any{c.frame, c.rate, c.idle, c.stall, c.headers, c.theirsIdle}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}

// net/http's log goes to Std.ErrorLog, else to Logger.
func TestNetHTTPLog(t *testing.T) {
	var text strings.Builder
	s := serve(t, &Server{Logger: slog.New(slog.NewTextHandler(&text, nil)), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic("broken")
	})})
	talk(t, s.addr, chunked)
	s.Shutdown(t.Context())
	if !strings.Contains(text.String(), "http: panic serving 127.0.0.1:") || !strings.Contains(text.String(), "broken") {
		t.Errorf("the log says %q", text.String())
	}
}
