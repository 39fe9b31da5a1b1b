package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/articles/avatar"
	"github.com/hone-go/hone/bench/client"
)

// TestMain makes the test binary a server, a client or a flood, too, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"-serve", "-client", "-flooder"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTiming fails when the service is far from its goals, which the command itself checks.
// No count or order of events could replace the figures.
func TestTiming(t *testing.T) {
	if os.Getenv("HONE_TEST_TIMING") == "" {
		t.Skip("compares measured figures, so it needs a machine to itself: make timing runs it")
	}
	s := settings{server: "hone", rounds: 7, conns: 100, warm: 200 * time.Millisecond, lap: 700 * time.Millisecond, regress: 0.65}
	if err := measure(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := flood(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestServers has every server prove that it sends the picture, and answers a client that
// asks for long.
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
	for _, e := range servers() {
		if e.serve == nil {
			continue // articles/lab tests its stages
		}
		t.Run(e.name, func(t *testing.T) {
			ln := listen(t)
			go e.serve(ln) // until the listener is closed
			order := e.order(ln.Addr().String(), nil)
			body, err := fetch("http://" + order.Addr + e.path)
			if err != nil || e.path == targetOf(0) && !bytes.Equal(body, want[nameOf(0)+"/128"].body) {
				t.Fatalf("%d bytes, %v", len(body), err)
			}
			r, err := client.Run(t.Context(), client.Plan{Addr: order.Addr, HTTP: &client.HTTP{Request: order.HTTP.Request, Status: http.StatusOK, Body: body}, Conns: 2, Depth: 1, Window: 50 * time.Millisecond, Loops: 1})
			if err != nil || r.Answered == 0 || r.Wrong > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestFlood asks for new pictures, all of which are drawn.
func TestFlood(t *testing.T) {
	s, err := service()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ln, server := listen(t), &avatar.Server{Service: s}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	line, err := json.Marshal(flooding{Addr: ln.Addr().String(), For: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := obeyFlooding(t.Context(), bytes.NewReader(line), &out); err != nil {
		t.Fatal(err)
	}
	var got flooded
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Statuses[200] == 0 || len(got.Statuses) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if st := s.Stats(); int(st.Drawn) != got.Statuses[200] {
		t.Errorf("%d pictures, of which %d were drawn", got.Statuses[200], st.Drawn)
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
	own, err := service()
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
