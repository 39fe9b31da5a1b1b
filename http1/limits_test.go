package http1

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/simulation"
	"github.com/hone-go/hone/internal/testrun"
)

// strikes are timeouts that a client hits, in both halves. What it then reads is as with net/http.
var strikes = []struct {
	name, sent string
	limits     engine.Limits
	std        *http.Server
	answer     string        // how the response begins; empty: there is none
	stays      bool          // stays on loan while idle
	more       time.Duration // a body in memory has the time for its head on top
	why        engine.Reason
}{
	{name: "slow head", sent: "GET / HTTP/1.1\r\nHo", limits: engine.Limits{FrameTime: struck}, answer: badRequestLine, why: engine.FrameTimeout},
	{name: "slow head after a request", sent: getting("/quick") + "GET / HTTP/1.1\r\nHo", limits: engine.Limits{FrameTime: struck}, answer: "HTTP/1.1 200 OK", why: engine.FrameTimeout},
	{name: "slow head on loan", sent: "GET / HTTP/1.0\r\nHost: a\n", limits: engine.Limits{FrameTime: struck}, why: engine.FrameTimeout},
	{name: "slow body", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx", limits: engine.Limits{FrameTime: struck}, more: struck, why: engine.FrameTimeout},
	{name: "slow body on loan", sent: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", limits: engine.Limits{FrameTime: struck}, why: engine.FrameTimeout},
	{name: "slow large body", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx", limits: engine.Limits{FrameTime: struck}, why: engine.FrameTimeout},
	{name: "idle", sent: getting("/quick"), limits: engine.Limits{IdleTime: struck}, answer: okLine, why: engine.IdleTimeout},
	{name: "idle after a loan", sent: quickUpload, limits: engine.Limits{IdleTime: struck}, answer: okLine, why: engine.IdleTimeout},
	{name: "idle on loan", sent: quickUpload, limits: engine.Limits{IdleTime: struck}, stays: true, answer: okLine, why: engine.IdleTimeout},
	{name: "ReadHeaderTimeout", sent: "GET / HTTP/1.1\r\nHo", std: &http.Server{ReadHeaderTimeout: struck}, answer: badRequestLine, why: engine.FrameTimeout},
	{name: "ReadHeaderTimeout on loan", sent: "GET / HTTP/1.0\r\nHost: a\n", std: &http.Server{ReadHeaderTimeout: struck}, why: engine.FrameTimeout},
	{name: "ReadTimeout", sent: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx", std: &http.Server{ReadTimeout: struck}, why: engine.FrameTimeout},
	{name: "ReadTimeout on loan", sent: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx", std: &http.Server{ReadTimeout: struck}, why: engine.FrameTimeout},
	{name: "IdleTimeout", sent: getting("/quick"), std: &http.Server{IdleTimeout: struck}, answer: okLine, why: engine.IdleTimeout},
	{name: "IdleTimeout on loan", sent: quickUpload, std: &http.Server{IdleTimeout: struck}, stays: true, answer: okLine, why: engine.IdleTimeout},
}

const (
	struck         = 7 * time.Second // no default
	quickUpload    = "POST /quick HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	okLine         = "HTTP/1.1 200 OK\r\n"
	badRequestLine = "HTTP/1.1 400 Bad Request\r\n"
)

func TestLimitsOfTime(t *testing.T) {
	for i := range strikes {
		c := &strikes[i]
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
				var std http.Server
				copyServer(&std, c.std)
				std.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						panic(http.ErrAbortHandler)
					}
				})
				s := &Server{Engine: e, Limits: c.limits, Std: &std, Logger: slog.New(slog.DiscardHandler)}
				nc := dialFake(t, s, secure)
				synctest.Wait()
				if c.stays {
					s.lender.returns = false
				}
				begun := time.Now()
				say(t, nc, c.sent)
				all, err := io.ReadAll(nc)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < struck+c.more || took > struck+c.more+time.Second {
					t.Errorf("the end came after %v, want %v", took, struck+c.more)
				}
				if c.answer == "" && len(all) > 0 || !strings.HasPrefix(string(all), c.answer) {
					t.Errorf("read %q", all)
				}
				nc.Close() // so that the server need not linger
				synctest.Wait()
				if st := s.Stats(); st.Open != 0 || st.Ended[c.why] != 1 {
					t.Errorf("%d are open; ended: %v, want one with %v", st.Open, st.Ended, c.why)
				}
			})
		})
	}
}

