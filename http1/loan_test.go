package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// run runs a test on every engine.
func run(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
	overTLS(t, test)
}

// serving is a server under test and its address.
type serving struct {
	*Server
	addr   string
	served chan error
}

// serve starts s, and stops it when the test ends.
func serve(t *testing.T, s *Server) *serving {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, onTLS(t, ln))
}

func serveOn(t *testing.T, s *Server, ln net.Listener) *serving {
	r := &serving{s, ln.Addr().String(), make(chan error, 1)}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler) // faults are often intended
	}
	go func() { r.served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		select {
		case err := <-r.served:
			if err != http.ErrServerClosed {
				t.Errorf("Serve returned %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve has not returned after Close")
		}
	})
	return r
}

// dial connects to the server with a deadline of a minute.
func (s *serving) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}

// say writes text.
func say(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
}

// readAnswer reads a response and returns its status and body.
func readAnswer(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

// echo answers with a description of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %q %v", r.Method, r.URL, body, err)
}

// plain is net/http itself on a listener of its own.
func plain(t testing.TB, std *http.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go std.Serve(ln)
	t.Cleanup(func() { std.Close() })
	return ln.Addr().String()
}

// talk sends parts one by one, each after the peer's kernel has received the previous one,
// half-closes, and returns all answers without their dates.
func talk(t *testing.T, addr string, parts ...string) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	for _, part := range parts {
		if _, err := io.WriteString(nc, part); err != nil {
			break // the server has closed it
		}
	}
	nc.(*net.TCPConn).CloseWrite()
	all, err := io.ReadAll(nc)
	if err != nil && !errors.Is(err, net.ErrClosed) && len(all) == 0 {
		t.Logf("after %d bytes: %v", len(all), err)
	}
	return undated(string(all))
}

// undated returns answers without their Date lines.
func undated(answers string) string {
	var b strings.Builder
	for line := range strings.Lines(answers) {
		if !strings.HasPrefix(line, "Date: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

const chunked = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"

// conversations are the bytes that clients send on one connection.
var conversations = []struct{ name, sent string }{
	{"chunked", chunked},
	{"chunked, then pipelined", chunked + getting("/1") + chunked + getting("/2") + "PUT /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy" + getting("/4")},
	{"stray line end after a POST", chunked + "\r\n" + getting("/1") + getting("/2")},
	{"stray line ends after a POST", chunked + "\r\n\r\n" + getting("/1")},
	{"too many line ends after a POST", chunked + "\r\n\r\n\r\n" + getting("/1")},
	{"line end after a GET", getting("/1") + "\r\n" + getting("/2")},
	{"line end after a chunked PUT", strings.Replace(chunked, "POST", "PUT", 1) + "\r\n" + getting("/1")},
	{"line end after a small POST", "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy\r\n" + getting("/2")},
	{"one byte more", chunked + "G"},
	{"two bytes more", chunked + "GE"},
	{"three bytes more", chunked + "GET"},
	{"garbage after a good one", chunked + "nonsense\r\n\r\n" + getting("/1")},
	{"old", "GET /1 HTTP/1.0\r\n\r\n" + getting("/2")},
	{"old and kept", "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + getting("/3")},
	{"old, then half a line end", "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\n"},
	{"three bytes after a good one", getting("/1") + "\r\nX"},
	{"trailers", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n" + getting("/1")},
	{"expect", "POST /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nxy" + getting("/2")},
	{"expect something else", "POST /1 HTTP/1.1\r\nHost: a\r\nExpect: a miracle\r\nContent-Length: 2\r\n\r\nxy" + getting("/2")},
	{"two lengths", "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nxyz" + getting("/2")},
	{"a length, and chunks", "POST /last HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + getting("/2")},
	{"chunks, and a length", "PUT /last HTTP/1.1\nHost: a\nTransfer-Encoding:\n chunked\ncontent-length: 4\n\n0\r\n\r\n" + getting("/2")},
	{"a length within chunks", "PUT /1 HTTP/1.1\r\nHost: a\r\nX-Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n11\r\nContent-Length: 4\r\n0\r\n\r\n" + getting("/2")},
	{"no host", "GET /1 HTTP/1.1\r\n\r\n" + getting("/2")},
	{"unread", "POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + getting("/2")},
	{"options", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n" + getting("/1")},
	{"bare line feeds", "GET /1 HTTP/1.1\nHost: a\n\n" + getting("/2")},
}

func getting(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n" }

// some reads the body, except for /unread.
func some(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/unread" {
		io.WriteString(w, "unread")
		return
	}
	echo(w, r)
}

// Whatever a client sends, and however it is split, the answers are those of net/http, but that the
// connection ends behind chunks with a length beside them.
func TestConversationsMatchNetHTTP(t *testing.T) {
	t.Parallel()
	oracle := plain(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/last" {
			w.Header().Set("Connection", "close")
		}
		some(w, r)
	})})
	wants := make([]string, len(conversations))
	for i, c := range conversations {
		wants[i] = talk(t, oracle, c.sent)
	}
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(some)})
		for i, c := range conversations {
			if got := talk(t, s.addr, c.sent); got != wants[i] {
				t.Errorf("%s: got\n%s\nnet/http answers\n%s", c.name, got, wants[i])
			}
			step := testrun.Sized(40, 1)
			for at := 1 + i%step; at < len(c.sent); at += step {
				if got := splitTalk(t, s, c.sent, at); got != wants[i] {
					t.Fatalf("%s, split at %d: got\n%s\nnet/http answers\n%s", c.name, at, got, wants[i])
				}
			}
		}
	})
}

