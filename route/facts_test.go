package route_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/hone-go/hone/route"
)

// Published bugs of other routers, and rules of ServeMux, by source.
func TestPublishedCases(t *testing.T) {
	for _, c := range []struct {
		from     string
		overlap  bool // ServeMux refuses these patterns
		patterns []string
		requests map[string]string // from "METHOD target" to the body or the status
	}{
		{
			from:     "gin #4783: a dead end below a literal",
			patterns: []string{"GET /{p0}/{p1}", "GET /bc/{p1}/a"},
			requests: map[string]string{
				"GET /bc/bc":   "GET /{p0}/{p1} p0=bc p1=bc",
				"GET /bc/bc/a": "GET /bc/{p1}/a p1=bc",
				"GET /bc/bc/b": "404",
			},
		},
		{
			from:     "gin, research: a literal that leads nowhere",
			overlap:  true,
			patterns: []string{"GET /b/{p0}/a", "GET /{p0}/a", "GET /{p0}/b"},
			requests: map[string]string{"GET /b/b": "GET /{p0}/b p0=b", "GET /b/b/a": "GET /b/{p0}/a p0=b"},
		},
		{
			from:     "gin #2762, #2900, #3459: two levels back, and no panic",
			overlap:  true,
			patterns: []string{"GET /aa/{x}", "GET /ab/{x}/c", "GET /{x}", "GET /{x}/{y}", "GET /{x}/get", "GET /get/abc/{z}/"},
			requests: map[string]string{
				"GET /aa":            "GET /{x} x=aa",
				"GET /ab/1":          "GET /{x}/{y} x=ab y=1",
				"GET /get/abc":       "GET /{x}/{y} x=get y=abc",
				"GET /get/abc/1/2":   "GET /get/abc/{z}/ z=1",
				"GET /get/get/get":   "404",
				"POST /get/abc":      "405 GET, HEAD",
				"GET /get/abc/1":     "307 /get/abc/1/",
				"DELETE /ab/1/c/d/e": "404",
			},
		},
		{
			from:     "echo #1754: back by several levels, to another kind",
			overlap:  true,
			patterns: []string{"GET /a/{b}/c", "GET /a/c/d", "GET /a/c/df", "GET /{e}/c/f", "GET /{rest...}"},
			requests: map[string]string{
				"GET /a/c/f":  "GET /{e}/c/f e=a",
				"GET /a/c/c":  "GET /a/{b}/c b=c",
				"GET /a/c/dg": "GET /{rest...} rest=a/c/dg",
				"GET /a/c/df": "GET /a/c/df",
			},
		},
		{
			from:     "echo, research: a last wildcard takes one segment",
			patterns: []string{"GET /users/{id}"},
			requests: map[string]string{"GET /users/1/2": "404", "GET /users/": "404", "GET /users/a%2Fb": "GET /users/{id} id=a/b"},
		},
		{
			from:     "echo GHSA-vfp3-v2gw-7wfq: what is escaped separates nothing",
			patterns: []string{"GET /admin/{file...}", "GET /{file}"},
			requests: map[string]string{
				"GET /admin%2Fsecret":   "GET /{file} file=admin/secret",
				"GET /admin%5Csecret":   `GET /{file} file=admin\secret`,
				"GET /admin%252Fsecret": "GET /{file} file=admin%2Fsecret",
				"GET /admin/a%2Fb/c":    "GET /admin/{file...} file=a/b/c",
				"GET /%61dmin/x":        "GET /admin/{file...} file=x",
				"GET /admin/%2e%2e/x":   "GET /admin/{file...} file=../x",
			},
		},
		{
			from:     "net/http: HEAD, methods and Allow",
			patterns: []string{"GET /a", "POST /a", "HEAD /b", "GET /b", "/c", "PURGE /c", "h.example/a"},
			requests: map[string]string{
				"HEAD /a": "GET /a", "HEAD /b": "HEAD /b", "PUT /a": "405 GET, HEAD, POST", "PURGE /c": "PURGE /c", "PUT /c": "/c",
				"PUT http://h.example/a": "h.example/a", "PUT http://h.example:81/a": "h.example/a", "GET http://other/a": "GET /a",
			},
		},
		{
			from:     "net/http: ends and slashes",
			patterns: []string{"/{$}", "/a/", "/a/{x}", "/b/{$}", "/b/{rest...}", "/c/{x}/"},
			requests: map[string]string{
				"GET /": "/{$}", "GET /z": "404", "GET /a": "307 /a/", "GET /a/": "/a/", "GET /a/1": "/a/{x} x=1", "GET /a/1/2": "/a/",
				"GET /b/": "/b/{$}", "GET /b": "307 /b/", "GET /b/1/": "/b/{rest...} rest=1/", "GET /c/1": "307 /c/1/",
				"GET //a//b?q=1": "307 /a/b?q=1", "GET /a/../b/": "307 /b/",
			},
		},
		{
			from:     "golang/go: a slash that is escaped is like the end, in ServeMux as well",
			patterns: []string{"/a/{$}", "/b/{x}"},
			requests: map[string]string{"GET /a/%2F": "/a/{$}", "GET /b/%2F": "404"},
		},
	} {
		t.Run(c.from, func(t *testing.T) {
			std := http.NewServeMux()
			for _, pattern := range c.patterns {
				if why := refused(func() { std.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {}) }); why != nil && !c.overlap {
					t.Fatalf("ServeMux refuses %q", pattern)
				}
			}
			mux := echoing(&route.Mux{Overlap: c.overlap}, c.patterns...)
			for request, want := range c.requests {
				method, target, _ := strings.Cut(request, " ")
				w, r := get(mux, method, target)
				got := w.Body.String()
				switch {
				case w.Code == http.StatusTemporaryRedirect:
					got = "307 " + w.Header().Get("Location")
				case w.Code == http.StatusMethodNotAllowed:
					got = "405 " + w.Header().Get("Allow")
				case w.Code == http.StatusNotFound:
					got = "404"
				}
				if got != want {
					t.Errorf("%s: %s, want %s", request, got, want)
				}
				if w.Code == http.StatusOK && !strings.HasPrefix(want, r.Pattern) {
					t.Errorf("%s: r.Pattern is %q", request, r.Pattern)
				}
			}
		})
	}
}