// inFakeTime runs a test in fake time on the engines, and on the default one with TLS.
func inFakeTime(t *testing.T, test func(t *testing.T, e engine.Engine, secure bool)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, e, false) })
		})
	}
	t.Run("tls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, engine.Engine{}, true) })
	})
}

// dialFake serves s in memory until the test ends, and returns a connection to it, whose handshake is over.
func dialFake(t *testing.T, s *Server, secure bool) net.Conn {
	t.Helper()
	return serveFake(t, s, secure)()
}

// serveFake has a server, of this package or net/http's, serve in memory until the test ends, and returns a
// function that connects to it.
func serveFake(t *testing.T, s simulation.Server, secure bool) (dial func() net.Conn) {
	fake := fakenet.Listen()
	ln, client := net.Listener(fake), (*tls.Config)(nil)
	if secure {
		server, trusting := simulation.Certified()
		ln, client = engine.NewTLSListener(fake, server), trusting
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	var all []net.Conn
	t.Cleanup(func() {
		for _, nc := range all {
			nc.Close()
		}
		s.Close()
		<-served
	})
	return func() net.Conn {
		near, err := fake.Dial()
		nc := net.Conn(near)
		if err == nil && secure {
			secured := tls.Client(near, client)
			nc, err = secured, secured.Handshake()
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, nc)
		return nc
	}
}

// A head that is cut off anywhere, by the client's FIN or by a timeout, gets net/http's answer.
func TestHalfHeadsMatchNetHTTP(t *testing.T) {
	t.Parallel() // it waits
	const head = "PUT /a%20b?c HTTP/1.1\r\nHost: a\r\nX-Y:  z w \r\nEmpty:\r\nContent-Length: 3\r\n\r"
	half := []string{"G", "GET", "GET /", "get", "PRI", "CONNECT", "\x16", strings.Repeat("G", 31)}
	for at := range len(head) + 1 {
		half = append(half, head[:at])
	}
	before := []string{"", getting("/1"), strings.Replace(quickUpload, "/quick", "/2", 1), "POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"}
	var cut, late [][2]string // a request that is answered, and half a head
	for _, first := range before {
		for _, h := range append(half, "GET /"+strings.Repeat("x", 4091), "GET /"+strings.Repeat("x", 4092)) {
			cut = append(cut, [2]string{first, h})
		}
	}
	for _, first := range before[1:3] { // for the first request, net/http's time begins at the accept
		for _, h := range half {
			if len(h) >= peeked { // with less, net/http waits for IdleTimeout, and is silent too
				late = append(late, [2]string{first, h})
			}
		}
	}
	// answers are what a server answers to each, all at once.
	answers := func(t *testing.T, dial func() net.Conn, all [][2]string, then func(net.Conn)) []string {
		answers := make([]string, len(all))
		var done sync.WaitGroup
		for i, c := range all {
			nc := dial()
			done.Go(func() {
				defer nc.Close()
				io.WriteString(nc, c[0]+c[1])
				then(nc)
				answer, err := io.ReadAll(nc)
				answers[i] = fmt.Sprintf("%q, %v", undated(string(answer)), err)
			})
		}
		done.Wait()
		return answers
	}
	compare := func(t *testing.T, all [][2]string, gots, wants []string) {
		for i, got := range gots {
			if got != wants[i] {
				t.Errorf("after %.30q and %.80q: got\n%s\nnet/http answers\n%s", all[i][0], all[i][1], got, wants[i])
			}
		}
	}
	t.Run("FIN", func(t *testing.T) {
		t.Parallel()
		closes := func(nc net.Conn) { nc.(interface{ CloseWrite() error }).CloseWrite() }
		to := func(t *testing.T, addr string) func() net.Conn {
			return func() net.Conn {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				nc.SetDeadline(time.Now().Add(10 * time.Second))
				return nc
			}
		}
		wants := answers(t, to(t, plain(t, &http.Server{Handler: http.HandlerFunc(some)})), cut, closes)
		run(t, func(t *testing.T, e engine.Engine) {
			s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(some)})
			compare(t, cut, answers(t, to(t, s.addr), cut, closes), wants)
		})
	})
	t.Run("timeout", func(t *testing.T) {
		inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
			std := func() *http.Server {
				return &http.Server{Handler: http.HandlerFunc(some), ReadHeaderTimeout: struck}
			}
			waits := func(net.Conn) {}
			wants := answers(t, serveFake(t, std(), false), late, waits)
			compare(t, late, answers(t, serveFake(t, &Server{Engine: e, Std: std()}, secure), late, waits), wants)
		})
	})
}

