package http1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// lastRequest is sent after the request of a case: whether it is answered shows whether the connection
// stayed open, and in the right place.
const lastRequest = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// requirements are cases for internal/lint/requirements.txt, which names them. statuses has 200 for
// lastRequest at its end where the connection stays open.
var requirements = []struct {
	name, sent string
	statuses   string
	has        string // a pattern of what is answered
	hasNot     string
}{
	{"empty line before the request, as net/http", "\r\nGET /method HTTP/1.1\r\nHost: a\r\n\r\n", "400", "", ""},
	{"bare CR in a field", "GET /method HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "400", "", ""},
	{"white space before the first field", "GET /method HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n", "400", "", ""},
	{"version 1.0 is answered without chunks", "GET /flush HTTP/1.0\r\nHost: a\r\n\r\n", "200", "\r\n\r\nab$", "(?i)transfer-encoding"},
	{"version 2.0", "GET /method HTTP/2.0\r\nHost: a\r\n\r\n", "505", "", ""},
	{"methods are case-sensitive", "get /method HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "\r\n\r\nget a", ""},
	{"no Host", "GET /method HTTP/1.1\r\n\r\n", "400", "", ""},
	{"two Hosts", "GET /method HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400", "", ""},
	{"invalid Host", "GET /method HTTP/1.1\r\nHost: a b\r\n\r\n", "400", "", ""},
	{"absolute target replaces Host", "GET http://b/method HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "\r\n\r\nGET b", ""},
	{"OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "", ""},
	{"invalid request line", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400", "", ""},
	{"status line without a reason has its space", "GET /299 HTTP/1.1\r\nHost: a\r\n\r\n", "299 200", "^HTTP/1.1 299 ", ""},
	{"white space before a colon", "GET /method HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "400", "", ""},
	{"white space round a value", "GET /x HTTP/1.1\r\nHost: a\r\nX: \t b \t\r\n\r\n", "200 200", "\r\n\r\n<b>", ""},
	{"folded field", "GET /x HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "200 200", "\r\n\r\n<a b>", ""},
	{"chunked body", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n", "200 200", "\r\n\r\nabcd", ""},
	{"unknown transfer coding", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501", "", ""},
	{"chunked is not last", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "501", "", ""},
	{"both lengths: chunks win, and the connection ends", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "200", "\r\nConnection: close\r\n", ""},
	{"invalid length", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", "400", "", ""},
	{"lengths that differ", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "400", "", ""},
	{"chunk length overflows", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", "400", "", ""},
	{"chunk extension too long", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 20<<10) + "\r\na\r\n0\r\n\r\n", "400", "", ""},
	{"trailer is not merged into the head", "POST /trailer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: b\r\n\r\n", "200 200", "\r\n\r\n<>", ""},
	{"line end in a value that is sent", "GET /split HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "\r\nX: a  Injected: b\r\n", ""},
	{"body that is not read", "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "200 200", "", ""},
	{"pipelined", "GET /x HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\nX: 2\r\n\r\n", "200 200 200", "(?s)<1>.*<2>", ""},
	{"close is obeyed", "GET /method HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200", "Connection: close", ""},
	{"1.0 closes", "GET /method HTTP/1.0\r\nHost: a\r\n\r\n", "200", "", ""},
	{"HEAD has no content", "HEAD /method HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "^HTTP/1.1 200 OK\r\n(?:[^\r]+\r\n)+\r\nHTTP/1.1 200", ""},
	{"204 has no length", "GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", "204 200", "^HTTP/1.1 204 No Content\r\nDate: [^\r]+\r\n\r\nHTTP/1.1 200", ""},
	{"304 has no content", "GET /304 HTTP/1.1\r\nHost: a\r\n\r\n", "304 200", "^HTTP/1.1 304 Not Modified\r\n(?:[^\r]+\r\n)+\r\nHTTP/1.1 200", ""},
	{"Date", "GET /method HTTP/1.1\r\nHost: a\r\n\r\n", "200 200", "\r\nDate: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \\d\\d \\w{3} \\d{4} \\d\\d:\\d\\d:\\d\\d GMT\r\n", ""},
	{"100 before the body is read", "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "100 200 200", "\r\n\r\nabc", ""},
	{"no 100 for 1.0", "POST /echo HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "200", "\r\n\r\nabc", ""},
	{"unknown expectation", "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 3\r\n\r\nabc", "417", "", ""},
	{"405 has Allow", "PUT /last HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405 200", "\r\nAllow: GET, HEAD\r\n", ""},
	{"103 before the answer", "GET /hints HTTP/1.1\r\nHost: a\r\n\r\n", "103 200 200", "\r\nLink: a\r\n", ""},
	{"103 for 1.0, as net/http", "GET /hints HTTP/1.0\r\nHost: a\r\n\r\n", "103 200", "", ""},
	{"more content than the length", "GET /long HTTP/1.1\r\nHost: a\r\n\r\n", "200", "\r\n\r\nab$", ""},
	{"Upgrade that is not offered", "GET /method HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n", "200 200", "\r\n\r\nGET a", ""},
}

// TestRequirements sends each case on a connection of its own and reads to its end.
func TestRequirements(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/method", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", r.Method, r.Host) })
	mux.HandleFunc("/x", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "<%s>", r.Header.Get("X")) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Write(body)
	})
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "a")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "b")
	})
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "<%s>", r.Header.Get("X"))
	})
	mux.HandleFunc("/split", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", "a\r\nInjected: b") })
	mux.HandleFunc("/unread", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /last", func(w http.ResponseWriter, _ *http.Request) {})
	mux.HandleFunc("/204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("/299", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })
	mux.HandleFunc("/304", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"1"`)
		w.WriteHeader(304)
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "a")
		w.WriteHeader(103)
		w.WriteHeader(200)
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ab")
		io.WriteString(w, "c")
	})
	status := regexp.MustCompile(`HTTP/1\.[01] (\d{3}) `)
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			srv := &Server{Handler: mux, Engine: e}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(ln) }()
			defer func() {
				srv.Close()
				<-served
			}()
			for _, c := range requirements {
				t.Run(c.name, func(t *testing.T) {
					nc, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
					nc.SetDeadline(time.Now().Add(time.Minute))
					io.WriteString(nc, c.sent+lastRequest)
					answer, err := io.ReadAll(nc)
					var statuses []string
					for _, m := range status.FindAllSubmatch(answer, -1) {
						statuses = append(statuses, string(m[1]))
					}
					if got := strings.Join(statuses, " "); got != c.statuses {
						t.Errorf("answered with %s, want %s (%v)\n%s", got, c.statuses, err, answer)
					}
					if c.has != "" && !regexp.MustCompile(c.has).Match(answer) || c.hasNot != "" && regexp.MustCompile(c.hasNot).Match(answer) {
						t.Errorf("answered with %q, which should have %q and not %q", answer, c.has, c.hasNot)
					}
				})
			}
		})
	}
}
