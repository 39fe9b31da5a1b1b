package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/route"
)

// A rawContext is what routers with pooled contexts pass to handlers: a pointer that the next
// request reuses.
type rawContext struct {
	customer string
}

// A rawRouter serves /{customer} on one pooled context.
type rawRouter struct {
	free   []*rawContext
	handle func(*rawContext)
}

func (m *rawRouter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c := new(rawContext)
	if n := len(m.free); n > 0 {
		c, m.free = m.free[n-1], m.free[:n-1]
	}
	c.customer = strings.TrimPrefix(r.URL.Path, "/")
	m.handle(c)
	m.free = append(m.free, c)
}

// A handler that keeps its context sees another customer's data with a raw pooled context; with a
// Ctx it panics.
func TestKeptContext(t *testing.T) {
	t.Run("raw", func(t *testing.T) {
		var kept *rawContext
		mux := &rawRouter{handle: func(c *rawContext) {
			if kept == nil {
				kept = c
			}
		}}
		get(mux, "GET", "/alice")
		get(mux, "GET", "/bob")
		if kept.customer != "bob" {
			t.Errorf("the context kept by alice's handler has %q; this shows no leak", kept.customer)
		}
	})
	t.Run("Ctx", func(t *testing.T) {
		var kept []route.Ctx
		var mux route.Mux
		mux.HandleCtx("GET /{customer}", func(c route.Ctx) error {
			if got := c.Get("customer"); got != nil {
				t.Errorf("%s read a value that %v stored", c.Param("customer"), got)
			}
			c.Set("customer", c.Param("customer"))
			kept = append(kept, c)
			return c.NoContent(http.StatusNoContent)
		})
		for i := range 100 {
			get(&mux, "GET", fmt.Sprint("/customer", i))
		}
		for i, c := range kept {
			for name, use := range uses() {
				why := fmt.Sprint(refused(func() { use(c) }))
				for _, want := range []string{"route: ", `"GET /{customer}"`, "registered at", "ctx_test.go:", "Detach"} {
					if !strings.Contains(why, want) {
						t.Fatalf("%s on the Ctx that request %d kept: %s; want %s", name, i, why, want)
					}
				}
				if strings.Count(why, "ctx_test.go:") != 2 {
					t.Fatalf("%s says %q, without the places of use and registration", name, why)
				}
			}
		}
	})
}

// uses are all methods of Ctx.
func uses() map[string]func(route.Ctx) {
	return map[string]func(route.Ctx){
		"Writer":    func(c route.Ctx) { c.Writer() },
		"Request":   func(c route.Ctx) { c.Request() },
		"Params":    func(c route.Ctx) { c.Params() },
		"Param":     func(c route.Ctx) { c.Param("customer") },
		"Set":       func(c route.Ctx) { c.Set("customer", "mallory") },
		"Get":       func(c route.Ctx) { c.Get("customer") },
		"NoContent": func(c route.Ctx) { c.NoContent(200) },
		"Text":      func(c route.Ctx) { c.Text(200, "") },
		"Bytes":     func(c route.Ctx) { c.Bytes(200, "", nil) },
		"JSON":      func(c route.Ctx) { c.JSON(200, 1) },
		"Hijack":    func(c route.Ctx) { c.Hijack() },
		"Detach":    func(c route.Ctx) { c.Detach() },
	}
}

// Goroutines that keep using a Ctx while its state serves other requests see their own values or
// panic; the same holds for writers.
func TestKeptContextInGoroutines(t *testing.T) {
	var mux route.Mux
	var late sync.WaitGroup
	mux.HandleCtx("GET /{customer}", func(c route.Ctx) error {
		mine := c.Param("customer")
		c.Set("customer", mine)
		late.Go(func() {
			for {
				var param string
				var stored any
				if refused(func() {
					param = c.Param("customer")
					stored = c.Get("customer")
					c.Set("more", mine)
				}) != nil {
					return
				}
				if param != mine || stored != mine {
					t.Errorf("the handler of %s saw %s and %v", mine, param, stored)
				}
			}
		})
		if more := c.Get("more"); more != nil && more != mine {
			t.Errorf("%s read a value that %v stored", mine, more)
		}
		return nil
	})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				get(&mux, "GET", fmt.Sprintf("/customer-%d-%d", g, i))
			}
		})
	}
	all.Wait()
	late.Wait()
}

// A state is not reused after a panic, and its Ctx is stale.
func TestPanicEndsTheContext(t *testing.T) {
	var mux route.Mux
	var kept route.Ctx
	mux.HandleCtx("GET /{x}", func(c route.Ctx) error {
		if got := c.Get("half done"); got != nil {
			t.Errorf("read %v, stored by a handler that panicked", got)
		}
		c.Set("half done", c.Param("x"))
		kept = c
		panic(http.ErrAbortHandler)
	})
	for i := range 50 {
		target := fmt.Sprint("/", i)
		if why := refused(func() { get(&mux, "GET", target) }); why != http.ErrAbortHandler {
			t.Fatalf("the panic became %v", why)
		}
		if why := refused(func() { kept.Param("x") }); why == nil {
			t.Fatal("the Ctx of a handler that panicked can be used")
		}
	}
}

