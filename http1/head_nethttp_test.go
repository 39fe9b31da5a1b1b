package http1

import (
	"bytes"
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

var howManyMutants = flag.Int("http1.mutants", testrun.Sized(30_000, 200_000), "compare what this many mutated heads mean with net/http")

// headSeeds are valid and invalid heads, for the fuzzer and the mutants.
var headSeeds = []string{
	bareHead, curlHead, browserHead, browserHead + bareHead,
	"POST /submit HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello=world" + bareHead,
	"PUT /%7Euser/%E4%BD%A0 HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 0\r\n\r\n" + curlHead,
	"DELETE /a//b/../c;d=e?f=g&h=%zz#i HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nX-A:2\r\nx-A:\t3 \r\n\r\n",
	"HEAD /? HTTP/1.1\r\nHost:\r\nConnection: close\r\nPragma: no-cache\r\n\r\n",
	"GET /??a?b? HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nPragma: no-cache\r\nCache-Control: max-age=0\r\n\r\n",
	"PATCH /*!'() HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nCookie: a=b\r\nCookie: c=d\r\n\r\nabcdef",
	"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("long ", 900) + "\r\nY: z\r\n\r\n",

	"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\x00c\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: a\r\nX:\rTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Content-Length\r\nContent-Length: 3\r\n\r\nabc",
}

// TestEveryByte puts each byte into each part of a head.
func TestEveryByte(t *testing.T) {
	std := newStdServer(t)
	for _, part := range []string{
		"G\xffT / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a\xffb HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a%\xff1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a%2\xff HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /?a\xffb HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\xffb\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\na\xffb: c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nAccep\xff: c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nA: b\xffcdefghijkl\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\xff\r\n\r\n",
	} {
		var fasts int
		for c := range 256 {
			in := bytes.Replace([]byte(part), []byte{0xff}, []byte{byte(c)}, 1)
			var h head
			if h.parse(in) == fast {
				fasts++
				checkHead(t, &h, in)
				std.check(t, &h, in)
			}
		}
		if fasts < 10 {
			t.Errorf("%q: only %d bytes are fast", part, fasts)
		}
	}
}

// FuzzHeadAgainstNetHTTP checks that net/http's server accepts what the fast path accepts, and
// reads the same request.
func FuzzHeadAgainstNetHTTP(f *testing.F) {
	std := newStdServer(f)
	for _, s := range headSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var h head
		got := h.parse(in)
		if got == fast {
			checkHead(t, &h, in)
			std.check(t, &h, in)
		}
		checkPrefixes(t, &h, in, got)
	})
}

// checkPrefixes checks that the verdict on in does not depend on how its bytes arrive.
func checkPrefixes(t *testing.T, h *head, in []byte, whole verdict) {
	t.Helper()
	size := h.size
	var part head
	for i := 0; i < len(in); i += 1 + len(in)/500 {
		got := part.parse(in[:i])
		switch {
		case whole == fast && i < size && got != incomplete,
			whole == fast && i >= size && (got != fast || part.size != size),
			whole == incomplete && got != incomplete,
			whole == leave && got == fast:
			t.Fatalf("%q: verdict %d, but %d on %q", in, whole, got, in[:i])
		}
	}
}

// TestMutants compares with net/http how mutated heads are read. Of the default number about
// 20 000 are fast.
func TestMutants(t *testing.T) {
	std := newStdServer(t)
	var counts struct {
		sync.Mutex
		all, fast int
	}
	workers := runtime.GOMAXPROCS(0)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			random := rand.New(rand.NewPCG(23, uint64(w)))
			all := *howManyMutants / workers
			fasts := 0
			var h head
			for range all {
				in := mutant(random)
				if h.parse(in) != fast {
					continue
				}
				fasts++
				checkHead(t, &h, in)
				std.check(t, &h, in)
				if t.Failed() {
					return
				}
			}
			counts.Lock()
			defer counts.Unlock()
			counts.all, counts.fast = counts.all+all, counts.fast+fasts
		})
	}
	done.Wait()
	t.Logf("%d mutants, %d fast", counts.all, counts.fast)
	if counts.fast*10 < counts.all {
		t.Errorf("of %d mutants %d were fast: too few to prove anything", counts.all, counts.fast)
	}
}

// mutant damages a seed, or two joined ones, in one to three places.
func mutant(random *rand.Rand) []byte {
	pick := func() string { return headSeeds[random.IntN(len(headSeeds))] }
	in := []byte(pick())
	if random.IntN(8) == 0 {
		in = append(in, pick()...)
	}
	for range 1 + random.IntN(3) {
		in = mutate(random, in)
	}
	return in
}

