package route

import (
	"fmt"
	"net/http"
)

// An entry is a registered pattern and its handler.
type entry struct {
	*pattern
	takesRest bool       // the last segment matches the rest of the path
	wildcards []wildcard // those with a name
	direct    ParamsFunc // nil if plain must be called
	plain     http.Handler
	setValues bool // plain may call r.PathValue
}

// A wildcard is the position of a value, relative to the end of the previous one.
type wildcard struct {
	name  string
	skip  int // bytes to skip in an unescaped path: literals and slashes
	place int // the index of the segment
	rest  bool
}

func newEntry(p *pattern) *entry {
	e := &entry{pattern: p, takesRest: p.last().rest}
	skip := 0
	for i, s := range p.segments {
		skip++
		if !s.wild {
			skip += len(s.text)
			continue
		}
		if s.text != "" {
			e.wildcards = append(e.wildcards, wildcard{s.text, skip, i, s.rest})
		}
		skip = 0
	}
	return e
}

// serve calls the handler.
func (e *entry) serve(w http.ResponseWriter, r *http.Request, p Params) {
	if e.direct != nil {
		e.direct(w, r, p)
		return
	}
	if e.setValues {
		for i := range e.wildcards {
			r.SetPathValue(e.wildcards[i].name, p.At(i))
		}
	}
	e.plain.ServeHTTP(w, r)
}

// behind wraps e's handler in middleware. Middleware does not know Params, so the last step
// reads them again from the path of the request that it receives; that path must still match.
func (e *entry) behind(chain []Middleware) {
	if len(chain) == 0 {
		return
	}
	if f := e.direct; f != nil {
		e.direct, e.setValues = nil, false
		e.plain = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, e.read(r)) })
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if e.plain = chain[i](e.plain); e.plain == nil {
			panic(fmt.Errorf("route: a middleware of %q returned a nil handler (registered at %s); return the next handler instead", e.text, e.site))
		}
	}
}

// read returns the values for a request that middleware has passed on.
func (e *entry) read(r *http.Request) Params {
	p := paramsOf(e, r)
	if !e.matches(p.path, p.escaped) {
		panic(fmt.Sprintf("route: the middleware of %q (registered at %s) passed on a request for %q, which does not match the pattern; "+
			"use Handle for handlers whose middleware changes paths", e.text, e.site, r.URL.Path))
	}
	return p
}

// matches reports whether the pattern matches a path.
func (e *entry) matches(path string, escaped bool) bool {
	for _, s := range e.segments {
		if path == "" {
			return false
		}
		if s.rest {
			return true
		}
		var segment string
		segment, path = first(path, escaped)
		if s.wild && segment == end || !s.wild && segment != s.text {
			return false
		}
	}
	return path == ""
}
