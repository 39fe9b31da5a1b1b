package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// onEngines runs a test on every engine, with a server for h.
func onEngines(t *testing.T, h http.Handler, test func(t *testing.T, s *Server, addr string)) {
	for _, e := range engines() {
		t.Run(e.Name(), func(t *testing.T) {
			s := &Server{Engine: e, Handler: h}
			test(t, s, start(t, s))
		})
	}
	overTLS(t, func(t *testing.T, e engine.Engine) {
		s := &Server{Engine: e, Handler: h}
		test(t, s, start(t, s))
	})
}

// start serves until the test ends, and returns the address.
func start(t *testing.T, s *Server) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln = onTLS(t, ln)
	served := make(chan error, 1)
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler) // faults are often intended
	}
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return ln.Addr().String()
}

// dial connects, with a deadline for everything.
func dial(t *testing.T, addr string) net.Conn {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestHandlesAreClosedWhenTheHandlerReturns(t *testing.T) {
	type kept struct {
		w http.ResponseWriter
		r *http.Request
	}
	keeps := make(chan kept, 1)
	mux := http.NewServeMux()
	keep := func(w http.ResponseWriter, r *http.Request) { keeps <- kept{w, r} }
	mux.HandleFunc("POST /x/{id}", keep)
	mux.HandleFunc("/any/", keep)
	onEngines(t, mux, func(t *testing.T, s *Server, addr string) {
		for request, name := range map[string]string{
			"POST /x/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc": "POST /x/{id}",
			"PUT /any/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na":  "PUT /any/",
		} {
			nc := dial(t, addr)
			io.WriteString(nc, request)
			k := <-keeps
			nc.Read(make([]byte, 1)) // then the handler has returned
			want := "http1: ResponseWriter of " + name + " used after its handler returned"
			for _, f := range []func(){
				func() { k.w.Header() },
				func() { k.w.Write(nil) },
				func() { k.w.WriteHeader(200) },
				func() { io.WriteString(k.w, "x") },
				func() { io.Copy(k.w, only("x")) },
				func() { k.w.(http.Flusher).Flush() },
				func() { http.NewResponseController(k.w).EnableFullDuplex() },
				func() { http.NewResponseController(k.w).SetReadDeadline(time.Time{}) },
				func() { http.NewResponseController(k.w).SetWriteDeadline(time.Time{}) },
				func() { k.w.(interface{ CloseNotify() <-chan bool }).CloseNotify() },
				func() { http.NewResponseController(k.w).Hijack() },
			} {
				if v := panicOf(f); v != want {
					t.Errorf("panic %v, want %q", v, want)
				}
			}
			if n, err := k.r.Body.Read(make([]byte, 9)); n != 0 || err != http.ErrBodyReadAfterClose {
				t.Errorf("read %d, %v from the body", n, err)
			}
			if err := k.r.Body.Close(); err != nil {
				t.Error(err)
			}
			if k.r.Method == "" || k.r.URL.Path == "" || k.r.Context().Err() == nil {
				t.Error("the kept Request has changed")
			}
			<-k.r.Context().Done()
		}
	})
}

// Another goroutine uses everything that a handler may keep, while the same connection serves
// other requests, whose answers and bodies must not change.
func TestKeptHandlesNeverTouchAnotherRequest(t *testing.T) {
	t.Parallel()
	attempts := int64(60_000)
	if testrun.All() {
		attempts = 1_000_000
	}
	attempts /= int64(len(engines()))
	type kept struct {
		w http.ResponseWriter
		r *http.Request
	}
	var keeps chan kept
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength-1) // a Flush drops the rest, as in net/http
		io.ReadFull(r.Body, body)
		w.Header().Set("X-Id", r.URL.Path) // before the goroutine starts, since only the handler may use the header
		select {
		case keeps <- kept{w, r}:
		default:
		}
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})
	onEngines(t, handler, func(t *testing.T, s *Server, addr string) {
		keeps = make(chan kept)
		var tried, panics, reads atomic.Int64
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				var k kept
				for {
					select {
					case k = <-keeps:
					case <-stop:
						return
					}
					for i := range 16 {
						tried.Add(1)
						switch i % 4 {
						case 0:
							if panicOf(func() { k.w.Write([]byte("stolen")) }) != nil {
								panics.Add(1)
							}
						case 1:
							if _, err := k.r.Body.Read(make([]byte, 8)); err == http.ErrBodyReadAfterClose {
								reads.Add(1)
							}
						case 2:
							if panicOf(func() { k.w.(http.Flusher).Flush() }) != nil {
								panics.Add(1)
							}
						case 3:
							k.r.Context().Value("key")
						}
					}
				}
			})
		}
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for i := 0; tried.Load() < attempts && !t.Failed(); i++ {
			path, body := fmt.Sprintf("/%d", i), strings.Repeat("b", 1+i%50)
			resp, err := client.Post("http://"+addr+path, "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				break
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			// what another goroutine writes before the handler returns appears only in its own answer
			if text := strings.ReplaceAll(string(got), "stolen", ""); text != path+" "+body[1:] || resp.Header.Get("X-Id") != path {
				t.Errorf("%s: got %q, %v", path, got, resp.Header)
			}
		}
		close(stop)
		all.Wait()
		if panics.Load() == 0 || reads.Load() == 0 {
			t.Errorf("%d panics and %d reads in %d attempts", panics.Load(), reads.Load(), tried.Load())
		}
	})
}

