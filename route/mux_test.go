package route_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/route"
)

// Lookup and dispatch do not allocate: hits, misses, wrong methods, a missing final slash, twenty
// values, and reading them.
func TestNoAllocations(t *testing.T) {
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, "/{p%d}", i)
	}
	read := 0
	values := func(_ http.ResponseWriter, _ *http.Request, p route.Params) {
		for i := range p.Len() {
			read += len(p.At(i)) + len(p.Get(p.Name(i)))
		}
		for _, value := range p.All() {
			read += len(value)
		}
	}
	quiet := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	for _, host := range []string{"", "h.example"} {
		mux := &route.Mux{NotFound: quiet, Overlap: true}
		for _, pattern := range []string{many.String(), "GET /users/{id}", "POST /users/{id}/notes", "GET /files/{path...}", "GET /static/page"} {
			method, path, found := strings.Cut(pattern, " ")
			if !found {
				method, path = "GET", pattern
			}
			mux.HandleParams(method+" "+host+path, values)
		}
		mux.HandleCtx("GET "+host+"/ctx/{x}", func(c route.Ctx) error {
			c.Set("x", 1)
			read += len(c.Param("x"))
			return c.NoContent(204)
		})
		behind := mux.Group(host+"/behind", func(next http.Handler) http.Handler { return next })
		behind.HandleParams("GET /{x}", values)
		for name, target := range map[string]string{
			"static": "GET /static/page", "one": "GET /users/17", "rest": "GET /files/a/b/c", "ctx": "GET /ctx/1", "middleware": "GET /behind/1",
			"twenty": "GET " + strings.Repeat("/value", 20), "miss": "GET /no/such/path", "wrong method": "PUT /users/17", "HEAD": "HEAD /users/17",
		} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequest(method, "http://h.example"+path, nil)
			if n := testing.AllocsPerRun(200, func() { mux.Lookup(r) }); n != 0 {
				t.Errorf("Lookup of %s (host %q): %v allocations", name, host, n)
			}
			if name == "wrong method" || testrun.Race && name == "ctx" {
				continue // a 405 sets a header; with -race, sync.Pool drops items
			}
			w := &sink{header: make(http.Header)}
			if n := testing.AllocsPerRun(200, func() { mux.ServeHTTP(w, r) }); n != 0 {
				t.Errorf("%s (host %q): %v allocations", name, host, n)
			}
		}
	}
	if read == 0 {
		t.Error("no value was read")
	}
}

// Middleware runs in the order in which it is written, that of inner groups inside, and is applied
// at registration.
func TestGroups(t *testing.T) {
	var trace []string
	composed := 0
	named := func(name string) route.Middleware {
		return func(next http.Handler) http.Handler {
			composed++
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				trace = append(trace, name+" "+r.Pattern)
				next.ServeHTTP(w, r)
			})
		}
	}
	var mux route.Mux
	api := mux.Group("/api/{tenant}", named("a"), named("b"))
	notes := api.Group("/notes", named("c"))
	var seen []string
	see := func(values ...string) { seen = append(seen, strings.Join(values, " ")) }
	notes.HandleFunc("GET /{id}", func(_ http.ResponseWriter, r *http.Request) { see("plain", r.PathValue("tenant"), r.PathValue("id")) })
	notes.HandleParams("POST /{id}", func(_ http.ResponseWriter, _ *http.Request, p route.Params) { see("params", p.Get("tenant"), p.At(1)) })
	notes.HandleCtx("PUT /{id}", func(c route.Ctx) error { see("ctx", c.Param("tenant"), c.Param("id")); return nil })
	notes.Handle("GET", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { see("alone") }))
	mux.Group("h.example").HandleParams("/x", func(http.ResponseWriter, *http.Request, route.Params) { see("host") })
	before := composed
	for _, method := range []string{"GET", "POST", "PUT"} {
		trace, seen = nil, nil
		get(&mux, method, "/api/acme/notes/7%2F8")
		kind := map[string]string{"GET": "plain", "POST": "params", "PUT": "ctx"}[method]
		pattern := method + " /api/{tenant}/notes/{id}"
		if got := strings.Join(trace, ","); got != "a "+pattern+",b "+pattern+",c "+pattern {
			t.Errorf("%s went through %s", method, got)
		}
		if got := strings.Join(seen, ","); got != kind+" acme 7/8" {
			t.Errorf("%s: the handler saw %s", method, got)
		}
	}
	seen = nil
	get(&mux, "GET", "/api/acme/notes")
	get(&mux, "GET", "http://h.example/x")
	if got := strings.Join(seen, ","); got != "alone,host" {
		t.Errorf("saw %s", got)
	}
	if composed != before || composed != 4*3 {
		t.Errorf("applied %d times, %d of them before requests", composed, before)
	}
	for name, wrong := range map[string]func(){
		"slash":  func() { mux.Group("/x/") },
		"method": func() { mux.Group("GET /x") },
		"host":   func() { api.Group("h.example/x") },
		"inner":  func() { api.HandleFunc("h.example/x", func(http.ResponseWriter, *http.Request) {}) },
		"nil": func() {
			mux.Group("", func(http.Handler) http.Handler { return nil }).Handle("/n", http.NotFoundHandler())
		},
	} {
		if err, _ := refused(wrong).(error); err == nil || !strings.Contains(text(err), "mux_test.go:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Middleware that changes the path gets the values of the new path, or a panic if the pattern does
// not match it; never values of another pattern.
func TestMiddlewareThatChangesThePath(t *testing.T) {
	var mux route.Mux
	to := ""
	rewrite := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = r.Clone(r.Context())
			r.URL.Path = to
			next.ServeHTTP(w, r)
		})
	}
	saw := ""
	mux.Group("", rewrite).HandleParams("/users/{id}", func(_ http.ResponseWriter, _ *http.Request, p route.Params) { saw = p.Get("id") })
	to = "/users/2"
	if get(&mux, "GET", "/users/1"); saw != "2" {
		t.Errorf("saw %q", saw)
	}
	for _, to = range []string{"/", "", "/users", "/users/1/2", "/user/1", "1"} {
		if why := refused(func() { get(&mux, "GET", "/users/1") }); !strings.Contains(fmt.Sprint(why), `"/users/{id}"`) {
			t.Errorf("with %q: %v", to, why)
		}
	}
}