// Behind a router, a file server decodes escaped slashes, and so serves files that another pattern
// protects. ServeMux passes them on, and so does Mux by default.
func TestRefuseEncodedSlashes(t *testing.T) {
	mux := echoing(&route.Mux{RefuseEncodedSlashes: true}, "/admin/{file...}", "/{file...}")
	for target, want := range map[string]int{
		"/admin%2Fsecret": 400, "/admin%2fsecret": 400, "/admin%5csecret": 400, "/admin%5Csecret": 400, "/x%2": 0,
		"/admin/secret": 200, "/a%20b": 200, "/admin%252Fsecret": 200, "/%61": 200,
	} {
		if want == 0 {
			continue // not a URL
		}
		if w, _ := get(mux, "GET", target); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
}

// In ServeMux an empty segment in a pattern is a wildcard. For an empty segment in a CONNECT's path
// it returns the next wildcard's value, or panics. Here an empty segment matches an empty segment.
// docs/route.md describes both.
func TestEmptySegments(t *testing.T) {
	for _, c := range []struct{ pattern, request, here, there string }{
		{"/a//b", "GET /a/1/b", "404", "/a//b"},
		{"/a//b", "CONNECT /a/1/b", "404", "/a//b"},
		{"/a//b", "CONNECT /a//b", "/a//b", "/a//b"},
		{"CONNECT /a//b", "CONNECT /a/1/b", "404", "CONNECT /a//b"},
		{"CONNECT /a//b", "CONNECT /a//b", "CONNECT /a//b", "CONNECT /a//b"},
		{"/c/{x}/d", "CONNECT /c//d", "/c/{x}/d x=", "panics"},
		{"/c/{x}/d", "GET /c//d", "307 /c/d", "307 /c/d"},
		{"/{x}/{y}", "CONNECT //a", "/{x}/{y} x= y=a", "panics"},
		{"/{x}/{y...}", "CONNECT //a/b", "/{x}/{y...} x= y=a/b", "panics"},
		{"GET /a//b", "", "refused", "refused"},
	} {
		names := regexp.MustCompile(`\{(\w+)`).FindAllStringSubmatch(c.pattern, -1)
		handler := func(w http.ResponseWriter, r *http.Request) {
			text := r.Pattern
			for _, name := range names {
				text += " " + name[1] + "=" + r.PathValue(name[1])
			}
			io.WriteString(w, text)
		}
		for who, mux := range map[string]interface {
			http.Handler
			HandleFunc(string, func(http.ResponseWriter, *http.Request))
		}{"here": new(route.Mux), "ServeMux": http.NewServeMux()} {
			want := map[string]string{"here": c.here, "ServeMux": c.there}[who]
			got := "refused"
			if refused(func() { mux.HandleFunc(c.pattern, handler) }) == nil {
				got = said(mux, c.request)
			}
			if got != want {
				t.Errorf("%s, %q, %s: %q, want %q", who, c.pattern, c.request, got, want)
			}
		}
	}
}

// said summarises a mux's response.
func said(mux http.Handler, request string) string {
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, "http://h.example"+path, nil)
	if err != nil {
		return err.Error()
	}
	var w *httptest.ResponseRecorder
	if refused(func() { w = httpAnswer(mux, r) }) != nil {
		return "panics"
	}
	switch w.Code {
	case http.StatusNotFound:
		return "404"
	case http.StatusTemporaryRedirect:
		return "307 " + w.Header().Get("Location")
	}
	return w.Body.String()
}