// The files of a form that is larger than the memory that a handler allows are removed when
// the handler has returned.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	name := func(w http.ResponseWriter, r *http.Request) {
		r.ParseMultipartForm(1)
		file, _, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		io.WriteString(w, file.(*os.File).Name())
	}
	onEngines(t, http.HandlerFunc(name), func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		say(t, nc, multipartPost())
		answer := readAnswer(t, bufio.NewReader(nc))
		if _, err := os.Stat(strings.TrimPrefix(answer, "200 ")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that the file does not exist", answer, err)
		}
	})
}

func TestContextEndsWithTheHandler(t *testing.T) {
	contexts := make(chan *http.Request, 2)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watched" {
			r.Context().Done()
		}
		contexts <- r
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		for _, path := range []string{"/watched", "/not"} {
			io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
			r := <-contexts
			<-r.Context().Done()
			if r.Context().Err() == nil {
				t.Error("no error")
			}
		}
	})
}

func TestContextEndsWithThePeer(t *testing.T) {
	t.Parallel() // it waits
	h := func(ended chan<- error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var gone <-chan bool
			if r.URL.Path == "/notify" {
				gone = w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
			}
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			if gone != nil {
				<-gone
			}
			<-r.Context().Done()
			ended <- r.Context().Err()
		}
	}
	for _, e := range engines() {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel() // the engine checks for a disconnect once a second
			ended := make(chan error, 2)
			addr := start(t, &Server{Engine: e, Handler: h(ended)})
			for _, path := range []string{"/", "/notify"} {
				nc := dial(t, addr)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
				nc.Read(make([]byte, 1))
				nc.Close()
			}
			for range 2 {
				if err := <-ended; err != context.Canceled {
					t.Errorf("the context's error is %v", err)
				}
			}
		})
	}
}

// A context derived from a request's context is cancelled without a goroutine of its own.
func TestDerivedContextsNeedNoGoroutine(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := runtime.NumGoroutine()
		for range 100 {
			_, cancel := context.WithTimeout(r.Context(), time.Hour)
			defer cancel()
		}
		fmt.Fprint(w, runtime.NumGoroutine()-before)
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		resp, err := http.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var n int
		if fmt.Fscan(resp.Body, &n); n >= 100 {
			t.Errorf("%d goroutines for 100 contexts", n)
		}
	})
}

func TestPipelinedRequests(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s:%s;", r.URL.Path, body)
		if r.URL.Path == "/7" {
			w.(http.Flusher).Flush()
		}
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		var requests strings.Builder
		for i := range 50 {
			fmt.Fprintf(&requests, "POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", i, i*10, strings.Repeat("0123456789", i))
		}
		requests.WriteString("GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		go io.WriteString(nc, requests.String())
		got, err := io.ReadAll(nc)
		if err != nil {
			t.Fatal(err)
		}
		rest := string(got)
		for i := range 50 {
			want := fmt.Sprintf("/%d:%s;", i, strings.Repeat("0123456789", i))
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Fatalf("no answer %d in %q", i, short(rest))
			}
			rest = after
		}
		if !strings.HasSuffix(rest, "/last:;") {
			t.Errorf("the last is %q", rest)
		}
		if st := s.Stats(); st.Fast != 51 || st.Loans != 0 {
			t.Errorf("%d on the fast path, %d loans", st.Fast, st.Loans)
		}
	})
}

// One byte at a time is the hardest split.
func TestRequestByteByByte(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s;", body)
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		for _, b := range []byte(post("some bytes")) {
			nc.Write([]byte{b})
		}
		var got []byte
		for !strings.HasSuffix(string(got), "some bytes;") {
			var p [512]byte
			n, err := nc.Read(p[:])
			if err != nil {
				t.Fatal(err, string(got))
			}
			got = append(got, p[:n]...)
		}
	})
}