// A client that does not read a large answer is disconnected, whichever half writes it.
func TestStallTime(t *testing.T) {
	t.Parallel()                              // it waits
	file := bytes.Repeat([]byte("x"), 32<<20) // more than the kernel takes
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
				since := time.Now()
				await(t, "the connection's end", func() bool { return s.Stats().Open == 0 })
				if took := time.Since(since); took > 4*time.Second {
					t.Errorf("the connection ended %v after its handler", took)
				}
				if st := s.Stats(); st.Ended[engine.WriteStall] != 1 {
					t.Errorf("no connection ended with a write stall: %v", st.Ended)
				}
			})
		})
	}
}

// Neither the time for heads nor the time between requests applies to a body, whichever half
// serves it and whether ReadTimeout is set or not.
func TestBodiesHaveTheirOwnTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		for _, whole := range []time.Duration{0, 30 * time.Second} {
			const heads = time.Second
			dial := serveFake(t, &Server{Engine: e, Std: &http.Server{ReadHeaderTimeout: heads, ReadTimeout: whole, IdleTimeout: heads, Handler: http.HandlerFunc(echo)}}, secure)
			var conns []net.Conn
			for _, c := range halfBodies {
				nc := dial()
				say(t, nc, c.begins)
				conns = append(conns, nc)
			}
			<-time.After(heads + heads/4)
			for i, c := range halfBodies {
				say(t, conns[i], c.rest)
				if got := readAnswer(t, bufio.NewReader(conns[i])); got != c.want {
					t.Errorf("%s, ReadTimeout %v: got %.60q", c.name, whole, got)
				}
			}
		}
	})
}

// halfBodies are requests that echo answers, in two parts.
var halfBodies = []struct{ name, begins, rest, want string }{
	{"in memory", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabcde", "fghij", `200 POST / "abcdefghij" <nil>`},
	{"no byte yet", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", "abc", `200 POST / "abc" <nil>`},
	{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na", "bc\r\n0\r\n\r\n", `200 POST / "abc" <nil>`},
	{"large", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\nx", strings.Repeat("x", 49_999), `200 POST / "` + strings.Repeat("x", 50_000) + `" <nil>`},
}

// A body that a handler waits for may take any time, as long as it keeps to Limits.FrameRate.
func TestFrameRateOnLoan(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		nc := dialFake(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: 5 * time.Second, FrameRate: 100}, Handler: http.HandlerFunc(echo)}, secure)
		say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 15 { // 100 bytes each allow for a second
			say(t, nc, "64\r\n"+strings.Repeat("x", 100)+"\r\n")
			<-time.After(900 * time.Millisecond)
		}
		say(t, nc, "0\r\n\r\n")
		if got := readAnswer(t, bufio.NewReader(nc)); !strings.HasSuffix(got, "xx\" <nil>") {
			t.Error(got)
		}
	})
}

