// Package route is an HTTP mux with the syntax and rules of [http.ServeMux]. It finds handlers
// several times faster, and never gives one request's data to another.
//
//	var mux route.Mux
//	mux.HandleFunc("GET /health", health)                 // as in net/http
//	mux.HandleParams("GET /users/{id}", user)             // values without an allocation
//	mux.HandleCtx("POST /users/{id}/notes", addNote) // helpers, values, an error to return
//	api := mux.Group("/api", authenticate) // applied once, at registration
//	api.HandleParams("GET /files/{path...}", file)
//
// Patterns, precedence, conflicts, redirects, 405 and escaped paths work as in ServeMux.
// docs/route.md lists the differences. They are opt-in, except for empty segments, as in //a, in a
// pattern or in a CONNECT's path, and a limit of 62 different methods. Lookup never
// allocates, unless the path is escaped or unclean, or is redirected.
//
// Use ServeMux unless you have a reason: it takes 0.1 to 0.4 µs of a request that takes 19 µs
// over loopback (docs/route.md).
package route

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Mux dispatches requests to the handler of the most specific pattern. The zero Mux has no
// patterns. Patterns can be registered, and the whole table replaced, while it serves: a
// request sees either all of a change or none of it, and no request waits once the first has
// been served. A Mux must not be copied after first use.
type Mux struct {
	NotFound   http.Handler // answers if no pattern matches; nil: http.NotFound
	NotAllowed http.Handler // answers if the path has other methods, with Allow set; nil: a line of text

	// Error answers if a handler of HandleCtx returned an error. nil: the status and text of
	// a *[StatusError]; for other errors 500 without their text; and nothing if the Ctx has
	// already answered.
	Error func(Ctx, error)

	// Overlap accepts patterns that ServeMux refuses because both match some request and
	// neither is more specific, such as /{x}/b and /a/{y}. The first segment in which they
	// differ decides: a literal takes precedence over {x}, which takes precedence over
	// {x...}; then the method decides. false: they are refused. Set it before registering
	// the first pattern.
	Overlap bool

	// RefuseEncodedSlashes answers 400 to paths that contain %2F or %5C. A handler that
	// serves files by name, such as http.FileServer, takes /admin%2Fsecret for a file in
	// admin, but a pattern for /admin/ does not match it. false: an encoded slash is part of
	// a segment, as in ServeMux.
	RefuseEncodedSlashes bool

	mu      sync.Mutex // held while patterns change
	entries []*entry
	tries   map[string]*trie // by host
	methods map[string]bool  // of all patterns; "", which needs no bit, is always there
	serving bool             // a request has been served
	table   atomic.Pointer[table]
	states  sync.Pool // of *state
}

// A ParamsFunc is a handler that receives the values of its pattern's wildcards.
type ParamsFunc func(http.ResponseWriter, *http.Request, Params)

// Handle registers a handler for a pattern. The handler reads wildcard values with
// r.PathValue, which costs two allocations if the pattern has any. Handle panics if the
// pattern is malformed or conflicts with another; the panic value is an error with the file
// and line of both registrations.
func (m *Mux) Handle(pattern string, h http.Handler) { m.root().Handle(pattern, h) }

// HandleFunc registers a function as Handle registers a handler.
func (m *Mux) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	m.root().HandleFunc(pattern, f)
}

// HandleParams registers a function that receives the wildcard values as an argument, without
// an allocation. r.PathValue is empty there.
func (m *Mux) HandleParams(pattern string, f ParamsFunc) { m.root().HandleParams(pattern, f) }

// HandleCtx registers a function that receives a [Ctx], without an allocation.
func (m *Mux) HandleCtx(pattern string, f CtxFunc) { m.root().HandleCtx(pattern, f) }

// Group returns a group of patterns with a prefix and middleware; see [Group].
func (m *Mux) Group(prefix string, chain ...Middleware) *Group {
	return m.root().Group(prefix, chain...)
}

func (m *Mux) root() *Group { return &Group{mux: m} }

// add adds an entry, or reports a conflict.
func (m *Mux) add(e *entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tries[e.host]
	if t == nil {
		t = new(trie)
	}
	var rival *entry
	var why string
	t.rivals(e.segments, func(other *entry) bool {
		rival, why = other, conflict(e.pattern, other.pattern, m.Overlap)
		return why == ""
	})
	if why != "" {
		return fmt.Errorf("route: pattern %q (registered at %s) conflicts with pattern %q (registered at %s): %s",
			e.text, e.site, rival.text, rival.site, why)
	}
	if m.tries == nil {
		m.tries, m.methods = make(map[string]*trie), map[string]bool{"": true}
	}
	if !m.methods[e.method] && len(m.methods) > mostMethods {
		return fmt.Errorf("route: pattern %q (registered at %s) exceeds the limit of %d different methods per Mux; "+
			"register it without a method", e.text, e.site, mostMethods)
	}
	t.insert(e, 0)
	m.tries[e.host], m.methods[e.method] = t, true
	m.entries = append(m.entries, e)
	if m.serving {
		m.table.Store(newTable(m.entries, m.tries))
	}
	return nil
}

