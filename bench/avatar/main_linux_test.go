package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestServers has every server prove that it sends the same bytes, and answers
// who asks for long.
func TestServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven servers")
	}
	want, err := images()
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != pictures {
		t.Fatalf("%d pictures, want %d", len(want), pictures)
	}
	for name, run := range servers() {
		t.Run(name, func(t *testing.T) {
			ln := listen(t)
			go run(ln) // until the listener is closed
			if err := verify(ln.Addr().String(), want); err != nil {
				t.Fatal(err)
			}
			n, err := drive(t.Context(), ln.Addr().String(), 2, 50*time.Millisecond)
			if err != nil || n == 0 {
				t.Errorf("%d answers, %v", n, err)
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// BenchmarkHandlers is the handlers alone, without net/http's part, which is the
// same for all and twenty times theirs.
func BenchmarkHandlers(b *testing.B) {
	all, err := images()
	if err != nil {
		b.Fatal(err)
	}
	own, err := service(nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"hone", own}, {"echo", echoHandler(all)}, {"gin", ginHandler(all)}, {"chi", chiHandler(all)}, {"net/http", muxHandler(all)}} {
		b.Run(c.name, func(b *testing.B) {
			var requests [pictures]*http.Request
			for i := range requests {
				requests[i] = httptest.NewRequest("GET", targetOf(i), nil)
			}
			w := &kept{header: http.Header{}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				clear(w.header)
				w.body = w.body[:0]
				c.handler.ServeHTTP(w, requests[i%pictures])
			}
			if len(w.body) == 0 {
				b.Fatal("no picture")
			}
		})
	}
}