// An answer does not wait for the rest of the next request.
func TestAnswerBeforeHalfAHead(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		next := getting("/2")
		io.WriteString(nc, getting("/1")+next[:10])
		nc.SetReadDeadline(time.Now().Add(2 * time.Second)) // less than Limits.FrameTime
		r := bufio.NewReader(nc)
		if got := readAnswer(t, r); got != "200 /1" {
			t.Fatal(got)
		}
		io.WriteString(nc, next[10:])
		if got := readAnswer(t, r); got != "200 /2" {
			t.Fatal(got)
		}
	})
}

// A large answer is sent at the peer's pace, from a Turn.Out of limited size.
func TestLargeAnswerWaitsForThePeer(t *testing.T) {
	size := testrun.Sized(16<<20, 64<<20)
	var written atomic.Int64
	stuck := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 32<<10)
		for range size / len(part) {
			n, err := w.Write(part)
			if written.Add(int64(n)); err != nil {
				return
			}
			if written.Load() == 32<<10 {
				close(stuck)
			}
		}
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		written.Store(0)
		stuck = make(chan struct{})
		nc := dial(t, addr)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		<-stuck
		n, err := io.Copy(io.Discard, nc)
		if err != nil || n < int64(size) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if most := s.Stats().OutputMemory; most > 4<<20 {
			t.Errorf("%d bytes of output memory", most)
		}
	})
}

// A truncated answer must not look complete.
func TestPanicAfterFlush(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		panic(errors.New("no luck"))
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		io.WriteString(nc, get)
		if got, err := io.ReadAll(nc); err == nil {
			t.Errorf("%q ends with a clean close", got)
		}
		if st := s.Stats(); st.Panics != 1 {
			t.Errorf("%d panics", st.Panics)
		}
	})
}

// A request that fails after a part of its answer was sent does not destroy the answers before it,
// even if the client has not read them yet. Its own answer has no end.
func TestAnswersBeforeAFailedOneArrive(t *testing.T) {
	t.Parallel() // it waits
	const size, before = 100 << 10, 5
	failures := []struct {
		name   string
		fail   func(w http.ResponseWriter)
		resets bool
	}{
		{"panic", func(http.ResponseWriter) { panic("no luck") }, true},
		{"abort", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, false},
		{"deadline", func(w http.ResponseWriter) {
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
			io.WriteString(w, "too late")
		}, false},
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			for _, e := range engines() {
				t.Run(e.Name(), func(t *testing.T) {
					t.Parallel()
					failing := make(chan struct{})
					addr := start(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path != "/fail" {
							w.Write(make([]byte, size))
							return
						}
						io.WriteString(w, "part")
						w.(http.Flusher).Flush()
						close(failing)
						f.fail(w)
					})})
					nc := dial(t, addr)
					nc.(*net.TCPConn).SetReadBuffer(32 << 10)
					io.WriteString(nc, strings.Repeat(getting("/"), before)+getting("/fail"))
					r := bufio.NewReaderSize(&slowReader{Reader: nc, until: failing}, 8<<10)
					for i := range before {
						if got := readAnswer(t, r); len(got) != len("200 ")+size {
							t.Fatalf("answer %d has %d bytes", i, len(got))
						}
					}
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(resp.Body)
					if string(body) != "part" || err == nil || f.resets == errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("the failed answer ends with %q, %v", body, err)
					}
				})
			}
		})
	}
}

// A handler that ends its goroutine does not destroy the answers before its own.
func TestAnswersBeforeGoexitArrive(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
		if r.URL.Path == "/goexit" {
			runtime.Goexit()
		}
	})
	onEngines(t, h, func(t *testing.T, s *Server, addr string) {
		nc := dial(t, addr)
		io.WriteString(nc, getting("/1")+getting("/2")+getting("/goexit"))
		r := bufio.NewReader(nc)
		if got := readAnswer(t, r) + readAnswer(t, r); got != "200 /1200 /2" {
			t.Error(got)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("then %q", rest)
		}
	})
}

// slowReader reads no faster than 8 KiB per millisecond until something happens, then pauses, and
// then reads fast.
type slowReader struct {
	io.Reader
	until <-chan struct{}
}

func (s *slowReader) Read(p []byte) (int, error) {
	select {
	case <-s.until:
		<-time.After(50 * time.Millisecond) // in which a reset would arrive
		s.until = nil
	default:
		if s.until != nil {
			<-time.After(time.Millisecond)
			p = p[:min(len(p), 8<<10)]
		}
	}
	return s.Reader.Read(p)
}
