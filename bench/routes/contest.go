package routes

import (
	"net/http"
	"slices"
	"time"
)

// A sink takes answers and keeps the status.
type sink struct {
	header http.Header
	code   int
}

func (s *sink) Header() http.Header               { return s.header }
func (s *sink) WriteHeader(code int)              { s.code = code }
func (s *sink) Write(p []byte) (int, error)       { return len(p), nil }
func (s *sink) WriteString(p string) (int, error) { return len(p), nil }

// turn asks h for each request.
func turn(h http.Handler, w *sink, all []*http.Request) {
	for _, r := range all {
		h.ServeHTTP(w, r)
	}
}

// A Contest is some requests, and the routers that can answer them.
type Contest struct {
	Name     string
	requests []*http.Request
	names    []string
	handlers []http.Handler
}

// Contests are what is compared of routers alone.
func Contests() []Contest {
	var all []Contest
	add := func(name string, s Set, build func(Router) func([]Route) http.Handler, requests []*http.Request) {
		c := Contest{Name: name + "/" + s.Name, requests: requests}
		for _, router := range Routers() {
			if with := build(router); with != nil {
				if h := with(s.Routes); h != nil {
					c.names, c.handlers = append(c.names, router.Name), append(c.handlers, h)
				}
			}
		}
		all = append(all, c)
	}
	empty := func(r Router) func([]Route) http.Handler { return r.Empty }
	for _, s := range Sets() {
		add("Published", s, empty, s.AsPublished())
	}
	for _, s := range Sets() {
		add("Clients", s, empty, s.AsClients())
	}
	for _, s := range Sets() {
		add("Values", s, func(r Router) func([]Route) http.Handler { return r.Values }, s.AsClients())
	}
	for _, s := range Sets()[3:] {
		add("Misses", s, empty, s.Misses())
	}
	for _, s := range Sets()[3:] {
		add("WrongMethods", s, empty, s.WrongMethods())
	}
	return all
}

// Measure tells the ns of all requests together, once for each run and router. The
// routers take turns within a run, each time beginning with another one, and a run
// is the median of 30 turns.
func (c Contest) Measure(runs int, tell func(router string, ns float64)) {
	const turns, slice = 30, 300 * time.Microsecond
	w := &sink{header: make(http.Header)}
	repeat := make([]int, len(c.handlers))
	for i, h := range c.handlers {
		turn(h, w, c.requests)
		for least := time.Hour; least > 0; {
			began := time.Now()
			turn(h, w, c.requests)
			took := time.Since(began)
			if took >= least {
				break
			}
			least = took
			repeat[i] = int(max(1, slice/max(1, took)))
		}
	}
	for range runs {
		times := make([][]float64, len(c.handlers))
		for t := range turns {
			for k := range c.handlers {
				i := (k + t) % len(c.handlers)
				began := time.Now()
				for range repeat[i] {
					turn(c.handlers[i], w, c.requests)
				}
				times[i] = append(times[i], float64(time.Since(began))/float64(repeat[i]))
			}
		}
		for i, name := range c.names {
			slices.Sort(times[i])
			tell(name, (times[i][turns/2-1]+times[i][turns/2])/2)
		}
	}
}
