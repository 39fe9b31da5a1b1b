// Package route is an HTTP mux that speaks the language of [http.ServeMux], finds
// handlers several times faster, and cannot give one request's data to another.
//
//	var mux route.Mux
//	mux.HandleFunc("GET /health", health)                 // as in net/http
//	mux.HandleParams("GET /users/{id}", user)             // values without an allocation
//	mux.HandleCtx("POST /users/{id}/notes", addNote)      // helpers, a store, an error to return
//	api := mux.Group("/api", authenticate)                // composed once, here
//	api.HandleParams("GET /files/{path...}", file)
//
// Patterns, precedence, conflicts, redirects, 405 and escaped paths are those of
// ServeMux; the differences are on the page docs/route.md: opt-in, but for empty
// segments, as in //a, of a pattern or of a CONNECT's path, and a limit of 62
// different methods. Lookup does not
// allocate, whatever it finds, unless the path is escaped, is not clean or is
// redirected.
//
// Use ServeMux unless you have a reason: it takes 0.1 to 0.4 µs of a request
// that takes 19 over loopback (docs/route.md).
package route

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Mux sends requests to the handler of the most specific pattern. The zero Mux
// has none. Patterns can be registered, and the whole table replaced, while it
// serves: a request sees either all of a change or nothing of it, and never waits
// once the first has been served. A Mux must not be copied after first use.
type Mux struct {
	NotFound   http.Handler // answers where no pattern matches; nil: http.NotFound
	NotAllowed http.Handler // answers where the method is missing, with Allow set; nil: a line of text

	// Error answers for a handler of HandleCtx that returned an error. nil: the
	// status and text of a *[StatusError], for others 500 and nothing of their
	// text; and nothing at all where the Ctx has already answered.
	Error func(Ctx, error)

	// Overlap accepts patterns that ServeMux refuses because both match some
	// request and neither is more specific, as /{x}/b and /a/{y}. The first
	// segment in which they differ decides: a literal goes before {x}, and that
	// before {x...}; then the method. false: they are refused. Set it before
	// the first pattern.
	Overlap bool

	// RefuseEncodedSlashes answers 400 to a path that has %2F or %5C. A
	// handler that serves files by name, such as http.FileServer, takes
	// /admin%2Fsecret for a file in admin, and a pattern of /admin/ does not.
	// false: they are parts of a segment, as in ServeMux.
	RefuseEncodedSlashes bool

	mu      sync.Mutex // held while patterns change
	entries []*entry
	tries   map[string]*trie // by host
	methods map[string]bool  // that patterns name
	serving bool             // a request has been seen
	table   atomic.Pointer[table]
	states  sync.Pool // of *state
}

// A ParamsFunc is a handler that gets the values of its pattern's wildcards.
type ParamsFunc func(http.ResponseWriter, *http.Request, Params)

// Handle registers a handler for a pattern. The handler finds the values of
// wildcards with r.PathValue, which costs two allocations where there are any. It
// panics when the pattern is malformed or conflicts with another; the error that
// it panics with has the file and line of both.
func (m *Mux) Handle(pattern string, h http.Handler) { m.root().Handle(pattern, h) }

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	m.root().HandleFunc(pattern, f)
}

// HandleParams registers a function that gets its values as an argument, for no
// allocation. r.PathValue has none for it.
func (m *Mux) HandleParams(pattern string, f ParamsFunc) { m.root().HandleParams(pattern, f) }

// HandleCtx registers a function that gets a [Ctx], for no allocation.
func (m *Mux) HandleCtx(pattern string, f CtxFunc) { m.root().HandleCtx(pattern, f) }

// Group is where patterns get a prefix and middleware; see [Group].
func (m *Mux) Group(prefix string, chain ...Middleware) *Group {
	return m.root().Group(prefix, chain...)
}

func (m *Mux) root() *Group { return &Group{mux: m} }

// add puts an entry among the others.
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
		m.tries, m.methods = make(map[string]*trie), make(map[string]bool)
	}
	if !m.methods[e.method] && len(m.methods) == mostMethods {
		return fmt.Errorf("route: pattern %q (registered at %s) has one method more than the %d that a Mux can have; "+
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

// current is the table to look into.
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

// Replace gives m the patterns and handlers that with has now, at once, and
// forgets its own; requests that have begun go on with theirs. m keeps its
// fields. Handlers of HandleCtx keep with's Error. Later changes of with are its
// own.
func (m *Mux) Replace(with *Mux) {
	if m == with {
		return
	}
	with.current()
	with.mu.Lock()
	t, entries := with.table.Load(), slices.Clone(with.entries)
	with.mu.Unlock()
	tries, methods := make(map[string]*trie), make(map[string]bool)
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

// ServeHTTP answers a request: by the handler of its pattern, with a redirect to
// its clean path or to the one with a slash, with 405 or with 404.
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

// isSettled reports whether a pattern that takes the rest of the path is the
// answer, because the path is clean and no slash at its end is of interest.
func (t *table) isSettled(e *entry, path string) bool {
	return isClean(path) && !t.mayRedirect(e, path)
}

// serveRest is ServeHTTP for everything that is not found at once.
func (m *Mux) serveRest(t *table, w http.ResponseWriter, r *http.Request) {
	if r.RequestURI == "*" {
		if r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.RefuseEncodedSlashes && hasEncodedSlash(r.URL.EscapedPath()) {
		http.Error(w, "a slash or backslash in the path is escaped; send it plain", http.StatusBadRequest)
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

// hasEncodedSlash reports whether an escaped path has %2F or %5C.
func hasEncodedSlash(path string) bool {
	for {
		_, after, found := strings.Cut(path, "%")
		if !found {
			return false
		}
		if len(after) >= 2 && (after[0] == '2' && after[1]|0x20 == 'f' || after[0] == '5' && after[1]|0x20 == 'c') {
			return true
		}
		path = after
	}
}

// Lookup says what ServeHTTP would do with a request, but for
// RefuseEncodedSlashes and a request for *. It does not change the request.
func (m *Mux) Lookup(r *http.Request) Match {
	found := m.current().resolve(r)
	if found.Location != "" {
		found.Location = redirected(r, found.Location)
	}
	return found
}

// redirected is the Location that http.Redirect sends for a URL: it cleans the path
// and encodes the query, so only its own answer is the one that the client gets.
func redirected(r *http.Request, to string) string {
	h := http.Header{"Content-Type": nil} // where there is a type, no body is written
	http.Redirect(discard{h}, r, to, http.StatusTemporaryRedirect)
	return h.Get("Location")
}

// discard is a ResponseWriter of which only the header is wanted.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

// Handler is the handler for a request and its pattern, like
// [http.ServeMux.Handler]: it is never nil, and the pattern of a 404 or 405 is
// "". It does not change the request; the handler must be given that very one.
func (m *Mux) Handler(r *http.Request) (h http.Handler, pattern string) {
	found := m.current().resolve(r)
	return found.handler(m), found.Pattern
}

// String is the tree of patterns: a line for each segment, and in it the patterns
// that end there and where they were registered. The segments of each host stand
// below its name.
func (m *Mux) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hosts []string
	for host := range m.tries {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	var b strings.Builder
	for _, host := range hosts {
		depth := 0
		if host != "" {
			b.WriteString(host + "\n")
			depth = 1
		}
		m.tries[host].print(&b, depth)
	}
	return b.String()
}
