package lab

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hone-go/hone/route"
	"github.com/hone-go/hone/tool/load"
)

// rawCtx is a request as some frameworks pass it to handlers: a pointer to memory that
// the next request reuses.
type rawCtx struct {
	w        http.ResponseWriter
	r        *http.Request
	customer string
	store    map[string]any
	values   []string
}

func newRawCtx() *rawCtx {
	return &rawCtx{store: make(map[string]any), values: make([]string, 4)}
}

func (c *rawCtx) reset(w http.ResponseWriter, r *http.Request) {
	c.w, c.r, c.customer = w, r, ""
	if len(c.store) > 0 {
		clear(c.store)
	}
}

// contextMux has one pattern, served with a pooled context, a new one, or route's own.
// handle gets a function that returns whose request the context holds, to call while the
// handler runs and after.
type contextMux struct {
	mux    route.Mux
	pooled sync.Pool
}

func newContextMux(way string, handle func(customer func() string)) *contextMux {
	m := &contextMux{pooled: sync.Pool{New: func() any { return newRawCtx() }}}
	serve := func(c *rawCtx, p route.Params) {
		c.customer = p.Get("id")
		handle(func() string { return c.customer })
		c.w.WriteHeader(http.StatusNoContent)
	}
	const pattern = "GET /customers/{id}"
	switch way {
	case "new":
		m.mux.HandleParams(pattern, func(w http.ResponseWriter, r *http.Request, p route.Params) {
			c := newRawCtx()
			c.reset(w, r)
			serve(c, p)
		})
	case "pooled":
		m.mux.HandleParams(pattern, func(w http.ResponseWriter, r *http.Request, p route.Params) {
			c := m.pooled.Get().(*rawCtx)
			c.reset(w, r)
			serve(c, p)
			m.pooled.Put(c)
		})
	default:
		m.mux.HandleCtx(pattern, func(c route.Ctx) error {
			handle(func() string { return c.Param("id") })
			return c.NoContent(http.StatusNoContent)
		})
	}
	return m
}

// nowhere is a response writer that discards everything.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) WriteHeader(int)             {}
func (w nowhere) Write(b []byte) (int, error) { return len(b), nil }

// kept counts what happened to contexts that handlers retained.
type kept struct {
	Leaked  int `json:"leaked"`  // read another request's data
	Refused int `json:"refused"` // panicked with an explanation
	Own     int `json:"own"`     // still read their own data
}

// keep has n handlers retain their context, as a goroutine that outlives its request
// does, and read it during the next request.
func keep(way string, n int) (kept, error) {
	var result kept
	var customer func() string
	m := newContextMux(way, func(c func() string) { customer = c })
	for i := range n {
		if err := m.ask(2 * i); err != nil {
			return kept{}, err
		}
		before := customer
		if err := m.ask(2*i + 1); err != nil {
			return kept{}, err
		}
		got, refused := readLate(before)
		switch {
		case refused:
			result.Refused++
		case got == strconv.Itoa(2*i):
			result.Own++
		default:
			result.Leaked++
		}
	}
	return result, nil
}

func (m *contextMux) ask(customer int) error {
	r, err := http.NewRequest("GET", "/customers/"+strconv.Itoa(customer), nil)
	if err == nil {
		m.mux.ServeHTTP(nowhere{http.Header{}}, r)
	}
	return err
}

func readLate(customer func() string) (got string, refused bool) {
	defer func() { refused = recover() != nil }()
	return customer(), false
}

const keptContexts = 1000

func contextsStage() (*stage, error) {
	s := &stage{timed: make(map[string]timed), asked: func(way string) (any, error) { return keep(way, keptContexts) }}
	r, err := http.NewRequest("GET", "/customers/42", nil)
	if err != nil {
		return nil, err
	}
	for _, way := range contextWays() {
		read := 0
		m := newContextMux(way, func(customer func() string) { read += len(customer()) })
		w := nowhere{http.Header{}}
		s.timed[way] = timed{func(n int) {
			for range n {
				m.mux.ServeHTTP(w, r)
			}
		}}
	}
	return s, nil
}

func contextWays() []string { return []string{"new", "pooled", "route"} }

// servedPath is the path that clients request.
const servedPath = "/customers/42"

