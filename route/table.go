package route

import (
	"maps"
	"math/bits"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// mostMethods is how many different methods one Mux can distinguish: one bit each, plus one
// for HEAD and one for patterns without a method.
const mostMethods = 62

// anyMethod is the bit of patterns without a method.
const anyMethod = 1 << 63

// A table is a Mux's patterns, compiled. It is immutable: registering a pattern leads to a new
// table.
type table struct {
	every   *domain            // patterns without a host
	hosts   map[string]*domain // by host; nil if no pattern has one
	methods []string           // all that occur in patterns, sorted
	deepest int                // segments of the longest pattern that matches a path with a final slash
	allowed atomic.Pointer[map[uint64]string]
}

// A domain holds the trees of one host.
type domain struct {
	clean trees // for paths that are neither escaped nor unclean: no odd literals, no CONNECT
	all   trees
	union *node // every method
}

// trees are the trees of each method. A method's tree contains what serves that method: if two
// patterns match the same paths, the one that names the method. GET serves HEAD too, and
// patterns without a method serve all. The patterns that match a request are ordered by
// specificity, in method and path, so the path alone finds the one with precedence.
type trees struct {
	get, head, post, put, patch, del, options, other *tree
	named                                            map[string]*tree // other methods that patterns name
}

type tree struct {
	exact exact
	root  *node // may be nil
}

// of returns the tree for a method.
func (t *trees) of(method string) *tree {
	switch method {
	case "GET":
		return t.get
	case "HEAD":
		return t.head
	case "POST":
		return t.post
	case "PUT":
		return t.put
	case "PATCH":
		return t.patch
	case "DELETE":
		return t.del
	case "OPTIONS":
		return t.options
	}
	if own, known := t.named[method]; known {
		return own
	}
	return t.other
}

// find returns the entry for an unescaped path that begins with a slash; with slash, for the
// path and one more slash.
func (t *tree) find(path string, slash bool) *entry {
	if !slash && t.exact.has(len(path)) {
		if e := t.exact.find(path); e != nil {
			return e
		}
	}
	if t.root == nil {
		return nil
	}
	return t.root.walk(path, 1, slash)
}

// newTable compiles the entries and the tries that contain them, by host.
func newTable(entries []*entry, tries map[string]*trie) *table {
	t := &table{methods: methodsOf(entries)}
	t.allowed.Store(new(map[uint64]string))
	byHost := make(map[string][]*entry)
	for _, e := range entries {
		byHost[e.host] = append(byHost[e.host], e)
		if last := e.last(); last.rest || last.isEnd() {
			t.deepest = max(t.deepest, len(e.segments))
		}
	}
	for host, own := range byHost {
		d := t.newDomain(own, tries[host])
		switch {
		case host == "":
			t.every = d
		case t.hosts == nil:
			t.hosts = map[string]*domain{host: d}
		default:
			t.hosts[host] = d
		}
	}
	if t.every == nil {
		t.every = t.newDomain(nil, new(trie))
	}
	return t
}

// methodsOf lists the methods that entries name, and HEAD if there is GET.
func methodsOf(entries []*entry) []string {
	names := make(map[string]bool)
	for _, e := range entries {
		names[e.method] = true
		if e.method == "GET" {
			names["HEAD"] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

func (t *table) newDomain(entries []*entry, all *trie) *domain {
	d := &domain{all: t.newTrees(entries, all)}
	tidy, odd := new(trie), false
	for _, e := range entries {
		if e.isOdd() {
			odd = true
		} else {
			tidy.insert(e, 0)
		}
	}
	d.clean = d.all
	if odd {
		d.clean = t.newTrees(entries, tidy)
	}
	d.clean.named = maps.Clone(d.clean.named)
	if d.clean.named == nil {
		d.clean.named = make(map[string]*tree)
	}
	d.clean.named["CONNECT"] = new(tree)
	none := func([]*entry) *entry { return nil }
	d.union = all.compile(none, t.bitsOf)
	if d.union == nil {
		d.union = new(node)
	}
	return d
}

// newTrees compiles one tree for each method that patterns name, and one for all others.
func (t *table) newTrees(entries []*entry, from *trie) trees {
	build := func(method string) *tree {
		choose := func(same []*entry) *entry { return best(same, method) }
		none := func([]*entry) uint64 { return 0 }
		return &tree{newExact(entries, choose), from.compile(choose, none)}
	}
	s := trees{other: build("")}
	s.get, s.head, s.post, s.put, s.patch, s.del, s.options = s.other, s.other, s.other, s.other, s.other, s.other, s.other
	known := map[string]**tree{"GET": &s.get, "HEAD": &s.head, "POST": &s.post, "PUT": &s.put,
		"PATCH": &s.patch, "DELETE": &s.del, "OPTIONS": &s.options}
	for _, method := range t.methods {
		if field := known[method]; field != nil {
			*field = build(method)
			continue
		}
		if s.named == nil {
			s.named = make(map[string]*tree)
		}
		s.named[method] = build(method)
	}
	return s
}

// best picks the one of several entries for the same paths that serves a method: the one that
// names it, else GET for HEAD, else the one without a method.
func best(same []*entry, method string) *entry {
	var found *entry
	for _, e := range same {
		switch {
		case e.method == method:
			return e
		case e.method == "GET" && method == "HEAD":
			found = e
		case e.method == "" && found == nil:
			found = e
		}
	}
	return found
}

// bitsOf returns the set of methods that entries name.
func (t *table) bitsOf(entries []*entry) uint64 {
	var set uint64
	for _, e := range entries {
		if e.method == "" {
			set |= anyMethod
		}
		if at, named := slices.BinarySearch(t.methods, e.method); named {
			set |= 1 << at
		}
		if at, _ := slices.BinarySearch(t.methods, "HEAD"); e.method == "GET" {
			set |= 1 << at
		}
	}
	return set
}

// A question is a lookup in a table.
type question struct {
	host, method, path string
	escaped            bool
}

// of returns the patterns of a host; nil: it has none of its own. Without hosts it looks nothing up.
func (t *table) of(host string) *domain {
	if t.hosts == nil || host == "" {
		return nil
	}
	return t.hosts[host]
}

// match returns the entry with precedence, or nil. The host's patterns take precedence over
// those without a host.
func (t *table) match(q question) *entry {
	if d := t.of(q.host); d != nil {
		if e := d.match(q); e != nil {
			return e
		}
	}
	return t.every.match(q)
}

func (d *domain) match(q question) *entry {
	if own := d.all.of(q.method); own.root != nil {
		return own.root.seek(q.path, q.escaped)
	}
	return nil
}

// find is match for a clean, unescaped path; with slash, for the path and one more slash.
func (t *table) find(host, method, path string, slash bool) *entry {
	if d := t.of(host); d != nil {
		if e := d.clean.of(method).find(path, slash); e != nil {
			return e
		}
	}
	return t.every.clean.of(method).find(path, slash)
}

// methodsFor returns the methods that a path, or the path with one more slash, allows.
func (t *table) methodsFor(q question) uint64 {
	set := t.every.methodsFor(q)
	if d := t.of(q.host); d != nil {
		set |= d.methodsFor(q)
	}
	return set
}

func (d *domain) methodsFor(q question) uint64 {
	if q.escaped {
		return d.union.collect(q.path, true)
	}
	return d.union.gather(q.path, 1)
}

// serves reports whether a set of methods serves this one.
func (t *table) serves(set uint64, method string) bool {
	if set&anyMethod != 0 {
		return true
	}
	at, named := slices.BinarySearch(t.methods, method)
	return named && set>>at&1 != 0
}

// allow returns the Allow header for a set of methods, or "" for none.
func (t *table) allow(set uint64) string {
	if set &^= anyMethod; set == 0 {
		return ""
	}
	known := t.allowed.Load()
	if text, ok := (*known)[set]; ok {
		return text
	}
	var names []string
	for left := set; left != 0; left &= left - 1 {
		names = append(names, t.methods[bits.TrailingZeros64(left)])
	}
	text := strings.Join(names, ", ")
	more := maps.Clone(*known)
	if more == nil {
		more = make(map[uint64]string)
	}
	more[set] = text
	t.allowed.CompareAndSwap(known, &more) // if another goroutine wins, a later request stores it
	return text
}

// resolve applies the rules of ServeMux in order.
func (t *table) resolve(r *http.Request) Match {
	if r.Method == http.MethodConnect {
		return t.resolveConnect(r)
	}
	host := ""
	if t.hosts != nil {
		host = withoutPort(r.Host)
	}
	path := r.URL.Path
	if isPlain(r.URL) && isClean(path) {
		q := question{host, r.Method, path, false}
		e := t.find(host, r.Method, path, false)
		var methods uint64
		if e == nil {
			methods = t.methodsFor(q)
		}
		if t.mayRedirect(e, path) && (e != nil || t.serves(methods, r.Method)) {
			if to := t.find(host, r.Method, path, true); to.isExact(path) {
				return redirectToSlash(to.text, r.URL)
			}
		}
		return conclude(e, q, t.allow(methods))
	}
	return t.resolveEscaped(host, r)
}

// resolveEscaped is resolve for paths that are escaped or unclean.
func (t *table) resolveEscaped(host string, r *http.Request) Match {
	escaped := r.URL.EscapedPath()
	q := question{host, r.Method, clean(escaped), true}
	e := t.match(q)
	if t.mayRedirect(e, q.path) {
		slashed := q
		slashed.path += "/"
		if to := t.match(slashed); to.isExact(q.path) {
			return redirectToSlash(to.text, r.URL)
		}
	}
	if q.path != escaped {
		to := url.URL{Path: q.path, RawQuery: r.URL.RawQuery}
		m := Match{Location: to.String()}
		if e != nil {
			m.Pattern = e.text
		}
		return m
	}
	return t.settle(e, q)
}

// resolveConnect is resolve for CONNECT: its path is not cleaned, and its host keeps the port.
func (t *table) resolveConnect(r *http.Request) Match {
	q := question{r.URL.Host, r.Method, r.URL.EscapedPath(), true}
	e := t.match(q)
	if t.mayRedirect(e, q.path) {
		slashed := q
		slashed.path += "/"
		if to := t.match(slashed); to.isExact(q.path) {
			m := redirectToSlash("", r.URL)
			m.Pattern = clean(r.URL.Path) + "/"
			return m
		}
	}
	q.host = r.Host
	e = t.match(q)
	q.host = r.URL.Host
	return t.settle(e, q)
}

// settle returns the answer if there is no redirect.
func (t *table) settle(e *entry, q question) Match {
	if e != nil {
		return conclude(e, q, "")
	}
	return conclude(nil, q, t.allow(t.methodsFor(q)))
}

func conclude(e *entry, q question, allow string) Match {
	if e == nil {
		return Match{Allow: allow}
	}
	return Match{Pattern: e.text, Params: Params{e, q.path, q.escaped}, entry: e}
}

// mayRedirect reports whether a path that found e could match something better with a final
// slash.
func (t *table) mayRedirect(e *entry, path string) bool {
	if path == "" || path[len(path)-1] == '/' {
		return false
	}
	return e == nil || e.takesRest && (t.deepest > len(e.segments) || path[0] != '/')
}

// isExact reports whether e matches the path and a slash with its {x...} matching nothing.
func (e *entry) isExact(path string) bool {
	return e != nil && (!e.takesRest || len(e.segments) == strings.Count(path, "/")+1)
}

// redirectToSlash redirects to the path with a final slash.
func redirectToSlash(pattern string, from *url.URL) Match {
	to := url.URL{Path: clean(from.Path) + "/", RawQuery: from.RawQuery}
	return Match{Pattern: pattern, Location: to.String()}
}

// isPlain reports whether a URL's path is unescaped, so that its segments need no decoding.
func isPlain(u *url.URL) bool {
	return u.RawPath == "" && u.Path != "" && u.Path[0] == '/'
}

// isClean reports whether cleaning would not change the path.
func isClean(path string) bool {
	return !strings.Contains(path, "//") && !strings.Contains(path, "/.") || clean(path) == path
}

// withoutPort returns the host of "host:port".
func withoutPort(host string) string {
	if !strings.Contains(host, ":") {
		return host
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
