package http1

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

const (
	bareGet    = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	browserGet = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n" +
		"Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n" +
		"Sec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef\r\n\r\n"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello, World!") })

// serverOf is a server for Turns without an engine.
func serverOf(h http.Handler) *protocol {
	s := &Server{Handler: h}
	s.init()
	return &s.protocol
}

func TestBareGetAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector allocates")
	}
	onEngines(t, hello, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		in, buf := []byte(bareGet), make([]byte, 8<<10)
		serve := func() { ask(t, nc, in, 1, buf) }
		if n := testing.AllocsPerRun(1000, serve); n > 5 {
			t.Errorf("%v allocations, want at most 5", n)
		}
		const most = 700
		runs := testrun.Sized(2000, 5000)
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pools
		least := uint64(1 << 20)
		for range 5 { // each CPU has its own pools, which fill at some time
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range runs {
				serve()
			}
			runtime.ReadMemStats(&after)
			if least = min(least, (after.TotalAlloc-before.TotalAlloc)/uint64(runs)); least <= most {
				break
			}
		}
		if least > most {
			t.Errorf("%d B, want at most 700; a block has %d", least, unsafe.Sizeof(block{}))
		}
	})
}

func BenchmarkAdvance(b *testing.B) {
	for name, request := range map[string]string{"bare": bareGet, "browser": browserGet, "pipelined16": strings.Repeat(bareGet, 16)} {
		b.Run(name, func(b *testing.B) {
			p, in := serverOf(hello), []byte(request)
			defer p.server.engine.Close()
			turn := &engine.Turn{}
			b.ReportAllocs()
			for b.Loop() {
				turn.Out = turn.Out[:0]
				p.Advance(turn, in)
			}
		})
	}
}

// BenchmarkServe is one request over a loopback connection, with client and server in one
// process: net/http compared with the fast path on every engine.
func BenchmarkServe(b *testing.B) {
	type server interface {
		Serve(net.Listener) error
		Close() error
	}
	servers := []struct {
		name string
		server
	}{{"nethttp", &http.Server{Handler: hello}}}
	for _, e := range engine.All() {
		servers = append(servers, struct {
			name string
			server
		}{e.Name(), &Server{Engine: e, Handler: hello}})
	}
	for _, s := range servers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go s.Serve(ln)
		defer s.Close()
		for _, c := range []struct {
			name, request string
			n             int
		}{{"bare", bareGet, 1}, {"browser", browserGet, 1}, {"pipelined16", strings.Repeat(bareGet, 16), 16}} {
			b.Run(c.name+"/"+s.name, func(b *testing.B) {
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer nc.Close()
				b.ReportAllocs()
				request, buf := []byte(c.request), make([]byte, 8<<10)
				ask(b, nc, request, c.n, buf)
				b.ResetTimer()
				for i := 0; i < b.N; i += c.n {
					ask(b, nc, request, c.n, buf)
				}
			})
		}
	}
}

// ask sends n pipelined requests and reads n answers.
func ask(t testing.TB, nc net.Conn, requests []byte, n int, buf []byte) {
	nc.Write(requests)
	world := []byte("World!")
	for got := 0; n > 0; {
		m, err := nc.Read(buf[got:])
		if err != nil {
			t.Fatal(err)
		}
		got += m
		ends := bytes.Count(buf[:got], world)
		if n -= ends; ends > 0 {
			got = copy(buf, buf[bytes.LastIndex(buf[:got], world)+len(world):got])
		}
	}
}