// servedStages serve a request over loopback, each with one more change: the context, its
// use-after-free check, and the server.
var servedStages = [...]string{"contexts-new", "contexts-pooled", "contexts-route", "contexts-http1"}

func contextStages() map[string]func() (*stage, error) {
	all := make(map[string]func() (*stage, error), len(servedStages))
	for i, name := range servedStages {
		all[name] = func() (*stage, error) {
			ways := contextWays()
			m := newContextMux(ways[min(i, len(ways)-1)], func(customer func() string) { customer() })
			if i < len(ways) {
				return onStd(&m.mux), nil
			}
			return onHTTP1(&m.mux), nil
		}
	}
	return all
}

// contexts is the third article.
func contexts(ctx context.Context, b *bench) error {
	p, err := b.start(ctx, "contexts")
	if err != nil {
		return err
	}
	defer p.Stop()
	for _, c := range []struct{ way, what, why string }{
		{"pooled", "retained contexts with another request's data, raw pool", "The cost that the article does not name. A handler starts a goroutine that retains the context; the request ends; the next one gets the same memory (use after free). " +
			"No panic, no error: the goroutine reads another customer's data. gin #1118, echo #1395 and chi #993 report this. The claim: none does."},
		{"route", "retained contexts with another request's data, route.Ctx", "Ours. A Ctx carries a generation. The claim: none does, and every late use panics: %s of %s did, with the pattern and where it was registered."},
	} {
		b.say("%s retained contexts", c.way)
		var found kept
		if err := p.order(ctx, c.way, 0, &found); err != nil {
			return err
		}
		if c.way == "route" {
			c.why = fmt.Sprintf(c.why, thousands(found.Refused), thousands(keptContexts))
		}
		b.add(one(float64(found.Leaked)).row(c.what, "of 1,000", c.why).beside(0).as(first(found.Leaked == 0, false)))
	}
	all, err := b.timeAll(ctx, p, contextWays(), quickly(b, 1, 9), quickly(b, 10*time.Millisecond, 200*time.Millisecond))
	if err != nil {
		return err
	}
	gain := all["new"].over(all["pooled"])
	b.add(gain.row("the gain of pooled contexts", "× as fast", fmt.Sprintf("A whole request behind the same router, without a network: %s ns with a new context, %s with a pooled one. "+
		"The rows below are requests over loopback, of which this is about a hundredth.", number(all["new"].median()), number(all["pooled"].median()))).as(better(gain)))
	safe := all["pooled"].over(all["route"])
	b.add(all["route"].row("route.Ctx, which detects use after free", "ns", "Ours. The claim: it costs no more than the raw pool. It counts generations, with an atomic operation or two.").
		to(safe, "less than the raw pool").as(better(safe)))
	return b.servedContexts(ctx)
}

// servedContexts measures the same router over loopback, where the context is a small
// part of the cost.
func (b *bench) servedContexts(ctx context.Context) error {
	all, end, err := b.startAll(ctx, servedStages[:])
	if err != nil {
		return err
	}
	defer end()
	laps, err := b.driveAll(ctx, all, quickly(b, 1, 5), "100 connections", func(p *process) (load.Plan, error) {
		plan := b.webPlan(p, servedPath)
		plan.For = quickly(b, plan.For, 600*time.Millisecond)
		return plan, nil
	})
	if err != nil {
		return err
	}
	for i, step := range []struct{ what, why string }{
		{"a new context on net/http", "A whole request over loopback, behind the same router: the baseline of the steps below."},
		{"a pooled context on net/http", "One change: the context comes from a sync.Pool. It saves about 1 % of the request, less than rounds differ by."},
		{"route.Ctx on net/http", "One change: a context that panics when it is read after its request, instead of the raw pool's."},
		{"route.Ctx on http1", "One change: the server. The claim: it saves what no pool of contexts can, because a request's cost is reading, scheduling and writing."},
	} {
		own := laps[servedStages[i]].cpu
		row := own.row(step.what+", CPU", perRequest, step.why).as(noClaim)
		if i > 0 {
			saved := laps[servedStages[i-1]].cpu.over(own)
			row = row.to(saved, "less than the step before").as(better(saved))
		}
		b.add(row)
	}
	return nil
}
