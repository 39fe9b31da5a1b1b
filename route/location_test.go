package route_test

import (
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hone-go/hone/route"
)

// Lookup returns the Location that ServeHTTP sends, which is ServeMux's, for every path of three
// segments that cleaning, decoding or encoding may change, with all kinds of queries and hosts.
// TestSameAsServeMux adds random patterns.
func TestLookupLocation(t *testing.T) {
	for _, patterns := range [][]string{
		{"GET /{y}/"},
		{"GET /{x}/{y}/{$}", "CONNECT /{x}/", "GET h.example/{x}/{y}/{z}/"},
		{"/"},
	} {
		std, mux := http.NewServeMux(), echoing(new(route.Mux), patterns...)
		for _, pattern := range patterns {
			std.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
		}
		redirects, wrong := 0, 0
		for r := range redirectable(t) {
			looked, sent, theirs := mux.Lookup(r).Location, location(mux, r), location(std, r)
			if r.Method == http.MethodConnect && strings.Contains(r.URL.Path, "//") {
				theirs = sent // they differ: see TestEmptySegments
			}
			if sent != "" {
				redirects++
			}
			if looked == sent && sent == theirs {
				continue
			}
			if wrong++; wrong <= 5 {
				t.Errorf("%s %v of %s among %q: Lookup has %q, ServeHTTP sends %q, ServeMux %q", r.Method, r.URL, r.Host, patterns, looked, sent, theirs)
			}
		}
		if t.Logf("%q: %d redirects, %d wrong", patterns, redirects, wrong); redirects == 0 {
			t.Errorf("%q: nothing was redirected", patterns)
		}
	}
}

// redirectable generates requests as a server parses them.
func redirectable(t *testing.T) iter.Seq[*http.Request] {
	segments := []string{"", "a", ".", "..", "%2e", "%2E%2e", "%2F", "..%2F", "%2f%2Fh.example", "%5C", "%25", "ä", "a:b"}
	return func(yield func(*http.Request) bool) {
		for i := range len(segments) * len(segments) * len(segments) * 2 {
			n := len(segments)
			path := "/" + segments[i%n] + "/" + segments[i/n%n] + "/" + segments[i/n/n%n] + strings.Repeat("/", i/n/n/n)
			for j, query := range []string{"", "?q=1", "?q=/../ä", "??", "?q=#/../"} {
				u, err := url.ParseRequestURI(path + query)
				if err != nil {
					t.Fatal(err)
				}
				method := []string{"GET", "GET", "POST", "CONNECT"}[(i+j)%4]
				r := &http.Request{Method: method, Host: []string{"other", "h.example:80"}[i%2], URL: u, ProtoMajor: 1, ProtoMinor: 1}
				if method == http.MethodConnect {
					u.Host = r.Host
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// location is the Location that h sends, or "".
func location(h http.Handler, r *http.Request) string {
	w := sink{header: make(http.Header)}
	h.ServeHTTP(&w, r.Clone(r.Context()))
	return w.header.Get("Location")
}
