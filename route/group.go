package route

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
)

// A Middleware wraps a handler. It is called once per pattern, at registration.
//
// For handlers registered with Handle, middleware can read r.PathValue; for all of them,
// r.Pattern. A handler with [Params] or [Ctx] gets the values of the request that it
// receives: middleware may change the path to another one that matches the same pattern;
// with any other path, the last step panics.
type Middleware func(http.Handler) http.Handler

// A Group registers patterns with a prefix and middleware, of which the first is the
// outermost. Serving a request does not use it.
type Group struct {
	mux    *Mux
	prefix string
	chain  []Middleware
}

// Group returns a group within g: its prefix follows g's prefix, and its middleware runs inside
// g's. The prefix may start with a host and may have wildcards; it must not end in a slash.
// "" adds only middleware.
func (g *Group) Group(prefix string, chain ...Middleware) *Group {
	if strings.ContainsAny(prefix, " \t") || strings.HasSuffix(prefix, "/") {
		panic(fmt.Errorf("route: prefix %q (at %s) contains a blank or ends in a slash; write a prefix like /api", prefix, callSite()))
	}
	if g.prefix != "" && prefix != "" && prefix[0] != '/' {
		panic(fmt.Errorf("route: prefix %q (at %s) has a host after the prefix %q; begin it with a slash", prefix, callSite(), g.prefix))
	}
	all := append(append([]Middleware(nil), g.chain...), chain...)
	return &Group{g.mux, g.prefix + prefix, all}
}

// Handle is [Mux.Handle] within the group: the pattern's path follows the prefix. A pattern
// without a path, such as "GET" or "", stands for the prefix itself.
func (g *Group) Handle(pattern string, h http.Handler) {
	f, isFunc := h.(http.HandlerFunc)
	g.register(pattern, h == nil || isFunc && f == nil, func(e *entry) { e.plain, e.setValues = h, len(e.wildcards) > 0 })
}

// HandleFunc is [Mux.HandleFunc] within the group.
func (g *Group) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	g.register(pattern, f == nil, func(e *entry) { e.plain, e.setValues = http.HandlerFunc(f), len(e.wildcards) > 0 })
}

// HandleParams is [Mux.HandleParams] within the group.
func (g *Group) HandleParams(pattern string, f ParamsFunc) {
	g.register(pattern, f == nil, func(e *entry) { e.direct = f })
}

// HandleCtx is [Mux.HandleCtx] within the group.
func (g *Group) HandleCtx(pattern string, f CtxFunc) {
	g.register(pattern, f == nil, func(e *entry) {
		e.direct = func(w http.ResponseWriter, r *http.Request, p Params) { g.mux.serveCtx(f, w, r, p) }
	})
}

// register adds a pattern whose handler the function handle sets. It panics on errors.
func (g *Group) register(text string, isNil bool, handle func(*entry)) {
	site := callSite()
	fail := func(err error) { panic(fmt.Errorf("route: pattern %q (registered at %s): %w", text, site, err)) }
	if isNil {
		fail(errors.New("the handler is nil; pass a handler"))
	}
	full, err := g.join(text)
	if err != nil {
		fail(err)
	}
	p, err := parse(full)
	if err != nil {
		fail(err)
	}
	p.site = site
	e := newEntry(p)
	handle(e)
	e.behind(g.chain)
	if err := g.mux.add(e); err != nil {
		panic(err)
	}
}

// join inserts the group's prefix before the path of a pattern.
func (g *Group) join(text string) (string, error) {
	if g.prefix == "" {
		return text, nil
	}
	method, rest := "", text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		method, rest = text[:i+1], strings.TrimLeft(text[i+1:], " \t")
	} else if !strings.Contains(text, "/") && text != "" {
		method, rest = text+" ", ""
	}
	if rest != "" && rest[0] != '/' {
		return "", fmt.Errorf("it has a host after the prefix %q; begin the path with a slash", g.prefix)
	}
	return method + g.prefix + rest, nil
}

// callSite is the file and line of the call into this package.
func callSite() string {
	const methods = "github.com/hone-go/hone/route.("
	const handle = "github.com/hone-go/hone/route.Ctx."
	callers := make([]uintptr, 16)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		f, more := frames.Next()
		if f.PC != 0 && !strings.HasPrefix(f.Function, methods) && !strings.HasPrefix(f.Function, handle) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
