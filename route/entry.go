package route

import (
	"fmt"
	"net/http"
)

// An entry is a registered pattern and what serves it.
type entry struct {
	*pattern
	takesRest bool       // the last segment takes all that is left
	wildcards []wildcard // those with a name
	direct    ParamsFunc // nil where plain has to be asked
	plain     http.Handler
	setValues bool // plain may ask for r.PathValue
}

// A wildcard is where the value of one is, seen from the end of the one before.
type wildcard struct {
	name  string
	skip  int // bytes in an unescaped path: the literals between, and slashes
	place int // the number of the segment
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

// serve has the request answered.
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

// behind makes e served by what middleware makes of its handler. A middleware
// does not know of Params, so the last step finds them again: in the path of the
// request that it gets, which has to match still.
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
			panic(fmt.Errorf("route: a middleware of %q made a nil handler (registered at %s); return the next one instead", e.text, e.site))
		}
	}
}

// read finds the values in a request that middleware has let pass.
func (e *entry) read(r *http.Request) Params {
	p := paramsOf(e, r)
	if !e.matches(p.path, p.escaped) {
		panic(fmt.Sprintf("route: the middleware of %q (registered at %s) passed on a request for %q, which has no values for it; "+
			"use Handle for handlers behind a middleware that changes paths", e.text, e.site, r.URL.Path))
	}
	return p
}

// matches reports whether a path is one of the pattern's.
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
