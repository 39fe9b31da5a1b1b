package http1

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

func TestHello(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			s := &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.Path, len(body))
			})}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			client := &http.Client{Transport: &http.Transport{}}
			for i := range 10 {
				url := fmt.Sprintf("http://%v/%d", ln.Addr(), i)
				resp, err := client.Post(url, "text/plain", io.MultiReader(strings.NewReader(strings.Repeat("x", i))))
				if err != nil {
					t.Fatal(err)
				}
				got, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf("POST /%d %d", i, i); string(got) != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
			if st := s.Stats(); st.Accepted != 1 || st.Loans != 10 {
				t.Errorf("%d connections, %d loans; want 1 and 10", st.Accepted, st.Loans)
			}
			client.CloseIdleConnections()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-served; err != http.ErrServerClosed {
				t.Error(err)
			}
		})
	}
}

// Addr goes before Std.Addr, as Handler does before Std.Handler.
func TestAddr(t *testing.T) {
	const bad, free = "not an address", "127.0.0.1:0"
	for _, addr := range [][2]string{{free, bad}, {free, ""}, {"", free}} {
		at := make(chan net.Addr, 1)
		s := &Server{Addr: addr[0], Handler: http.HandlerFunc(echo), Std: &http.Server{Addr: addr[1]}}
		s.Std.BaseContext = func(ln net.Listener) context.Context {
			at <- ln.Addr()
			return t.Context()
		}
		served := make(chan error, 1)
		go func() { served <- s.ListenAndServe() }()
		select {
		case addr := <-at:
			nc, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
			s.Close()
			if err := <-served; err != http.ErrServerClosed {
				t.Error(err)
			}
		case err := <-served:
			t.Errorf("%q: %v", addr, err)
		}
	}
	if err := (&Server{Addr: bad, Std: &http.Server{Addr: free}}).ListenAndServe(); err == nil {
		t.Error("Std.Addr goes before Addr")
	}
}