// While patterns are added and the table is replaced, each request gets either the old or the new
// result.
func TestChangesWhileServing(t *testing.T) {
	var mux route.Mux
	tables := make([]*route.Mux, 2)
	for i := range tables {
		tables[i] = new(route.Mux)
		tables[i].HandleParams("GET /a/{x}", func(w http.ResponseWriter, _ *http.Request, _ route.Params) { fmt.Fprint(w, i) })
		tables[i].HandleParams("GET /b/{x}", func(w http.ResponseWriter, _ *http.Request, _ route.Params) { fmt.Fprint(w, i) })
	}
	mux.Replace(tables[0])
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, _ := get(&mux, "GET", "/a/1")
				if got := a.Body.String(); got != "0" && got != "1" {
					t.Errorf("a request during the change got %q (%d)", got, a.Code)
					return
				}
			}
		})
	}
	for i := range 100 {
		mux.Replace(tables[i%2])
		added := fmt.Sprintf("GET /added/%d", i)
		echoing(&mux, added)
		if w, _ := get(&mux, "GET", fmt.Sprint("/added/", i)); w.Body.String() != added {
			t.Errorf("%s is not found after its registration: %q", added, w.Body)
		}
		if w, _ := get(&mux, "GET", "/b/1"); w.Body.String() != fmt.Sprint(i%2) {
			t.Errorf("after Replace with table %d, %s answers", i%2, w.Body)
		}
		if w, _ := get(tables[i%2], "GET", fmt.Sprint("/added/", i)); w.Code != 404 {
			t.Error("a pattern added to one Mux appears in another")
		}
	}
	close(stop)
	all.Wait()
	mux.Replace(&mux)
	if w, _ := get(&mux, "GET", "/a/1"); w.Code != 200 {
		t.Error("a Mux that replaces itself is empty")
	}
}

// A Mux accepts 62 methods, and the error names that limit.
func TestManyMethods(t *testing.T) {
	var mux route.Mux
	echoing(&mux, "/any")
	for i := range 62 {
		echoing(&mux, fmt.Sprintf("M%02d /x", i))
	}
	echoing(&mux, "/more")
	for _, path := range []string{"/any", "/more"} {
		if w, _ := get(&mux, "M61", path); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w, _ := get(&mux, "NONE", "/x"); len(strings.Split(w.Header().Get("Allow"), ", ")) != 62 {
		t.Errorf("Allow is %q", w.Header().Get("Allow"))
	}
	if err, _ := refused(func() { echoing(&mux, "ONE /more") }).(error); err == nil || !strings.Contains(text(err), "62") {
		t.Errorf("the 63rd: %v", err)
	}
}

// Handler returns what ServeHTTP would call, and the registered handler itself if possible.
func TestHandler(t *testing.T) {
	var mux route.Mux
	mine := http.NotFoundHandler()
	mux.Handle("/mine", http.RedirectHandler("/x", http.StatusFound))
	mux.NotFound = mine
	echoing(&mux, "/values/{x}", "GET /slash/")
	for target, want := range map[string]string{
		"/mine": "/mine 302 ", "/values/1": "/values/{x} 200 /values/{x} x=1", "/slash": "GET /slash/ 307 ", "/none": " 404 404 page not found\n",
	} {
		r := httptest.NewRequest("GET", target, nil)
		h, pattern := mux.Handler(r)
		w := httpAnswer(h, r)
		body := w.Body.String()
		if w.Code/100 == 3 {
			body = ""
		}
		if got := fmt.Sprint(pattern, " ", w.Code, " ", body); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if w, _ := get(&mux, "PUT", "/slash/"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, %q", w.Code, w.Header())
	}
	mux.NotAllowed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) })
	if w, _ := get(&mux, "PUT", "/slash/"); w.Code != 418 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, %q", w.Code, w.Header())
	}
}

// The printed tree has each pattern once, in the right place.
func TestString(t *testing.T) {
	mux := echoing(new(route.Mux), "GET /users/{id}", "PUT /users/{id}", "/users/{$}", "/files/{path...}", "GET h.example/{x}/y", "/")
	site := regexp.MustCompile(`\(([^)]*):\d+\)`)
	got := site.ReplaceAllStringFunc(mux.String(), func(s string) string { return "(" + filepath.Base(site.FindStringSubmatch(s)[1]) + ")" })
	want := `/files
  /{...}  /files/{path...} (main_test.go)
/users
  /{$}  /users/{$} (main_test.go)
  /{}  GET /users/{id} (main_test.go)  PUT /users/{id} (main_test.go)
/{...}  / (main_test.go)
h.example
  /{}
    /y  GET h.example/{x}/y (main_test.go)
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