// current returns the table, compiled if patterns have changed.
func (m *Mux) current() *table {
	if t := m.table.Load(); t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.serving {
		m.serving = true
		m.table.Store(newTable(m.entries, m.tries))
	}
	return m.table.Load()
}

// Replace replaces the patterns and handlers of m by those that with has now, atomically.
// Requests in progress continue with the old ones. m keeps its fields, but handlers of
// HandleCtx keep with's Error. Later changes to with do not affect m.
func (m *Mux) Replace(with *Mux) {
	if m == with {
		return
	}
	with.current()
	with.mu.Lock()
	t, entries := with.table.Load(), slices.Clone(with.entries)
	with.mu.Unlock()
	tries, methods := make(map[string]*trie), map[string]bool{"": true}
	for _, e := range entries {
		methods[e.method] = true
		if tries[e.host] == nil {
			tries[e.host] = new(trie)
		}
		tries[e.host].insert(e, 0)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries, m.tries, m.methods, m.serving = entries, tries, methods, true
	m.table.Store(t)
}

// ServeHTTP calls the handler of the matching pattern, or answers with a redirect to the clean
// path or to the path with a final slash, with 405 or with 404.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := m.table.Load()
	if t == nil {
		t = m.current()
	}
	if u := r.URL; t.hosts == nil && isPlain(u) && r.RequestURI != "*" && !m.RefuseEncodedSlashes {
		own := t.every.clean.of(r.Method)
		var e *entry
		if own.exact.has(len(u.Path)) {
			e = own.exact.find(u.Path)
		}
		if e == nil && own.root != nil {
			e = own.root.walk(u.Path, 1, false)
		}
		if e != nil && (!e.takesRest || t.isSettled(e, u.Path)) {
			r.Pattern = e.text
			if e.direct != nil {
				e.direct(w, r, Params{e, u.Path, false})
			} else {
				e.serve(w, r, Params{e, u.Path, false})
			}
			return
		}
	}
	m.serveRest(t, w, r)
}

// isSettled reports whether a pattern that matches the rest of the path is the answer: the
// path is clean, and a final slash would change nothing.
func (t *table) isSettled(e *entry, path string) bool {
	return isClean(path) && !t.mayRedirect(e, path)
}

// serveRest is ServeHTTP for everything that the fast lookup does not find.
func (m *Mux) serveRest(t *table, w http.ResponseWriter, r *http.Request) {
	if r.RequestURI == "*" {
		if r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.RefuseEncodedSlashes && hasEncodedSlash(r.URL.EscapedPath()) {
		http.Error(w, "the path contains an escaped slash or backslash; send it unescaped", http.StatusBadRequest)
		return
	}
	found := t.resolve(r)
	r.Pattern = found.Pattern
	if found.entry != nil {
		found.entry.serve(w, r, found.Params)
		return
	}
	found.handler(m).ServeHTTP(w, r)
}

// hasEncodedSlash reports whether an escaped path contains %2F or %5C.
func hasEncodedSlash(path string) bool {
	slashes := []string{"%2F", "%2f", "%5C", "%5c"}
	return slices.ContainsFunc(slashes, func(slash string) bool { return strings.Contains(path, slash) })
}

// Lookup returns what ServeHTTP would do with a request, except for RefuseEncodedSlashes and
// requests for *. It does not change the request.
func (m *Mux) Lookup(r *http.Request) Match {
	found := m.current().resolve(r)
	if found.Location != "" {
		found.Location = redirected(r, found.Location)
	}
	return found
}

// redirected returns the Location that http.Redirect sends for a URL. It calls http.Redirect,
// because that cleans the path and encodes the query.
func redirected(r *http.Request, to string) string {
	h := http.Header{"Content-Type": nil} // with a Content-Type set, http.Redirect writes no body
	http.Redirect(discard{h}, r, to, http.StatusTemporaryRedirect)
	return h.Get("Location")
}

// discard is a ResponseWriter that keeps only the header.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

// Handler returns the handler for a request and its pattern, like [http.ServeMux.Handler]: the
// handler is never nil, and the pattern of a 404 or 405 is "". Handler does not change the
// request; the handler must be called with that same request.
func (m *Mux) Handler(r *http.Request) (h http.Handler, pattern string) {
	found := m.current().resolve(r)
	return found.handler(m), found.Pattern
}

// String returns the tree of patterns: a line per segment, with the patterns that end there
// and where they were registered. The segments of each host are below its name.
func (m *Mux) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, host := range slices.Sorted(maps.Keys(m.tries)) {
		depth := 0
		if host != "" {
			b.WriteString(host + "\n")
			depth = 1
		}
		m.tries[host].print(&b, depth)
	}
	return b.String()
}