// splitTalk sends text in two parts, the second after the server has read the first.
func splitTalk(t *testing.T, s *serving, text string, at int) string {
	t.Helper()
	nc := s.dial(t)
	defer nc.Close()
	before := s.Stats().BytesIn
	say(t, nc, text[:at])
	for end := time.Now().Add(20 * time.Millisecond); s.Stats().BytesIn < before+uint64(at) && time.Now().Before(end); {
		runtime.Gosched() // it may also have stopped reading
	}
	io.WriteString(nc, text[at:]) // the server may have closed
	nc.CloseWrite()
	all, _ := io.ReadAll(nc)
	return undated(string(all))
}

// If each request is sent after the previous answer has arrived, the connection is lent and
// taken back each time.
func TestLoansComeBack(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(echo)})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		for i := range 20 {
			say(t, nc, chunked)
			if got := readAnswer(t, r); got != `200 POST /up "abc" <nil>` {
				t.Fatalf("answer %d: %s", i, got)
			}
		}
		await(t, "the loans' end", func() bool { return s.Stats().OpenLoans == 0 })
		if st := s.Stats(); st.Loans != 20 || st.Accepted != 1 || st.Requests != 20 {
			t.Errorf("%d loans, %d connections, %d requests; want 20, 1 and 20", st.Loans, st.Accepted, st.Requests)
		}
	})
}

// Which method the last request of a loan will have is guessed from the first, after the line
// ends that net/http drops there: after a POST, among 4 bytes. If the guess is wrong, the
// connection stays lent.
func TestGuessOfTheLastMethod(t *testing.T) {
	const afterGet, afterPost = stateServed, stateServed | statePosted
	for _, c := range []struct {
		state uint64
		in    string
		posts bool
	}{
		{0, "POST /", true},
		{0, "PUT /", false},
		{afterPost, "PUT /", false},
		{afterPost, "\r\nPOST /", true},
		{afterPost, "\r\n\r\nPOST /", true},
		{afterPost, "\r\n\r\n\nPOST /", false},
		{afterPost, "\r\nPUT /", false},
		{afterPost, "\r\n", false},
		{afterGet, "\r\nPOST /", false},
	} {
		turn := engine.Turn{State: c.state}
		new(Server).leave(&turn, []byte(c.in)) // takes over nothing: there is no engine
		if posts := turn.State&statePosted != 0; posts != c.posts {
			t.Errorf("%q in state %b: guessed that a POST is last: %v", c.in, c.state, posts)
		}
	}
}

// Line ends are dropped after a POST and after no other request, whoever serves the next one:
// here after a loan whose last request is not always of the method with which it began.
func TestLineEndsAfterALoan(t *testing.T) {
	put := strings.Replace(chunked, "POST", "PUT", 1)
	statuses := func(t *testing.T, addr string) (all []int) {
		for _, loan := range []string{put + chunked, chunked + put, chunked + chunked, put + put} {
			nc := (&serving{addr: addr}).dial(t)
			r := bufio.NewReader(nc)
			say(t, nc, loan)
			readAnswer(t, r)
			readAnswer(t, r)
			say(t, nc, "\r\n"+getting("/1"))
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			all = append(all, resp.StatusCode)
		}
		return all
	}
	want := statuses(t, plain(t, &http.Server{Handler: http.HandlerFunc(echo)}))
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(echo)})
		if got := statuses(t, s.addr); !slices.Equal(got, want) {
			t.Errorf("statuses %v, want those of net/http, %v", got, want)
		}
	})
}

