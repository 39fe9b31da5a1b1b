package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// webServer is net/http's server, over TCP, TLS or a unix socket.
func webServer(t *testing.T, over string, handler http.HandlerFunc) codec.HTTP {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	switch over {
	case "tls":
		s.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		return codec.HTTP{URL: s.URL, TLS: &tls.Config{RootCAs: roots}}
	case "unix":
		dir := must[string](t)(os.MkdirTemp("", "load")) // shorter than TempDir: such paths have a limit
		t.Cleanup(func() { os.RemoveAll(dir) })
		s.Listener.Close()
		s.Listener = must[net.Listener](t)(net.Listen("unix", dir+"/s"))
		s.Start()
		return codec.HTTP{URL: "http://unix:" + dir + "/s:/path?q=1"}
	}
	s.Start()
	return codec.HTTP{URL: s.URL + "/path?q=1"}
}

// handlers end bodies in different ways.
func handlers() map[string]http.HandlerFunc {
	long := bytes.Repeat([]byte("long "), 100<<10)
	return map[string]http.HandlerFunc{
		"length": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
		"empty":  func(http.ResponseWriter, *http.Request) {},
		"chunks": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				io.WriteString(w, "piece")
				w.(http.Flusher).Flush()
			}
		},
		"trailer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Sum")
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set("Sum", "1")
		},
		"long":        func(w http.ResponseWriter, _ *http.Request) { w.Write(long) },
		"no content":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"not changed": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "hello")
		},
	}
}

func TestHTTPAgainstNetHTTP(t *testing.T) {
	plans := map[string]Plan{
		"closed":    {Conns: 3},
		"pipelined": {Conns: 2, Depth: 4},
		"open":      {Conns: 3, Rate: 2000, MaxLag: time.Second},
	}
	for name, handler := range handlers() {
		for _, over := range []string{"tcp", "tls", "unix"} {
			if over != "tcp" && name != "long" && name != "chunks" {
				continue // the others cover these
			}
			target := webServer(t, over, handler)
			for loop, p := range plans {
				t.Run(name+"/"+over+"/"+loop, func(t *testing.T) {
					p.Target, p.Requests = target, 20
					checkAnswered(t, measured(t, p), 20)
				})
			}
		}
	}
}

// checkAnswered expects every request to be answered and counted under one status. A run without
// warm-up has at least the requests of its beginning, however busy the machine is.
func checkAnswered(t *testing.T, r *Result, least int64) {
	t.Helper()
	if r.Errors["total"] != 0 || r.Requests < least {
		t.Errorf("%d requests, errors %v, reasons %q", r.Requests, r.Errors, r.InvalidReasons)
	}
	if statuses := slices.Collect(maps.Values(r.Statuses)); len(statuses) != 1 || statuses[0] != r.Requests {
		t.Errorf("%d requests, statuses %v", r.Requests, r.Statuses)
	}
}

func TestHTTPHead(t *testing.T) {
	target := webServer(t, "tcp", handlers()["long"])
	target.Method = http.MethodHead
	checkAnswered(t, measured(t, Plan{Target: target, Conns: 2, Requests: 300}), 2)
}

// Handlers see the requested request.
func TestHTTPRequest(t *testing.T) {
	seen := make(chan string, 1)
	target := webServer(t, "tcp", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case seen <- fmt.Sprintf("%s %s %s %q %q %q %q", r.Method, r.URL, r.Host, r.UserAgent(), r.Header.Values("X-Two"), r.Header.Get("Content-Length"), body):
		default:
		}
	})
	host := strings.TrimSuffix(strings.TrimPrefix(target.URL, "http://"), "/path?q=1")
	for _, c := range []struct {
		change func(*codec.HTTP)
		want   string
	}{
		{func(*codec.HTTP) {}, "GET /path?q=1 " + host + ` "hone" [] "" ""`},
		{func(h *codec.HTTP) { h.Body = []byte("content") }, "POST /path?q=1 " + host + ` "hone" [] "7" "content"`},
		{func(h *codec.HTTP) { h.Method = "PUT" }, "PUT /path?q=1 " + host + ` "hone" [] "0" ""`},
		{func(h *codec.HTTP) { h.Method, h.URL = "DELETE", "http://"+host }, "DELETE / " + host + ` "hone" [] "" ""`},
		{func(h *codec.HTTP) {
			h.Header = http.Header{"X-Two": {"1", "2"}, "host": {"example.com"}, "User-Agent": {"me"}}
		}, `GET /path?q=1 example.com "me" ["1" "2"] "" ""`},
	} {
		h := target
		c.change(&h)
		select { // the last requests of the last plan
		case <-seen:
		default:
		}
		checkAnswered(t, measured(t, Plan{Target: h, Requests: 300}), 1)
		if got := <-seen; got != c.want {
			t.Errorf("the handler saw %s, want %s", got, c.want)
		}
	}
}