// A read deadline that a handler sets or clears replaces our limit.
func TestHandlersOwnReadDeadline(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		waits := make(chan struct{})
		nc := dialFake(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: 5 * time.Second}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Time{})
			close(waits)
			echo(w, r)
		})}, secure)
		say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		<-waits
		<-time.After(time.Minute)
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
		say(t, first, getting("/")+"GET / HT") // it does not make room
		readAnswer(t, bufio.NewReader(first))
		got := "200 "
		for tries := 0; strings.HasPrefix(got, "200 ") && tries < 100; tries++ { // a newcomer is served until the half head is known
			second := s.dial(t)
			say(t, second, getting("/"))
			got = readAnswer(t, bufio.NewReader(second))
		}
		if got != "503 503 Service Unavailable: too many connections" {
			t.Error(got)
		}
		if st := s.Stats(); st.Ended[engine.TooManyConns] != 1 {
			t.Error(st.Ended)
		}
	})
}

// A limit set for one half applies to both, and limits that are not set have defaults.
func TestLimitsAreOneSet(t *testing.T) {
	const s, off = time.Second, time.Duration(1<<63 - 1)
	for _, c := range []struct {
		name       string
		set        *Server
		head       time.Duration
		body       time.Duration // on loan, beyond its size at FrameRate
		request    time.Duration // with 2 KiB of body in memory
		idle       time.Duration
		stall      time.Duration
		headers    time.Duration // net/http's ReadHeaderTimeout
		theirsIdle time.Duration
	}{
		{"nothing", &Server{}, 5 * s, 5 * s, 12 * s, 180 * s, 10 * s, 5 * s, 180 * s},
		{"Limits", &Server{Limits: engine.Limits{FrameTime: s, IdleTime: 2 * s, StallTime: 3 * s, FrameRate: 512}}, s, s, 6 * s, 2 * s, 3 * s, s, 2 * s},
		{"Std", &Server{Std: &http.Server{ReadHeaderTimeout: s, IdleTimeout: 2 * s, WriteTimeout: 3 * s}}, s, 5 * s, 8 * s, 2 * s, 3 * s, s, 2 * s},
		{"a longer head", &Server{Std: &http.Server{ReadHeaderTimeout: 9 * s}}, 9 * s, 9 * s, 20 * s, 180 * s, 10 * s, 9 * s, 180 * s},
		{"ReadTimeout", &Server{Std: &http.Server{ReadTimeout: 10 * s}}, 10 * s, 10 * s, 10 * s, 10 * s, 10 * s, 10 * s, 10 * s},
		{"ReadTimeout and a shorter head", &Server{Std: &http.Server{ReadTimeout: 9 * s, ReadHeaderTimeout: s}}, s, 5 * s, 9 * s, 9 * s, 10 * s, s, 9 * s},
		{"both", &Server{Limits: engine.Limits{FrameTime: s, IdleTime: s}, Std: &http.Server{ReadHeaderTimeout: 2 * s, IdleTimeout: 2 * s}}, s, s, 4 * s, s, 10 * s, 2 * s, 2 * s},
		{"off", &Server{Limits: engine.Limits{FrameTime: -1, IdleTime: -1}}, off, off, off, off, 10 * s, -1, -1},
		{"no limit for heads", &Server{Std: &http.Server{ReadHeaderTimeout: -1}}, off, off, off, 180 * s, 10 * s, -1, 180 * s},
	} {
		s := &Server{Std: c.set.Std, Limits: c.set.Limits}
		s.init()
		l, std := s.lender.limits, &s.lender.std
		got := []any{l.FrameTime, s.lender.bodyTime, s.requestTime(2 << 10), l.IdleTime, l.StallTime, std.ReadHeaderTimeout, std.IdleTimeout}
		if want := []any{c.head, c.body, c.request, c.idle, c.stall, c.headers, c.theirsIdle}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}

// AuthTime ends with the first request that is served, in both halves: neither a connection that
// stays busy, nor a stream, nor one that was lent is closed then. A connection without a request is.
func TestAuthTimeEndsWithTheFirstRequest(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		silentEnded := make(chan struct{})
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{AuthTime: 2 * time.Second}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "begun ")
			if r.URL.Path == "/stream" {
				http.NewResponseController(w).Flush()
				<-silentEnded
			}
			io.WriteString(w, "ended")
		})})
		var trusted []*bufio.Reader
		var conns []net.Conn
		for _, first := range []string{getting("/"), strings.ReplaceAll(chunked, "/up", "/"), getting("/stream"), strings.ReplaceAll(chunked, "/up", "/stream")} {
			nc := s.dial(t)
			say(t, nc, first)
			conns, trusted = append(conns, nc), append(trusted, bufio.NewReader(nc))
		}
		await(t, "the streams' beginnings", func() bool { return s.Stats().Requests >= 2 && s.Stats().OpenLoans >= 1 })
		for range 2 {
			if got := readAnswer(t, trusted[0]); got != "200 begun ended" {
				t.Fatal(got)
			}
			say(t, conns[0], getting("/"))
			if got := readAnswer(t, trusted[1]); got != "200 begun ended" {
				t.Fatal(got)
			}
			say(t, conns[1], getting("/"))
		}
		silent := s.dial(t) // opened last
		if _, err := io.ReadAll(silent); err != nil {
			t.Fatal(err)
		}
		close(silentEnded)
		for i, r := range trusted {
			if got := readAnswer(t, r); got != "200 begun ended" {
				t.Errorf("connection %d: %q", i, got)
			}
			say(t, conns[i], getting("/"))
			if got := readAnswer(t, r); got != "200 begun ended" {
				t.Errorf("connection %d, afterwards: %q", i, got)
			}
		}
		await(t, "the silent connection's end", func() bool { return s.Stats().Ended[engine.AuthTimeout] == 1 })
	})
}