// await polls until a condition holds that has no event to wait for.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// If net/http asks for more in a different way, its connections stay lent and lose nothing.
func TestLoanStaysIfNetHTTPDiffers(t *testing.T) {
	if !comesBack() {
		t.Fatal("this net/http does not ask for more as loans expect; see loan.go")
	}
	s := serve(t, &Server{Engine: engine.Buffered(0), Handler: http.HandlerFunc(echo)})
	await(t, "the start", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.lending })
	s.lender.returns = false
	nc := s.dial(t)
	r := bufio.NewReader(nc)
	for range 3 {
		say(t, nc, chunked+getting("/1"))
		if got := readAnswer(t, r) + readAnswer(t, r); got != `200 POST /up "abc" <nil>200 GET /1 "" <nil>` {
			t.Fatal(got)
		}
	}
	if st := s.Stats(); st.Loans != 1 || st.OpenLoans != 1 {
		t.Errorf("%d loans, %d open; want one that stays", st.Loans, st.OpenLoans)
	}
}

// A handler may hijack a lent connection, and use it in both directions.
func TestHijackOfALoan(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			nc, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer nc.Close()
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				io.Copy(nc, rw)
				nc.(interface{ CloseWrite() error }).CloseWrite()
			}()
		})})
		nc := s.dial(t)
		say(t, nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
		r := bufio.NewReader(nc)
		want := "HTTP/1.1 101 Switching Protocols\r\n\r\nearly "
		read := make([]byte, len(want))
		if _, err := io.ReadFull(r, read); err != nil || string(read) != want {
			t.Fatalf("%q, %v", read, err)
		}
		say(t, nc, "and late")
		nc.CloseWrite()
		if rest, err := io.ReadAll(r); err != nil || string(rest) != "and late" {
			t.Fatalf("%q, %v", rest, err)
		}
		await(t, "the loan's end", func() bool { return s.Stats().OpenLoans == 0 && s.Stats().Open == 0 })
	})
}

// A client that disconnects cancels the context of a handler that net/http runs.
func TestDisconnectCancelsOnLoan(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		begun, ended := make(chan struct{}), make(chan error, 1)
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			close(begun)
			select {
			case <-r.Context().Done():
				ended <- r.Context().Err()
			case <-time.After(10 * time.Second):
				ended <- errors.New("the context did not end")
			}
		})})
		nc := s.dial(t)
		say(t, nc, chunked)
		<-begun
		nc.Close()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
}

// A deadline that a handler has set does not fire after the loan.
func TestDeadlinesEndWithTheLoan(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/up" {
				io.Copy(io.Discard, r.Body)
				c := http.NewResponseController(w)
				c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			}
			io.WriteString(w, "fine")
		})})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		for range 3 {
			say(t, nc, chunked)
			if got := readAnswer(t, r); got != "200 fine" {
				t.Fatal(got)
			}
			<-time.After(25 * time.Millisecond) // the rest of the deadline would have passed by now
		}
	})
}

// Random requests, split anywhere, get net/http's answers.
func FuzzConversations(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06"), uint16(5), uint16(30))
	f.Add([]byte("\x03\x03\x00\x05\x05\x03"), uint16(70), uint16(77))
	f.Add([]byte("\x02\x06\x01\x01\x04"), uint16(0), uint16(9999))
	f.Add([]byte("\x07\x00\x08\x00\x09\x00\x0a"), uint16(100), uint16(200))
	oracle := plain(f, &http.Server{Handler: http.HandlerFunc(some)})
	var servers []*serving
	for _, e := range engine.All() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.Fatal(err)
		}
		s := &Server{Engine: e, Handler: http.HandlerFunc(some)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		f.Cleanup(func() { s.Close(); <-served })
		servers = append(servers, &serving{s, ln.Addr().String(), served})
	}
	const malformed = "GET\r\n"
	pieces := []string{
		getting("/1"), chunked, "PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		strings.Replace(chunked, "POST", "PUT", 1), "GET /0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "\r\n",
		"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70_000),
		strings.Replace(chunked, "/up", "/unread", 1),
		"POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nz",
		"HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n", malformed,
	}
	f.Fuzz(func(t *testing.T, list []byte, first, second uint16) {
		var b strings.Builder
		last := ""
		for _, c := range list[:min(len(list), 8)] {
			piece := pieces[int(c)%len(pieces)]
			b.WriteString(piece)
			if piece == malformed || piece == "\r\n" && !strings.HasPrefix(last, "POST ") {
				break // net/http refuses it without reading the rest, and the reset may overtake its answers
			}
			last = piece
		}
		all := b.String()
		i := min(int(first), len(all))
		k := min(i+int(second), len(all))
		want := talk(t, oracle, all)
		for at, s := range servers {
			if got := talk(t, s.addr, all[:i], all[i:k], all[k:]); got != want {
				t.Errorf("%s: got\n%s\nnet/http answers\n%s", engine.All()[at].Name(), got, want)
			}
		}
	})
}

