package route

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
)

// A Middleware makes a handler that does something around another. It is called
// once for each pattern, when that is registered.
//
// Before handlers of Handle, a middleware sees r.PathValue; before all of them,
// r.Pattern. A handler with [Params] or [Ctx] has the values of the request that
// it is given: a middleware may change the path to another one of the same
// pattern; with any other, the last step panics.
type Middleware func(http.Handler) http.Handler

// A Group registers patterns with its prefix and behind its middleware, the first
// of which is the outermost. It holds nothing that a request needs.
type Group struct {
	mux    *Mux
	prefix string
	chain  []Middleware
}

// Group is a group within this one: its prefix comes behind this one's, its
// middleware inside. The prefix may begin with a host and have wildcards; it does
// not end in a slash. "" adds middleware alone.
func (g *Group) Group(prefix string, chain ...Middleware) *Group {
	if strings.ContainsAny(prefix, " \t") || strings.HasSuffix(prefix, "/") {
		panic(fmt.Errorf("route: prefix %q (at %s) has a blank, or a slash at its end; write a prefix like /api", prefix, callSite()))
	}
	if g.prefix != "" && prefix != "" && prefix[0] != '/' {
		panic(fmt.Errorf("route: prefix %q (at %s) has a host behind %q; begin it with a slash", prefix, callSite(), g.prefix))
	}
	all := append(append([]Middleware(nil), g.chain...), chain...)
	return &Group{g.mux, g.prefix + prefix, all}
}

// Handle is [Mux.Handle] in the group: the pattern's path comes behind the
// prefix. A pattern without a path, as "GET" or "", is the prefix alone.
func (g *Group) Handle(pattern string, h http.Handler) {
	f, isFunc := h.(http.HandlerFunc)
	g.register(pattern, h == nil || isFunc && f == nil, func(e *entry) { e.plain, e.setValues = h, len(e.wildcards) > 0 })
}

// HandleFunc is [Mux.HandleFunc] in the group.
func (g *Group) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	g.register(pattern, f == nil, func(e *entry) { e.plain, e.setValues = http.HandlerFunc(f), len(e.wildcards) > 0 })
}

// HandleParams is [Mux.HandleParams] in the group.
func (g *Group) HandleParams(pattern string, f ParamsFunc) {
	g.register(pattern, f == nil, func(e *entry) { e.direct = f })
}

// HandleCtx is [Mux.HandleCtx] in the group.
func (g *Group) HandleCtx(pattern string, f CtxFunc) {
	g.register(pattern, f == nil, func(e *entry) {
		e.direct = func(w http.ResponseWriter, r *http.Request, p Params) { g.mux.serveCtx(f, w, r, p) }
	})
}

// register adds a pattern that handle completes, or panics.
func (g *Group) register(text string, isNil bool, handle func(*entry)) {
	site := callSite()
	fail := func(err error) { panic(fmt.Errorf("route: pattern %q (registered at %s): %w", text, site, err)) }
	if isNil {
		fail(errors.New("the handler is nil; pass one"))
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

// join puts the group's prefix before the path of a pattern.
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
		return "", fmt.Errorf("it has a host behind the prefix %q; begin its path with a slash", g.prefix)
	}
	return method + g.prefix + rest, nil
}

// callSite is the file and line that called into this package.
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
