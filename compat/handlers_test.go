//go:build linux

package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// file is what the file servers have, more than a socket buffer holds.
var file = bytes.Repeat([]byte("0123456789abcdef"), 200_000)

func TestFileServer(t *testing.T) {
	dir, changed := t.TempDir(), time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for name, content := range map[string][]byte{"large.bin": file, "small.txt": []byte("small\n"), "page.html": []byte(page), "empty": nil, "sub/index.html": []byte("index")} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(dir, changed, changed); err != nil {
		t.Fatal(err)
	}
	before, after := "If-Modified-Since: Wed, 28 Feb 2024 12:00:00 GMT", "If-Modified-Since: Fri, 01 Mar 2024 12:00:00 GMT"
	script := []string{
		request("GET /"), request("GET /sub"), request("GET /sub/"), request("GET /sub/index.html"), request("GET /none"), request("GET /empty"),
		request("GET /../../etc/passwd"), request("GET /%00"),
	}
	for _, name := range []string{"small.txt", "large.bin"} {
		for _, method := range []string{"GET", "HEAD"} {
			line := method + " /" + name
			script = append(script, request(line), request(line, before), request(line, after),
				request(line, "If-Unmodified-Since: Wed, 28 Feb 2024 12:00:00 GMT"), request(line, "If-Range: Thu, 29 Feb 2024 12:00:00 GMT", "Range: bytes=1-2"))
			for _, r := range []string{"0-0", "1-3", "-2", "2-", "1000000-2999999", "0-1,3-4", "9999999-", "3-1", "x"} {
				script = append(script, request(line, "Range: bytes="+r))
			}
		}
	}
	// The parts of a multipart answer are separated by something random.
	script = slices.DeleteFunc(script, func(r string) bool { return strings.Contains(r, "0-1,3-4") })
	sameAsNetHTTP(t, func() http.Handler { return http.FileServer(http.Dir(dir)) }, script)
}

func TestHandlersOfNetHTTP(t *testing.T) {
	body := strings.Repeat("0123456789", 10)
	sameAsNetHTTP(t, func() http.Handler {
		mux := http.NewServeMux()
		read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
				return
			}
			fmt.Fprintf(w, "%q", got)
		})
		mux.Handle("/max", http.MaxBytesHandler(read, 50))
		mux.Handle("/stripped/", http.StripPrefix("/stripped", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.URL.Path, r.RequestURI)
		})))
		mux.Handle("/moved", http.RedirectHandler("/max?a=b", http.StatusPermanentRedirect))
		mux.Handle("/never", http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), deadline, "too late"))
		mux.Handle("/soon", http.TimeoutHandler(read, patience, "too late"))
		return mux
	}, []string{
		requestWith(body, "POST /max"), requestWith(body[:50], "POST /max"), chunked(body, 9, "POST /max"), chunked(body[:50], 9, "POST /max"),
		requestWith(body, "POST /max", "Expect: 100-continue"), request("GET /stripped/a?b"), request("GET /stripped"), request("GET /moved"),
		request("GET /never"), requestWith(body, "POST /never"), requestWith(body, "POST /soon"), chunked(body, 20, "POST /soon"), request("GET /soon"),
		request("GET /soon"),
	})
}

// TestPrometheusAndProfiles has the handlers that most programs mount.
func TestPrometheusAndProfiles(t *testing.T) {
	eachSide(t, engines(), func(t *testing.T, on side) {
		registry := prometheus.NewRegistry()
		counted := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."}, []string{"code", "method"})
		took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took_seconds", Help: "Duration."}, []string{"code"})
		registry.MustRegister(counted, took)
		mux := http.NewServeMux()
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
		mux.Handle("/hello", promhttp.InstrumentHandlerCounter(counted, promhttp.InstrumentHandlerDuration(took, hello)))
		mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		s := serve(t, on, &http.Server{Handler: mux})
		client := newClient(t, &http.Transport{})
		for range 20 {
			if got := get(t, client, s.url("/hello")); got != "hello" {
				t.Fatalf("got %q", got)
			}
		}
		if got := get(t, client, s.url("/metrics")); !strings.Contains(got, `requests_total{code="200",method="get"} 20`) || !strings.Contains(got, `took_seconds_count{code="200"} 20`) {
			t.Errorf("the metrics are\n%s", got)
		}
		for path, begins := range map[string]string{
			"/debug/pprof/": "<html>", "/debug/pprof/goroutine?debug=1": "goroutine profile", "/debug/pprof/heap": "\x1f\x8b",
			"/debug/pprof/profile?seconds=1": "\x1f\x8b", "/debug/pprof/trace?seconds=0.1": "go 1.",
		} {
			if got := get(t, client, s.url(path)); !strings.HasPrefix(got, begins) {
				t.Errorf("%s begins with %.20q, want %q", path, got, begins)
			}
		}
	})
}

// get is the body of an answer with status 200.
func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %.200s", url, resp.Status, err, body)
	}
	return string(body)
}