// A handler that hijacks the connection may use its Ctx until it returns, and not later. Other
// requests are served as before.
func TestHijack(t *testing.T) {
	var mux route.Mux
	kept := make(chan route.Ctx, 1)
	mux.HandleCtx("GET /take/{x}", func(c route.Ctx) error {
		conn, _, err := c.Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		kept <- c
		_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%s", c.Param("x"))
		return err
	})
	echoing(&mux, "GET /plain/{x}")
	srv := httptest.NewServer(&mux)
	defer srv.Close()
	client := srv.Client()
	client.Timeout = patience
	defer client.CloseIdleConnections()
	for i := range 3 {
		for path, want := range map[string]string{fmt.Sprint("/take/", i): fmt.Sprint(i), "/plain/y": "GET /plain/{x} x=y"} {
			answer, err := client.Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if string(got) != want || err != nil {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
		<-kept
	}
	w, _ := get(&mux, "GET", "/take/x")
	if w.Code != http.StatusInternalServerError {
		t.Errorf("a connection that cannot be hijacked: %d", w.Code)
	}
}

// The copy from Detach keeps the request's data.
func TestDetach(t *testing.T) {
	var mux route.Mux
	var kept []route.Detached
	mux.HandleCtx("GET /{customer}", func(c route.Ctx) error {
		c.Set("seen", c.Param("customer"))
		d := c.Detach()
		c.Set("seen", "changed")
		c.Request().Header.Set("Who", "changed")
		kept = append(kept, d)
		return nil
	})
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequest("GET", fmt.Sprint("/customer", i), strings.NewReader("body"))
		r.Header.Set("Who", fmt.Sprint("customer", i))
		mux.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		cancel()
	}
	for i, d := range kept {
		want := fmt.Sprint("customer", i)
		if got := d.Params.Get("customer"); got != want || d.Get("seen") != want || d.Request.Header.Get("Who") != want || d.Get("other") != nil {
			t.Errorf("request %d kept %s, %v and %v", i, got, d.Get("seen"), d.Request.Header)
		}
		if err := d.Request.Context().Err(); err != nil {
			t.Errorf("the copy's context ended with its request: %v", err)
		}
		if n, err := d.Request.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the copy has a body: %d, %v", n, err)
		}
	}
}

// Errors and responses of handlers with a Ctx.
func TestCtxAnswers(t *testing.T) {
	unspeakable := errors.New("password is 1234")
	handlers := map[string]route.CtxFunc{
		"text":  func(c route.Ctx) error { return c.Text(201, "text") },
		"json":  func(c route.Ctx) error { return c.JSON(200, map[string]int{"n": 1}) },
		"bytes": func(c route.Ctx) error { return c.Bytes(200, "image/png", []byte("png")) },
		"none":  func(c route.Ctx) error { return c.NoContent(204) },
		"status": func(c route.Ctx) error {
			return fmt.Errorf("wrapped: %w", &route.StatusError{Code: 404, Text: "no such note"})
		},
		"error":    func(c route.Ctx) error { return unspeakable },
		"answered": func(c route.Ctx) error { c.Text(200, "done"); return unspeakable },
		"encode":   func(c route.Ctx) error { return c.JSON(200, func() {}) },
		"writer":   func(c route.Ctx) error { _, err := io.WriteString(c.Writer(), c.Request().URL.Path); return err },
	}
	want := map[string]string{
		"text": "201 text/plain; charset=utf-8 text", "json": `200 application/json {"n":1}`, "bytes": "200 image/png png", "none": "204  ",
		"status": "404 text/plain; charset=utf-8 no such note\n", "error": "500 text/plain; charset=utf-8 Internal Server Error\n",
		"answered": "200 text/plain; charset=utf-8 done", "encode": "500 text/plain; charset=utf-8 Internal Server Error\n", "writer": "200 text/plain; charset=utf-8 /writer",
	}
	var mux route.Mux
	for name, f := range handlers {
		mux.HandleCtx("/"+name, f)
	}
	for name := range handlers {
		w, _ := get(&mux, "GET", "/"+name)
		if got := fmt.Sprint(w.Code, " ", w.Header().Get("Content-Type"), " ", w.Body.String()); got != want[name] {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
	}
	var told []error
	mux.Error = func(c route.Ctx, err error) { told = append(told, err); c.Text(418, "mine") }
	if w, _ := get(&mux, "GET", "/error"); w.Code != 418 || len(told) != 1 || told[0] != unspeakable {
		t.Errorf("Mux.Error got %v, and the answer is %d", told, w.Code)
	}
	get(&mux, "GET", "/encode")
	var unsupported *json.UnsupportedTypeError
	if !errors.As(told[1], &unsupported) {
		t.Errorf("encoding failed with %v", told[1])
	}
	if why := refused(func() { route.Ctx{}.Param("x") }); why == nil {
		t.Error("a zero Ctx can be used")
	}
}