// A negative size is a mistake of the programmer, and the panic names the field.
func TestNegativeFrameSizePanics(t *testing.T) {
	testrun.WantPanic(t, "engine: Limits.FrameSize is -1; ", func() {
		(&Server{Limits: engine.Limits{FrameSize: -1}}).ListenAndServe()
	})
}

// With the largest value of each limit, both halves serve.
func TestLargestValues(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		try := func(t *testing.T, s *Server) {
			s.Engine, s.Handler = e, http.HandlerFunc(echo)
			running := serve(t, s)
			nc := running.dial(t)
			r := bufio.NewReader(nc)
			for _, c := range [][2]string{
				{getting("/1"), `200 GET /1 "" <nil>`},
				{"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", `200 POST /2 "abc" <nil>`},
				{"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", `200 POST /3 "abc" <nil>`},
				{getting("/4"), `200 GET /4 "" <nil>`},
			} {
				say(t, nc, c[0])
				if got := readAnswer(t, r); got != c[1] {
					t.Errorf("%.20q: %q", c[0], got)
				}
			}
		}
		testrun.EachLargest(t, func(t *testing.T, l *engine.Limits) { try(t, &Server{Limits: *l}) })
		testrun.EachLargest(t, func(t *testing.T, std *http.Server) { try(t, &Server{Std: std}) })
	})
}

// limitFields sets MaxHeaderValueCount and returns true, if this Go has it.
func limitFields(std *http.Server, most int) bool {
	field := reflect.ValueOf(std).Elem().FieldByName("MaxHeaderValueCount")
	if field.IsValid() {
		field.SetInt(int64(most))
	}
	return field.IsValid()
}

// The fast path serves no head that has more fields than net/http accepts.
func TestMaxHeaderValueCount(t *testing.T) {
	std := &http.Server{Handler: http.HandlerFunc(echo)}
	limited := limitFields(std, 20)
	s := serve(t, &Server{Std: std})
	for fields := 19; fields <= 21; fields++ {
		nc := s.dial(t)
		say(t, nc, "GET / HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("A: b\r\n", fields-1)+"\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); (resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge) != (limited && fields > 20) {
			t.Errorf("%d fields: %v", fields, resp.Status)
		}
	}
}