// mutate changes one place.
func mutate(random *rand.Rand, in []byte) []byte {
	if len(in) == 0 {
		return in
	}
	at := random.IntN(len(in))
	insert := func(s string) []byte {
		return append(in[:at:at], append([]byte(s), in[at:]...)...)
	}
	switch random.IntN(9) {
	case 0:
		in[at] ^= 1 << random.IntN(8)
		return in
	case 1:
		in[at] = byte(random.IntN(256))
		return in
	case 2, 3:
		special := []string{"\r", "\n", "\r\n", " ", "\t", "\x00", ":", ",", "%", "?", "/", "%2f", "\x7f", "\xff", "-", "close", "\r\n "}
		return insert(special[random.IntN(len(special))])
	case 4:
		return append(in[:at:at], in[min(len(in), at+1+random.IntN(4)):]...)
	case 5: // repeat a line, perhaps elsewhere
		lines := bytes.SplitAfter(in, []byte("\r\n"))
		line := string(lines[random.IntN(len(lines))])
		at = len(bytes.Join(lines[:random.IntN(len(lines))], nil))
		return insert(line)
	case 6: // insert a line
		lines := []string{
			"Host: b\r\n", "Content-Length: 3\r\n", "content-length:0\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
			"Connection: Keep-Alive\r\n", "connection: upgrade\r\n", "Pragma: no-cache\r\n", "Cache-control: a\r\n", "Expect: a\r\n",
			"Trailer: X\r\n", "TE: trailers\r\n", "x-new-name: \t v \t\r\n", "X_y: \r\n", "\r\n",
		}
		at += bytes.Index(in[at:], []byte("\r\n")) + 2 // or two bytes further
		at = min(at, len(in))
		return insert(lines[random.IntN(len(lines))])
	case 7: // change a number
		digits := "0123456789"
		if i := bytes.IndexAny(in[at:], digits); i >= 0 {
			in[at+i] = digits[random.IntN(len(digits))]
		}
		return in
	default: // change case
		if c := in[at] | ' '; 'a' <= c && c <= 'z' {
			in[at] ^= ' '
		}
		return in
	}
}

// stdServer is an http.Server whose connections are plain bytes in memory.
type stdServer struct{ conns chan *scriptConn }

func newStdServer(tb testing.TB) *stdServer {
	s := &stdServer{conns: make(chan *scriptConn)}
	ctx, cancel := context.WithCancel(context.Background())
	ln := &scriptListener{conns: s.conns, closed: ctx.Done()}
	srv := &http.Server{
		Handler:     http.HandlerFunc(serveScript),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, scriptKey{}, c) },
	}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(ln) })
	tb.Cleanup(func() {
		cancel()
		srv.Close()
		served.Wait()
	})
	return s
}

// check checks that net/http's server calls its handler with the request that h parses from in.
func (s *stdServer) check(t *testing.T, h *head, in []byte) {
	t.Helper()
	c := &scriptConn{in: bytes.NewReader(in), ended: make(chan struct{})}
	s.conns <- c
	<-c.ended
	if c.request == nil {
		t.Errorf("%q: net/http's server refused it", in)
		return
	}
	got, want := new(http.Request), c.request
	h.fill(got, new(url.URL), in, remoteAddr)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[http.Request]()) {
		if !f.IsExported() || f.Name == "Body" {
			continue
		}
		g, w := reflect.ValueOf(got).Elem().FieldByIndex(f.Index).Interface(), reflect.ValueOf(want).Elem().FieldByIndex(f.Index).Interface()
		if f.Type.Kind() != reflect.Func && !reflect.DeepEqual(g, w) {
			t.Errorf("%q: %s is %#v, and %#v in net/http's server", in, f.Name, g, w)
		}
	}
	if want := in[h.size:min(len(in), h.size+h.length)]; !bytes.Equal(c.body, want) {
		t.Errorf("%q: the body is %q, and %q in net/http's server", in, want, c.body)
	}
}

type scriptKey struct{}

// serveScript records the first request of a connection.
func serveScript(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(scriptKey{}).(*scriptConn)
	if c.request == nil {
		c.request = r
		c.body, _ = io.ReadAll(r.Body)
	}
	w.Header().Set("Connection", "close")
}

// scriptConn reads prepared bytes, and discards what is written to it.
type scriptConn struct {
	net.Conn // for the methods that net/http does not call
	in       *bytes.Reader
	request  *http.Request
	body     []byte
	once     sync.Once
	ended    chan struct{}
}

func (c *scriptConn) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *scriptConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

func (c *scriptConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(remoteAddr))
}

func (c *scriptConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return nil
}

// scriptListener accepts the connections that are sent to it.
type scriptListener struct {
	conns  chan *scriptConn
	closed <-chan struct{}
}

func (ln *scriptListener) Accept() (net.Conn, error) {
	select {
	case c := <-ln.conns:
		return c, nil
	case <-ln.closed:
		return nil, net.ErrClosed
	}
}

func (ln *scriptListener) Close() error   { return nil }
func (ln *scriptListener) Addr() net.Addr { return &net.TCPAddr{} }
