package routes

import (
	"context"
	"net/http"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
	"github.com/hone-go/hone/bench/table"
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

// ask asks h for each request.
func ask(h http.Handler, w *sink, all []*http.Request) {
	for _, r := range all {
		h.ServeHTTP(w, r)
	}
}

// A contest is some requests, and the routers that can answer them.
type contest struct {
	name     string
	requests []*http.Request
	routers  []string
	handlers []http.Handler
}

// contests are what is compared: Published asks as the usual benchmark does, Clients as clients do, Values has
// the handlers read every value by its name, Misses asks for what is not there, WrongMethods with a method that
// is not there.
func contests() []contest {
	var all []contest
	add := func(name string, sets []Set, build func(Router) func([]Route) http.Handler, requests func(Set) []*http.Request) {
		for _, s := range sets {
			c := contest{name: name + "/" + s.Name, requests: requests(s)}
			for _, router := range Routers() {
				if h := build(router)(s.Routes); h != nil {
					c.routers, c.handlers = append(c.routers, router.Name), append(c.handlers, h)
				}
			}
			all = append(all, c)
		}
	}
	empty := func(r Router) func([]Route) http.Handler { return r.Empty }
	add("Published", Sets(), empty, Set.AsPublished)
	add("Clients", Sets(), empty, Set.AsClients)
	add("Values", Sets(), func(r Router) func([]Route) http.Handler { return r.Values }, Set.AsClients)
	add("Misses", Sets()[3:], empty, Set.Misses)
	add("WrongMethods", Sets()[3:], empty, Set.WrongMethods)
	return all
}

// Row has the ns of all requests of a set together.
func Row() race.Row {
	row := race.Row{
		Name: "routes", Client: "none", Rounds: 10,
		Title: func([]int) string {
			return "all requests of a set, without a network, in turns of a third of a millisecond"
		},
		Round: func(ctx context.Context, g *race.Ground, _ []fleet.Entry) (all []table.Sample) {
			for _, c := range contests() {
				if ctx.Err() == nil {
					all = append(all, c.measure(g.Small())...)
				}
			}
			return all
		},
	}
	for _, router := range Routers() {
		row.Servers = append(row.Servers, fleet.Entry{Server: table.Server{Name: router.Name, Program: router.Name, Module: router.Module}, Inside: true})
	}
	return row
}

// measure is the median of 30 turns of each router, each time beginning with another one.
func (c contest) measure(small bool) (all []table.Sample) {
	turns, slice := 30, 300*time.Microsecond
	if small {
		turns = 2
	}
	w := &sink{header: make(http.Header)}
	repeat, times := make([]int, len(c.handlers)), make([][]float64, len(c.handlers))
	for i, h := range c.handlers {
		ask(h, w, c.requests)
		for least := time.Hour; least > 0; {
			began := time.Now()
			ask(h, w, c.requests)
			took := time.Since(began)
			if took >= least {
				break
			}
			least = took
			repeat[i] = int(max(1, slice/max(1, took)))
		}
	}
	for t := range turns {
		for k := range c.handlers {
			i := (k + t) % len(c.handlers)
			began := time.Now()
			for range repeat[i] {
				ask(c.handlers[i], w, c.requests)
			}
			times[i] = append(times[i], float64(time.Since(began))/float64(repeat[i]))
		}
	}
	for i, router := range c.routers {
		all = append(all, table.Sample{Server: router, Case: c.name, Figures: map[string]float64{"ns": table.Middle(times[i])}})
	}
	return all
}