// Registering an invalid pattern panics with the error, its place, and what to do.
func TestRefusedPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "no path", "GET": "no path", "GET x": "no path", "G{T /": "is not a method", "/{x}y": "mixes text", "/y{x}": "mixes text",
		"/{}": "not a valid wildcard name", "/{1}": "not a valid wildcard name", "/{x...}/y": "not at the end", "/{$}/": "not at the end", "/{x}/{x}": "two wildcards",
		"{x}/": "a host cannot have wildcards", "GET /a/../b": "write /b", "/a/{$}x": "mixes text", "/{x": "mixes text",
	} {
		why := refused(func() { new(route.Mux).HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {}) })
		err, _ := why.(error)
		if err == nil || !strings.Contains(text(err), want) || !strings.Contains(text(err), "facts_test.go:") {
			t.Errorf("%q: %v, want %q", pattern, why, want)
		}
	}
	for name, register := range map[string]func(*route.Mux){
		"nil":         func(m *route.Mux) { m.Handle("/", nil) },
		"HandlerFunc": func(m *route.Mux) { m.Handle("/", http.HandlerFunc(nil)) },
		"func":        func(m *route.Mux) { m.HandleFunc("/", nil) },
		"Params":      func(m *route.Mux) { m.HandleParams("/", nil) },
		"Ctx":         func(m *route.Mux) { m.HandleCtx("/", nil) },
	} {
		if why, _ := refused(func() { register(new(route.Mux)) }).(error); why == nil || !strings.Contains(text(why), "nil") {
			t.Errorf("%s: %v", name, why)
		}
	}
}

// text is an error's text, for tests of the text.
func text(err error) string { return err.Error() }

// A conflict names both patterns, both places, and paths that demonstrate it.
func TestConflicts(t *testing.T) {
	mux := echoing(new(route.Mux), "GET /{x}/b")
	err, _ := refused(func() { echoing(mux, "GET /a/{y}") }).(error)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`"GET /a/{y}"`, `"GET /{x}/b"`, "both match /a/b", "only the first matches /a/y", "only the second matches /x/b", "Overlap"} {
		if !strings.Contains(text(err), want) {
			t.Errorf("%q does not say %q", text(err), want)
		}
	}
	if n := strings.Count(text(err), "main_test.go:"); n != 2 {
		t.Errorf("%q names %d places", text(err), n)
	}
}