func TestHTTPCountsStatuses(t *testing.T) {
	sideBySide(t)
	var n atomic.Int64
	target := webServer(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{200, 301, 404, 500}[n.Add(1)%4])
	})
	for _, c := range []struct {
		good   []int
		failed int64
	}{{nil, 200}, {[]int{404}, 300}, {[]int{200, 301, 404, 500}, 0}} {
		target.Statuses = c.good
		r := measured(t, Plan{Target: target, Conns: 4, Rate: 800, Warmup: -1, For: 500 * time.Millisecond, MaxLag: time.Second, Timeout: patience / 2})
		for _, status := range []string{"200", "301", "404", "500"} {
			if r.Statuses[status] != 100 {
				t.Errorf("%v: statuses %v, want 100 of each", c.good, r.Statuses)
			}
		}
		if r.Errors["failed"] != c.failed || r.Errors["total"] != c.failed {
			t.Errorf("%v: errors %v, want %d failed", c.good, r.Errors, c.failed)
		}
		if reasons := strings.Join(r.InvalidReasons, " "); c.failed > 0 && !strings.Contains(reasons, "the first failure was \"HTTP ") {
			t.Errorf("%v: reasons %q", c.good, r.InvalidReasons)
		}
	}
}

func TestHTTPRefusesBadTargets(t *testing.T) {
	good := codec.HTTP{URL: "http://127.0.0.1:1/"}
	bad := map[string]codec.HTTP{
		"method":    {URL: good.URL, Method: "GET /"},
		"connect":   {URL: good.URL, Method: "CONNECT"},
		"status":    {URL: good.URL, Statuses: []int{99}},
		"length":    {URL: good.URL, Header: http.Header{"content-length": {"3"}}},
		"coding":    {URL: good.URL, Header: http.Header{"Transfer-Encoding": {"chunked"}}},
		"upgrade":   {URL: good.URL, Header: http.Header{"Upgrade": {"h2c"}}},
		"name":      {URL: good.URL, Header: http.Header{"a b": {"3"}}},
		"two lines": {URL: good.URL, Header: http.Header{"A": {"3\r\nB: 4"}}},
	}
	for _, url := range []string{
		"", "127.0.0.1", "ftp://127.0.0.1", "http://", "http://:80", "http://unix:", "http://unix::/", "http://a b/", "http://127.0.0.1/?a b",
		"http://me:secret@127.0.0.1/", "http://127.0.0.1/#part", "http://127.0.0.1/\r\nX: y", "http://127.0.0.1:http/", "http://héllo/",
	} {
		bad["url "+url] = codec.HTTP{URL: url}
	}
	for name, h := range bad {
		r, err := Run(context.Background(), Plan{Target: h})
		if e := faultOf(t, err); r != nil || e.Kind != BadPlan || e.Try == "" {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for name, p := range map[string]Plan{
		"content": {Content: []byte("x")}, "size": {Size: 3}, "expect": {Expect: []byte{}}, "echo": {Echo: true},
	} {
		p.Target = good
		if _, err := Run(context.Background(), p); faultOf(t, err).Kind != BadPlan {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHTTPSRefusals(t *testing.T) {
	sideBySide(t)
	target := webServer(t, "tls", handlers()["length"])
	plain := webServer(t, "tcp", handlers()["length"])
	trusted := target.TLS
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	modern := tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h3"}}
	s.Close()
	alone := "https://" + serveWith(t, "tcp", func(nc net.Conn) { _ = tls.Server(nc, &modern).Handshake() }).Address
	for _, c := range []struct {
		name string
		codec.HTTP
		kind Kind
		try  string
	}{
		{"unknown authority", codec.HTTP{URL: target.URL}, Unreachable, "verification"},
		{"another name", codec.HTTP{URL: strings.Replace(target.URL, "127.0.0.1", "localhost", 1), TLS: trusted}, Unreachable, "name"},
		{"plain", codec.HTTP{URL: "https" + strings.TrimPrefix(plain.URL, "http"), TLS: trusted}, Unreachable, "http://"},
		{"other protocols alone", codec.HTTP{URL: alone, TLS: &tls.Config{InsecureSkipVerify: true}}, Unreachable, "HTTP/2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := runPlan(t, context.Background(), Plan{Target: c.HTTP, Conns: 2, For: time.Second})
			e := faultOf(t, o.err)
			t.Log(e)
			if e.Kind != c.kind {
				t.Errorf("kind %v, want %v", e.Kind, c.kind)
			}
			checkLine(t, e, c.try)
		})
	}
	// A plain request to a TLS server gets an invalid answer.
	plain.URL = "http" + strings.TrimPrefix(target.URL, "https")
	r := measured(t, Plan{Target: plain, Requests: 300})
	if r.Valid || r.Statuses["400"] == 0 || r.Errors["failed"] == 0 {
		t.Errorf("HTTP to a server of HTTPS: %v, %v", r.Statuses, r.Errors)
	}
}

func TestHTTPSWithoutVerification(t *testing.T) {
	target := webServer(t, "tls", handlers()["length"])
	target.TLS = &tls.Config{InsecureSkipVerify: true}
	checkAnswered(t, measured(t, Plan{Target: target, Conns: 2, Requests: 300}), 2)
}

// TLS may return the last bytes of an answer together with the end of the stream. The answer still
// counts.
func TestHTTPSAnswersThatEndConnections(t *testing.T) {
	sideBySide(t)
	target := webServer(t, "tls", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	r := measured(t, Plan{Target: target, Requests: 60})
	if r.Requests != 60 || r.Errors["total"] != 0 || r.Retries != 0 || r.Statuses["200"] != 60 {
		t.Errorf("%d requests, errors %v, %d retries, statuses %v", r.Requests, r.Errors, r.Retries, r.Statuses)
	}
}

// A version of TLS that the server does not support is reported; one that both support works.
func TestHTTPSVersions(t *testing.T) {
	target := webServer(t, "tls", func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.Version != tls.VersionTLS12 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	target.TLS.MaxVersion = tls.VersionTLS12
	checkAnswered(t, measured(t, Plan{Target: target, Conns: 2, Requests: 10}), 2)
	s := httptest.NewUnstartedServer(handlers()["length"])
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	s.StartTLS()
	defer s.Close()
	e := faultOf(t, runPlan(t, context.Background(), Plan{Target: codec.HTTP{URL: s.URL, TLS: target.TLS}, For: time.Second}).err)
	checkLine(t, e, "TLS 1.2 or 1.3")
}

// A client certificate is sent to a server that requires one.
func TestHTTPSWithACertificate(t *testing.T) {
	sideBySide(t)
	s := httptest.NewUnstartedServer(handlers()["length"])
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	target := codec.HTTP{URL: s.URL, TLS: &tls.Config{RootCAs: roots, Certificates: s.TLS.Certificates}}
	checkAnswered(t, measured(t, Plan{Target: target, Conns: 2, Requests: 300}), 2)
	target.TLS = &tls.Config{RootCAs: roots}
	o := runPlan(t, context.Background(), Plan{Target: target, Conns: 2, For: time.Minute, Timeout: 500 * time.Millisecond})
	if e := faultOf(t, o.err); e.Kind != Closed && e.Kind != Unreachable {
		t.Errorf("without a certificate: %v", e)
	}
}

// A handler's known delays appear in the results. They are never shorter; the upper bound is
// checked when the generator reports no disturbance.
func TestHTTPTellsTheTruth(t *testing.T) {
	const least, most = 100 * time.Millisecond, 500 * time.Millisecond
	const golden = 0.6180339887498949 // its multiples, modulo 1, are evenly spread
	var n atomic.Int64
	target := webServer(t, "tcp", func(http.ResponseWriter, *http.Request) {
		part := golden * float64(n.Add(1))
		<-time.After(least + time.Duration((part-float64(int64(part)))*float64(most-least)))
	})
	p := Plan{Target: target, Conns: 128, Rate: 200, Warmup: 600 * time.Millisecond, For: 1500 * time.Millisecond, MaxLag: 10 * time.Millisecond}
	var r *Result
	for again := 0; ; again++ {
		if r = measured(t, p); r.Valid || again == 3 {
			break
		}
		t.Logf("measured again: %q", r.InvalidReasons)
	}
	for _, row := range []struct {
		name string
		q    float64
		got  *float64
	}{{"p50", 0.5, r.Latency.P50}, {"p90", 0.9, r.Latency.P90}, {"p99", 0.99, r.Latency.P99}} {
		want := least + time.Duration(row.q*float64(most-least))
		off := microseconds(row.got) - want
		t.Logf("%s %v, computed %v", row.name, microseconds(row.got), want)
		if off < -want/10 || off > want/10 && r.Valid {
			t.Errorf("%s is %v, computed %v", row.name, microseconds(row.got), want)
		}
	}
}

// speaks makes a server that reads a request's head and then calls say.
func speaks(say func(nc net.Conn)) func(net.Conn) {
	return func(nc net.Conn) {
		if awaitHead(nc) == nil {
			say(nc)
		}
	}
}

// awaitHead reads up to an empty line.
func awaitHead(nc net.Conn) error {
	one, last := make([]byte, 1), ""
	for !strings.HasSuffix(last, "\r\n\r\n") {
		if _, err := nc.Read(one); err != nil {
			return err
		}
		last += string(one)
	}
	return nil
}

// text sends s and keeps the connection open until the client closes it.
func text(s string) func(net.Conn) {
	return func(nc net.Conn) {
		io.WriteString(nc, s)
		io.Copy(io.Discard, nc)
	}
}

// forever sends the same again and again.
func forever(first, again string, pause time.Duration) func(net.Conn) {
	return func(nc net.Conn) {
		if _, err := io.WriteString(nc, first); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(nc, again); err != nil {
				return
			}
			if pause > 0 {
				<-time.After(pause)
			}
		}
	}
}

func hostilesOfHTTP() (all []hostile) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, h := range []hostile{
		{name: "slow loris", serve: speaks(forever(ok, "X", 10*time.Millisecond)), kind: codec.Silent, try: "time-out"},
		{name: "header bomb", serve: speaks(forever(ok, "X: "+strings.Repeat("y", 1000)+"\r\n", 0)), kind: codec.Garbage, try: "protocol"},
		{name: "one long header", serve: speaks(forever(ok+"X: ", strings.Repeat("y", 1000), 0)), kind: codec.Garbage, try: "protocol"},
		{name: "endless hints", serve: speaks(forever("", "HTTP/1.1 103 Early Hints\r\n\r\n", 0)), kind: codec.Garbage, try: "protocol"},
		{name: "endless chunks", serve: speaks(forever(ok+"Transfer-Encoding: chunked\r\n\r\n", "1000\r\n"+strings.Repeat("y", 0x1000)+"\r\n", 0)), kind: codec.Garbage, try: "limit"},
		{name: "endless trailer", serve: speaks(forever(ok+"Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n", 0)), kind: codec.Garbage, try: "protocol"},
		{name: "endless body", serve: speaks(forever(ok+"\r\n", strings.Repeat("y", 1000), 0)), kind: codec.Garbage, try: "limit"},
		{name: "claims too much", serve: speaks(text(ok + "Content-Length: 999999999999\r\n\r\n")), kind: codec.Garbage, try: "limit"},
		{name: "claims too much in a chunk", serve: speaks(text(ok + "Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n")), kind: codec.Garbage, try: "limit"},
		{name: "chunk size overflow", serve: speaks(text(ok + "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\n")), kind: codec.Garbage, try: "protocol"},
		{name: "length and chunks", serve: speaks(text(ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), kind: codec.Garbage, try: "protocol"},
		{name: "negative length", serve: speaks(text(ok + "Content-Length: -5\r\n\r\n")), kind: codec.Garbage, try: "protocol"},
		{name: "two lengths", serve: speaks(text(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n")), kind: codec.Garbage, try: "protocol"},
		{name: "one length twice", serve: speaks(text(ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello")), kind: codec.Garbage, try: "protocol"},
		{name: "garbage", serve: speaks(text("SSH-2.0-OpenSSH_9.2\r\n")), kind: codec.Garbage, try: "HTTP server"},
		{name: "TLS", serve: speaks(text("\x15\x03\x01\x00\x02\x02\x46")), kind: codec.Garbage, try: "https://"},
		{name: "HTTP/2", serve: speaks(text("\x00\x00\x12\x04\x00\x00\x00\x00\x00")), kind: codec.Garbage, try: "HTTP/2"},
		{name: "switches", serve: speaks(text("HTTP/1.1 101 Switching Protocols\r\n\r\n")), kind: codec.Garbage, try: "protocol"},
		{name: "answers first", serve: text(strings.Repeat(ok+"Content-Length: 0\r\n\r\n", 2)), kind: codec.WrongID, try: "once"},
		{name: "answers twice", serve: speaks(text(strings.Repeat(ok+"Content-Length: 0\r\n\r\n", 2))), kind: codec.WrongID, try: "once"},
		{name: "hangs in a head", serve: speaks(text(ok + "Content-Le")), kind: codec.Silent, try: "time-out"},
		{name: "hangs in a body", serve: speaks(text(ok + "Content-Length: 50\r\n\r\nhello")), kind: codec.Silent, try: "time-out"},
		{name: "hangs in a chunk", serve: speaks(text(ok + "Transfer-Encoding: chunked\r\n\r\n50\r\nhello")), kind: codec.Silent, try: "time-out"},
		{name: "closes in a body", serve: speaks(func(nc net.Conn) { io.WriteString(nc, ok+"Content-Length: 50\r\n\r\nhello") }), kind: Closed, try: "log"},
		{name: "closes in a chunk", serve: speaks(func(nc net.Conn) { io.WriteString(nc, ok+"Transfer-Encoding: chunked\r\n\r\n50\r\nhello") }), kind: Closed, try: "log"},
		{name: "closes in a head", serve: speaks(func(nc net.Conn) { io.WriteString(nc, ok+"Content-") }), kind: Closed, try: "log"},
		{name: "closes instead of an answer", serve: speaks(func(net.Conn) {}), kind: Closed, try: "log"},
	} {
		h.target = func(address string) codec.Target { return codec.HTTP{URL: "http://" + address, AnswerLimit: 1 << 20} }
		h.name, h.plan, h.open = "HTTP "+h.name, Plan{Conns: 2, Ramp: 50}, 100
		all = append(all, h)
	}
	return all
}

// A request is sent again once, and not if a part of its answer has come.
func TestHTTPSendsAgainOnce(t *testing.T) {
	sideBySide(t)
	for said, again := range map[string]int64{"": 1, "HTTP/1.1": 0, "HTTP/1.1 200 OK\r\n": 0} {
		address := serveWith(t, "tcp", speaks(func(nc net.Conn) { io.WriteString(nc, said) })).Address
		r := measured(t, Plan{Target: codec.HTTP{URL: "http://" + address}, MaxLag: time.Hour, AllowErrors: true, For: time.Second, Warmup: -1, Timeout: patience / 2})
		if n := r.Requests; n == 0 || r.Errors["closed"] < n-1 || r.Retries < (n-1)*again || r.Retries > (n+1)*again {
			t.Errorf("after %q: %d retries of %d requests, errors %v", said, r.Retries, r.Requests, r.Errors)
		}
	}
}

// A request that the server answers by closing the connection is retried once if it is idempotent,
// and fails otherwise.
func TestHTTPSendsAgainWhatMayBe(t *testing.T) {
	sideBySide(t)
	address := serveWith(t, "tcp", speaks(func(nc net.Conn) {
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		awaitHead(nc)
	})).Address
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, rate := range []float64{0, 200} {
			r := measured(t, Plan{
				Target: codec.HTTP{URL: "http://" + address, Method: method}, Rate: rate, Requests: 40, MaxLag: time.Second, AllowErrors: true, Timeout: patience / 2,
			})
			failed, again := r.Errors["closed"], r.Retries
			if method == http.MethodPost {
				failed, again = again, failed
			}
			if failed != 0 || again < r.Requests/2-1 || again > r.Requests || r.Reconnects < again-1 {
				t.Errorf("%s: %d requests, %d again, %d reconnects, errors %v", method, r.Requests, r.Retries, r.Reconnects, r.Errors)
			}
			if r.Requests != 40 {
				t.Errorf("%s: %d requests, want each of them once", method, r.Requests)
			}
		}
	}
}

// usualAnswer is an answer of net/http's server.
const usualAnswer = "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 23:00:00 GMT\r\nContent-Length: 13\r\n\r\nHello, World!"

// A request and its answer allocate nothing, even if it fails.
func TestHTTPAllocatesNothing(t *testing.T) {
	const depth = 16
	for name, answer := range map[string]string{
		"good":    usualAnswer,
		"failed":  strings.Replace(usualAnswer, "200 OK", "503 No", 1),
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		p := must[Plan](t)(Plan{Target: codec.HTTP{URL: "http://h"}, Depth: depth, For: time.Hour}.complete())
		r := newRun(p)
		r.counters[0].window = window{0, int64(time.Hour)}
		c := newConn(r, 0, swallow{})
		c.begin(r.now())
		in := []byte(strings.Repeat(answer, depth))
		if n := testing.AllocsPerRun(200, func() {
			if used, _, err := c.arrived(in, r.now()); err != nil || used != len(in) {
				t.Fatal(used, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for %d answers, want none", name, n, depth)
		}
		if n := r.counters[0].now.Latency.TotalCount(); n != 201*depth {
			t.Errorf("%s: %d answers counted, want %d", name, n, 201*depth)
		}
	}
}