// Up to 256 KiB of a body that the handler has not read are discarded; more of it closes the
// connection.
func TestUnreadBodyOnLoan(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(some)})
		for _, size := range []int{100_000, 400_000} {
			nc := s.dial(t)
			r := bufio.NewReader(nc)
			go fmt.Fprintf(nc, "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s%s", size, strings.Repeat("x", size), getting("/1"))
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "unread" || err != nil || resp.Close != (size > 256<<10) {
				t.Errorf("%d bytes: read %q, %v, close %v", size, body, err, resp.Close)
			}
			if !resp.Close {
				if got := readAnswer(t, r); got != `200 GET /1 "" <nil>` {
					t.Error(got)
				}
			}
			nc.Close()
		}
	})
}

// awkwardHeads are heads without an end, of about n bytes, of which net/http holds much.
var awkwardHeads = []struct {
	name string
	head func(n int) string
}{
	{"one line", func(n int) string { return "X: " + strings.Repeat("x", n) }},
	{"lines of 100 bytes", func(n int) string { return lines(n, "Name-%06x: "+strings.Repeat("x", 85)+"\r\n") }},
	{"short lines", func(n int) string { return lines(n, "%x:\n") }},
	{"one name", func(n int) string { return strings.Repeat("a:xx\n", n/5) }},
	{"folded", func(n int) string { return strings.Repeat("a:xx\n \n", n/7) }},
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := 1 << 12; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// The size of a head ends with its empty line, however it is split.
func TestHeadSize(t *testing.T) {
	for _, c := range []struct {
		head, rest string
		lines      int
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "body\n\n", 3},
		{"GET / HTTP/1.1\nHost: a\n\n", "", 3},
		{"\r\n\r\nGET / HTTP/1.1\r\na:\n \n\t\r\n\r\n", "\n", 7},
		{"GET / HTTP/1.1\r\n\r", "", 1},
	} {
		all := c.head + c.rest
		for i := range len(all) + 1 {
			for k := i; k <= len(all); k++ {
				var h headSize
				for _, part := range []string{all[:i], all[i:k], all[k:]} {
					h.add([]byte(part))
				}
				if h.bytes != len(c.head) || h.lines != c.lines || h.over != strings.HasSuffix(c.head, "\n") {
					t.Fatalf("%q split at %d and %d: %+v", all, i, k, h)
				}
			}
		}
	}
}

// What net/http holds of a head counts in Limits.TotalInput.
func TestHeldHeads(t *testing.T) { // not parallel: it measures the heap
	if testrun.Race {
		t.Skip("the race detector uses memory of its own")
	}
	const conns, perConn = 8, 64 << 10 // both ends of a connection, without its head, and a server's share
	for _, c := range awkwardHeads {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{8 << 10, 200_000} {
				std := &http.Server{Handler: http.HandlerFunc(echo)}
				limitFields(std, math.MaxInt32)
				s := serve(t, &Server{Std: std})
				head := "GET / HTTP/1.1\nHost: a\n" + c.head(size)
				before := heap()
				var all []net.Conn
				for range conns {
					nc := s.dial(t)
					say(t, nc, head)
					all = append(all, nc)
				}
				await(t, "the heads", func() bool { return s.Stats().BytesIn == uint64(conns*len(head)) })
				var counted int
				await(t, "net/http", func() bool { // it has been given the last bytes, and may still be reading them
					counted = int(s.Stats().InputMemory)
					return heap()-before <= counted+conns*perConn
				})
				if c.name == "one line" && counted > conns*len(head)*3/2 {
					t.Errorf("%d bytes count as %d", conns*len(head), counted)
				}
				for _, nc := range all {
					say(t, nc, "\r\n\r\n")
					readAnswer(t, bufio.NewReader(nc))
				}
				await(t, "the loans' end", func() bool { return s.Stats().OpenLoans == 0 && s.Stats().InputMemory == 0 })
				runtime.KeepAlive(all)
			}
		})
	}
}