// TestReverseProxy has a proxy on each kind of server in front of an application on the same.
func TestReverseProxy(t *testing.T) {
	eachSide(t, engines(), func(t *testing.T, on side) {
		back := serve(t, on, &http.Server{Handler: plainApp()})
		target, err := url.Parse("http://" + back.addr)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		front := serve(t, on, &http.Server{Handler: &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		}}})
		t.Cleanup(transport.CloseIdleConnections)
		client := newClient(t, &http.Transport{})
		body := strings.Repeat("0123456789abcdef", 10_000)
		var asking sync.WaitGroup
		for i := range 16 {
			asking.Go(func() {
				for range 4 {
					var known io.Reader = strings.NewReader(body)
					if i%2 == 0 {
						known = io.MultiReader(known) // of a length that is not known
					}
					resp, err := client.Post(front.url("/echo"), "text/plain", known)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || !strings.HasSuffix(string(got), body) {
						t.Errorf("%d bytes came back, %v", len(got), err)
					}
				}
			})
		}
		asking.Wait()
		for path, want := range map[string]string{"/stream": "part 0\npart 1\npart 2\npart 3\npart 4\n", "/trailer": "body", "/early": "late"} {
			if got := get(t, client, front.url(path)); got != want {
				t.Errorf("%s: %q", path, got)
			}
		}
		resp, err := client.Get(front.url("/trailer"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil || resp.Trailer.Get("X-Sum") != "1" || resp.Trailer.Get("X-Late") != "2" {
			t.Errorf("trailers %q through the proxy, %v", resp.Trailer, err)
		}
	})
}

// TestClientLeaves has the context of a request end when its client has left, whether the
// handler has written or not, and not before.
func TestClientLeaves(t *testing.T) {
	eachSide(t, engines(), func(t *testing.T, on side) {
		began, ended := make(chan struct{}), make(chan error)
		s := serve(t, on, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/flushed" {
				http.NewResponseController(w).Flush()
			}
			began <- struct{}{}
			<-r.Context().Done()
			ended <- r.Context().Err()
		})})
		for _, asks := range []string{request("GET /silent"), request("GET /flushed"), requestWith("body", "POST /silent"), chunked("body", 1, "POST /flushed")} {
			c, _ := connect(t, s.addr)
			io.WriteString(c, asks)
			<-began
			select {
			case err := <-ended:
				t.Fatalf("%.20q: ended with %v before the client has left", asks, err)
			default:
			}
			c.Close()
			select {
			case err := <-ended:
				if err != context.Canceled {
					t.Errorf("%.20q: ended with %v", asks, err)
				}
			case <-time.After(patience):
				t.Fatalf("%.20q: the context does not end", asks)
			}
		}
	})
}

// repeated is a reader of n bytes that are easy to make, and hashed while read.
type repeated struct {
	left int64
	at   int
	data []byte
}

func newRepeated(n int64) *repeated {
	data := make([]byte, 1<<20+7) // no divisor of anything
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	return &repeated{left: n, data: data}
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n = copy(p[:min(int64(len(p)), r.left)], r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	r.left -= int64(n)
	return n, nil
}

// TestLargeUpload streams a multipart upload of 1 GiB into a server of its own process,
// which hashes it; its memory stays flat.
func TestLargeUpload(t *testing.T) {
	const upload = 1 << 30
	path := program(t)
	sum := sha256.New()
	if _, err := io.Copy(sum, newRepeated(upload)); err != nil {
		t.Fatal(err)
	}
	want := hex.EncodeToString(sum.Sum(nil))
	for _, way := range []string{"chunked", "with its length"} {
		t.Run(way, func(t *testing.T) {
			p := start(t, path, "-engine", "events")
			client := newClient(t, &http.Transport{WriteBufferSize: 64 << 10})
			get(t, client, p.url("/hello"))
			base, peak := p.resident(t), p.peak(t)
			var frame bytes.Buffer
			form := multipart.NewWriter(&frame)
			if _, err := form.CreateFormFile("file", "large.bin"); err != nil {
				t.Fatal(err)
			}
			head := frame.Len()
			form.Close()
			text := frame.Bytes()
			body := io.MultiReader(bytes.NewReader(text[:head]), newRepeated(upload), bytes.NewReader(text[head:]))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url("/upload"), body)
			if err != nil {
				t.Fatal(err)
			}
			if way != "chunked" {
				r.ContentLength = int64(len(text)) + upload
			}
			r.Header.Set("Content-Type", form.FormDataContentType())
			client.Timeout = 4 * patience
			began := time.Now()
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(got) != fmt.Sprintf("large.bin %d %s", upload, want) {
				t.Errorf("the server has read %q, %v", got, err)
			}
			grown := (peak() - base) / mib
			t.Logf("%.0f MB/s, memory %d MiB and %d more", upload/1e6/time.Since(began).Seconds(), base/mib, grown)
			if grown > 24 {
				t.Errorf("the server's memory grew by %d MiB", grown)
			}
			if got := get(t, client, p.url("/hello")); got != "hello" {
				t.Errorf("afterwards %q", got)
			}
		})
	}
}
