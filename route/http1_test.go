package route_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/route"
)

// TestContextsOnEngines serves routes on http1, which also reuses memory. Goroutines that outlive
// their handlers keep the Ctx, the values, the request and the ResponseWriter, and use them while
// other requests are served on the same connections. They must see nothing of another request.
func TestContextsOnEngines(t *testing.T) {
	const clients, requests = 8, 200
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			var mux route.Mux
			var late sync.WaitGroup
			var keeping sync.Mutex
			var kept []http.ResponseWriter
			mux.HandleCtx("GET /{customer}/{rest...}", func(c route.Ctx) error {
				mine := c.Param("customer")
				if got := c.Get("customer"); got != nil {
					t.Errorf("%s read a value that %v stored", mine, got)
				}
				c.Set("customer", mine)
				r, values := c.Request(), c.Params()
				keeping.Lock()
				kept = append(kept, c.Writer())
				keeping.Unlock()
				late.Go(func() {
					for {
						var seen any
						if refused(func() { seen = c.Get("customer") }) != nil {
							break
						}
						if seen != mine {
							t.Errorf("the handler of %s saw %v", mine, seen)
						}
					}
					if refused(func() { c.Text(http.StatusOK, "late") }) == nil {
						t.Errorf("the Ctx of %s can answer after its handler", mine)
					}
					if path := "/" + mine + "/a/b"; r.URL.Path != path || r.Header.Get("X-Customer") != mine || values.At(0) != mine || values.At(1) != "a/b" {
						t.Errorf("the request of %s has become %s of %s, with %s", mine, r.URL.Path, r.Header.Get("X-Customer"), values.At(0))
					}
				})
				return c.Text(http.StatusOK, "I am "+mine)
			})
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http1.Server{Engine: e, Handler: &mux}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			var asking sync.WaitGroup
			for i := range clients {
				asking.Go(func() {
					if err := asksAs(ln.Addr().String(), i, requests); err != nil {
						t.Error(err)
					}
				})
			}
			asking.Wait()
			late.Wait()
			for _, w := range kept {
				if refused(func() { io.WriteString(w, "late") }) == nil {
					t.Fatal("a ResponseWriter can be used after its handler")
				}
			}
			if fast := s.Stats().Fast; fast != clients*requests {
				t.Errorf("the fast path served %d requests of %d", fast, clients*requests)
			}
			s.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}

// asksAs sends requests of that many customers, in pairs, and checks that each gets its own answer.
func asksAs(addr string, client, requests int) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	in := bufio.NewReader(nc)
	for i := 0; i < requests; i += 2 {
		var both strings.Builder
		for n := i; n < i+2; n++ {
			fmt.Fprintf(&both, "GET /customer-%d-%d/a/b HTTP/1.1\r\nHost: h\r\nX-Customer: customer-%d-%d\r\n\r\n", client, n, client, n)
		}
		if _, err := io.WriteString(nc, both.String()); err != nil {
			return err
		}
		for n := i; n < i+2; n++ {
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(answer.Body)
			if want := fmt.Sprintf("I am customer-%d-%d", client, n); err != nil || string(body) != want {
				return fmt.Errorf("%q (%v), want %q", body, err, want)
			}
		}
	}
	return nil
}
