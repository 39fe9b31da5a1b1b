package route

import (
	"iter"
	"net/http"
)

// Params are the values of a pattern's wildcards in one request. They are four words that may
// be copied and kept. Nothing is parsed in advance: each access cuts the value out of the path,
// in about 10 ns and without an allocation unless the path is escaped (BenchmarkValue). The
// zero Params have no values.
type Params struct {
	entry   *entry
	path    string
	escaped bool // values must be decoded
}

// paramsOf returns the values of r's path, which matches e's pattern.
func paramsOf(e *entry, r *http.Request) Params {
	if isPlain(r.URL) {
		return Params{e, r.URL.Path, false}
	}
	return Params{e, r.URL.EscapedPath(), true}
}

// Len returns the number of named wildcards.
func (p Params) Len() int {
	if p.entry == nil {
		return 0
	}
	return len(p.entry.wildcards)
}

// Name returns the name of the i-th wildcard, counted from 0.
func (p Params) Name(i int) string { return p.entry.wildcards[i].name }

// At returns the decoded value of the i-th wildcard. It panics if i is out of range.
func (p Params) At(i int) string {
	all := p.entry.wildcards[:i+1]
	if p.escaped {
		return p.decode(all[i])
	}
	from, to := 0, 0
	for j := range all {
		from = to + all[j].skip
		if all[j].rest {
			to = len(p.path)
		} else {
			to = from + slashAt(p.path[from:])
		}
	}
	return p.path[from:to]
}

// decode returns the value of a wildcard in an escaped path.
func (p Params) decode(w wildcard) string {
	path := p.path
	for range w.place {
		_, path = first(path, false)
	}
	if w.rest {
		return unescape(path[1:])
	}
	value, _ := first(path, true)
	return value
}

// Get returns the value of the wildcard with this name, or "" if the pattern has none, like
// [http.Request.PathValue].
func (p Params) Get(name string) string {
	if p.entry == nil {
		return ""
	}
	for i := range p.entry.wildcards {
		if p.entry.wildcards[i].name == name {
			return p.At(i)
		}
	}
	return ""
}

// All iterates over names and values in order. It reads the path once, so it is faster than
// At or Get for handlers that need many values.
func (p Params) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		to := 0
		for i := range p.Len() {
			w := &p.entry.wildcards[i]
			var value string
			switch from := to + w.skip; {
			case p.escaped:
				value = p.decode(*w)
			case w.rest:
				value = p.path[from:]
			default:
				to = from + slashAt(p.path[from:])
				value = p.path[from:to]
			}
			if !yield(w.name, value) {
				return
			}
		}
	}
}

// Pattern returns the pattern as it was registered, or "".
func (p Params) Pattern() string {
	if p.entry == nil {
		return ""
	}
	return p.entry.text
}

// A Match is the result of [Mux.Lookup]. At most one of Allow, Location and a Pattern without
// Location says what happens; if none does, the answer is 404.
type Match struct {
	Pattern  string // the pattern that serves it, or that will match after the redirect
	Params   Params // the values of the pattern's wildcards
	Allow    string // 405: the methods that the path allows
	Location string // 307: the Location header that is sent

	entry *entry
}

// handler returns what serves the request. Location is as resolve sets it: http.Redirect has
// yet to rewrite it.
func (m Match) handler(mux *Mux) http.Handler {
	switch {
	case m.Location != "":
		return http.RedirectHandler(m.Location, http.StatusTemporaryRedirect)
	case m.entry != nil && m.entry.direct == nil && !m.entry.setValues:
		return m.entry.plain
	case m.entry != nil:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.entry.serve(w, r, m.Params) })
	case m.Allow != "":
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", m.Allow)
			if mux.NotAllowed != nil {
				mux.NotAllowed.ServeHTTP(w, r)
				return
			}
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		})
	case mux.NotFound != nil:
		return mux.NotFound
	}
	return http.NotFoundHandler()
}