// A head on loan counts while its body is awaited, and no longer: what a handler makes of a
// request is its own affair.
func TestHeadCountsUntilItsBodyIsComplete(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		read, end := make(chan struct{}), make(chan struct{})
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/slow" {
				close(read)
				<-end
			}
		})})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		for range 2 {
			say(t, nc, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: "+strings.Repeat("x", 30_000)+"\r\n\r\n3\r\na")
			await(t, "the head", func() bool { in := s.Stats().InputMemory; return 30_000 < in && in < 60_000 })
			say(t, nc, "bc\r\n0\r\n\r\n")
			readAnswer(t, r)
			await(t, "the request", func() bool { return s.Stats().InputMemory == 0 })
		}
		say(t, nc, "GET /slow HTTP/1.0\r\nX: "+strings.Repeat("x", 30_000)+"\r\n\r\n")
		<-read
		await(t, "the request", func() bool { return s.Stats().InputMemory == 0 })
		close(end)
		readAnswer(t, r)
	})
}

// Heads that together exceed Limits.TotalInput end their connections, and others are served.
func TestHeadsOnLoanKeepToTheInputBudget(t *testing.T) {
	t.Parallel() // it waits
	run(t, func(t *testing.T, e engine.Engine) {
		const budget, conns, size = 4 << 20, 40, 300_000
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(echo), Limits: engine.Limits{TotalInput: budget, LingerTime: 60 * time.Millisecond}})
		var all []net.Conn
		var sent sync.WaitGroup
		defer sent.Wait()
		for range conns {
			nc := s.dial(t)
			all = append(all, nc)
			sent.Go(func() {
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n"+awkwardHeads[0].head(size)) // the server may close it meanwhile
			})
		}
		await(t, "refusals", func() bool {
			st := s.Stats()
			if st.InputMemory > budget {
				t.Errorf("%d bytes counted, of %d", st.InputMemory, budget)
			}
			return st.Ended[engine.InputBudget] >= conns-budget/size
		})
		nc := s.dial(t)
		say(t, nc, "GET /1 HTTP/1.0\r\n\r\n")
		if got := readAnswer(t, bufio.NewReader(nc)); got != `200 GET /1 "" <nil>` {
			t.Errorf("another client got %q", got)
		}
		for _, nc := range all {
			nc.Close()
		}
		await(t, "the end", func() bool { return s.Stats().Open == 0 })
		if in := s.Stats().InputMemory; in != 0 {
			t.Errorf("%d bytes are still counted", in)
		}
	})
}

// A client whose head finds no room is told so, unless the sweeper has cut it off already.
func TestHeadOnLoanWithoutRoom(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		std := &http.Server{Handler: http.HandlerFunc(echo)}
		limitFields(std, math.MaxInt32)
		s := serve(t, &Server{Engine: e, Std: std, Limits: engine.Limits{TotalInput: 32 << 10}})
		const want = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n503 Service Unavailable: no memory for this request"
		told := false
		for tried := uint64(1); !told && tried <= 10; tried++ {
			nc := s.dial(t)
			var sent sync.WaitGroup
			sent.Go(func() {
				io.WriteString(nc, "GET / HTTP/1.0\r\n"+lines(1<<20, "%x:\n")) // more than the server reads before it refuses
				nc.CloseWrite()
			})
			answer, _ := io.ReadAll(nc)
			nc.Close()
			sent.Wait()
			if told = string(answer) == want; !told && len(answer) > 0 {
				t.Errorf("%q", answer)
			}
			await(t, "the end", func() bool { return s.Stats().Open == 0 })
			if st := s.Stats(); st.Ended[engine.InputBudget] != tried || st.InputMemory != 0 {
				t.Errorf("%d bytes are still counted; %v", st.InputMemory, st.Ended)
			}
		}
		if !told {
			t.Error("no client was told")
		}
	})
}

// heap is how many bytes are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A verdict that falls between two reads of a lent body ends the next one at once.
func TestAbortBetweenTwoReads(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		entered, goOn := make(chan struct{}), make(chan struct{})
		failed := make(chan error, 1)
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{FrameTime: time.Hour}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one := make([]byte, 1)
			r.Body.Read(one)
			close(entered)
			<-goOn
			_, err := r.Body.Read(one)
			failed <- err
		})})
		say(t, s.dial(t), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		<-entered
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.engine.Shutdown(ctx) // ends what is left, as Forced
		close(goOn)
		select {
		case err := <-failed:
			if err == nil {
				t.Error("the next read succeeded")
			}
		case <-time.After(20 * time.Second):
			t.Error("the next read waits")
		}
	})
}
