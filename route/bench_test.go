package route_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/route"
)

// BenchmarkLookup is the cost of finding and calling a handler, by kind of path.
func BenchmarkLookup(b *testing.B) {
	nothing := func(http.ResponseWriter, *http.Request, route.Params) {}
	mux := &route.Mux{NotFound: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	for _, pattern := range []string{
		"/static/page/of/some/length", "/users/{id}", "/repos/{owner}/{repo}/issues/{number}/comments", "/files/{path...}",
	} {
		mux.HandleParams("GET "+pattern, nothing)
	}
	for name, target := range map[string]string{
		"static": "/static/page/of/some/length", "one": "/users/octocat", "six": "/repos/hone-go/hone/issues/17/comments",
		"rest": "/files/a/b/c.txt", "miss": "/repos/hone-go/hone/issues/17/nothing", "escaped": "/users/octo%2Fcat",
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("GET", target, nil)
			w := &sink{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				mux.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkValue is the cost of a lookup and reading a value: the first and the last of three by
// name, and through PathValue.
func BenchmarkValue(b *testing.B) {
	const pattern, target = "GET /repos/{owner}/{repo}/issues/{number}/comments", "/repos/hone-go/hone/issues/17/comments"
	bytes := 0
	var plain, first, last, none route.Mux
	none.HandleParams(pattern, func(http.ResponseWriter, *http.Request, route.Params) {})
	first.HandleParams(pattern, func(_ http.ResponseWriter, _ *http.Request, p route.Params) { bytes += len(p.Get("owner")) })
	last.HandleParams(pattern, func(_ http.ResponseWriter, _ *http.Request, p route.Params) { bytes += len(p.Get("number")) })
	plain.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { bytes += len(r.PathValue("number")) })
	std := http.NewServeMux()
	std.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { bytes += len(r.PathValue("number")) })
	for _, c := range []struct {
		name string
		h    http.Handler
	}{{"none", &none}, {"first", &first}, {"last", &last}, {"PathValue", &plain}, {"ServeMux", std}} {
		b.Run(c.name, func(b *testing.B) {
			base := httptest.NewRequest("GET", target, nil)
			w := &sink{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				r := *base // SetPathValue needs a fresh request
				c.h.ServeHTTP(w, &r)
			}
		})
	}
}

// A pooledContext is a raw pointer from a sync.Pool, as other routers pass it to handlers.
type pooledContext struct {
	w      http.ResponseWriter
	r      *http.Request
	params route.Params
	values []any
}

// BenchmarkCtx is the cost of a context with one value read: as an argument, as a raw pointer from
// a pool, as a Ctx, newly allocated.
func BenchmarkCtx(b *testing.B) {
	bytes := 0
	var free sync.Pool
	param := func(c *pooledContext) { bytes += len(c.params.Get("id")) }
	handlers := map[string]func(*route.Mux){
		"value": func(m *route.Mux) {
			m.HandleParams("/users/{id}", func(_ http.ResponseWriter, _ *http.Request, p route.Params) { bytes += len(p.Get("id")) })
		},
		"Ctx": func(m *route.Mux) {
			m.HandleCtx("/users/{id}", func(c route.Ctx) error { bytes += len(c.Param("id")); return nil })
		},
		"raw": func(m *route.Mux) {
			m.HandleParams("/users/{id}", func(w http.ResponseWriter, r *http.Request, p route.Params) {
				c, _ := free.Get().(*pooledContext)
				if c == nil {
					c = new(pooledContext)
				}
				defer func() {
					*c = pooledContext{values: c.values[:0]}
					free.Put(c)
				}()
				c.w, c.r, c.params = w, r, p
				param(c)
			})
		},
		"fresh": func(m *route.Mux) {
			m.HandleParams("/users/{id}", func(w http.ResponseWriter, r *http.Request, p route.Params) {
				made = &pooledContext{w: w, r: r, params: p}
				param(made)
			})
		},
	}
	for name, register := range handlers {
		b.Run(name, func(b *testing.B) {
			var mux route.Mux
			register(&mux)
			r := httptest.NewRequest("GET", "/users/octocat", nil)
			w := &sink{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				mux.ServeHTTP(w, r)
			}
		})
	}
}

var made *pooledContext // forces a heap allocation

// BenchmarkRegister builds and compiles a table of 1000 patterns.
func BenchmarkRegister(b *testing.B) {
	var patterns []string
	for i := range 1000 {
		patterns = append(patterns, "GET /"+strings.Repeat(string(rune('a'+i%26)), 1+i/26)+"/{id}/items")
	}
	r := httptest.NewRequest("GET", "/none", nil)
	for b.Loop() {
		var mux route.Mux
		for _, pattern := range patterns {
			mux.HandleParams(pattern, func(http.ResponseWriter, *http.Request, route.Params) {})
		}
		mux.Lookup(r)
	}
}
