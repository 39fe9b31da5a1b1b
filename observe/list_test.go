package observe_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/workers"
)

// sources fills every field of an Admin with real components. Call close after start, so that they
// have ended when leaks are counted.
type sources struct {
	conns   *conns.Pool[net.Conn]
	workers *workers.Pool
	buffers *pool.Buffers
}

func newSources(t *testing.T) *sources {
	s := &sources{
		conns: conns.New(conns.Config[net.Conn]{
			Max: 2,
			Dial: func(context.Context) (net.Conn, error) {
				client, server := net.Pipe()
				t.Cleanup(func() { server.Close() })
				return client, nil
			},
		}),
		workers: workers.New(workers.Options{Limit: workers.Auto(workers.AutoOptions{}), Overflow: workers.Reject}),
		buffers: new(pool.Buffers),
	}
	return s
}

func (s *sources) close(t *testing.T) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.conns.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := s.workers.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// admin returns an Admin with all of them, a latency and a cache.
func (s *sources) admin() *observe.Admin {
	return &observe.Admin{
		Stats: func() engine.Stats {
			return engine.Stats{Engine: "buffered", Limits: engine.Limits{Conns: 100, TotalOutput: 2000, TotalInput: 3000, TotalInFlight: 400}.OrDefaults()}
		},
		HTTP: func() http1.Stats {
			return http1.Stats{Fast: 7, Loans: 2, OpenLoans: 1, LateHandlers: 5, SlowBodies: 3, ClosedWindows: 4}
		},
		Latency: new(observe.Latency),
		Conns:   map[string]func() conns.Stats{"upstream": s.conns.Stats},
		Workers: map[string]observe.WorkerPool{"images": s.workers},
		Buffers: map[string]func() pool.Stats{"bodies": s.buffers.Stats},
		Caches:  map[string]func() observe.Cache{"avatars": func() observe.Cache { return observe.Cache{Hits: 3, Misses: 1, Evicted: 5, Entries: 2, Bytes: 64} }},
	}
}

// exposed is one metric of an exposition.
type exposed struct {
	help, kind string
	labels     []string
	series     int
}

// readExposition parses the metrics of an exposition by name.
func readExposition(t *testing.T, text string) map[string]*exposed {
	t.Helper()
	all := map[string]*exposed{}
	var now *exposed
	for line := range strings.Lines(text) {
		word := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		switch {
		case word[0] == "#" && word[1] == "HELP":
			now = &exposed{help: word[3]}
			all[word[2]] = now
		case word[0] == "#" && word[1] == "TYPE":
			now.kind = word[3]
		default:
			now.series++
			_, labels, _ := strings.Cut(word[0], "{")
			for pair := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), `",`) {
				name, _, ok := strings.Cut(pair, "=")
				if ok && name != "le" && name != "quantile" && !slices.Contains(now.labels, name) {
					now.labels = append(now.labels, name)
				}
			}
		}
	}
	return all
}

// TestList compares the list with the exposition, with every field set and with none.
func TestList(t *testing.T) {
	s := newSources(t)
	full := readExposition(t, start(t, s.admin()).want(200, "/metrics").body)
	s.close(t)
	bare := readExposition(t, start(t, &observe.Admin{Stats: nothing}).want(200, "/metrics").body)
	listed := map[string]bool{}
	for _, m := range observe.Metrics() {
		if listed[m.Name] {
			t.Errorf("%s is listed twice", m.Name)
		}
		listed[m.Name] = true
		wellFormed(t, m)
		got := full[m.Name]
		if got == nil {
			if m.From != "Linux" || runtime.GOOS == "linux" {
				t.Errorf("%s is listed but not exposed", m.Name)
			}
			continue
		}
		slices.Sort(got.labels)
		if want := slices.Sorted(slices.Values(m.Labels)); got.kind != string(m.Kind) || !slices.Equal(got.labels, want) {
			t.Errorf("%s is a %s with labels %v, listed as a %s with %v", m.Name, got.kind, got.labels, m.Kind, want)
		}
		if strings.HasPrefix(m.Name, "hone_") && got.help != m.Help {
			t.Errorf("%s: help %q, listed as %q", m.Name, got.help, m.Help)
		}
		if always := m.From == "" || m.From == "Linux" && runtime.GOOS == "linux"; (bare[m.Name] != nil) != always {
			t.Errorf("%s: exposed without any field: %v, listed: %v (%q)", m.Name, bare[m.Name] != nil, always, m.From)
		}
	}
	for name := range full {
		if !listed[name] {
			t.Errorf("%s is exposed but not in Metrics", name)
		}
	}
}

// wellFormed checks one entry by itself.
func wellFormed(t *testing.T, m observe.Metric) {
	t.Helper()
	if m.Help == "" || !strings.Contains(m.Panel, "/") {
		t.Errorf("%s lacks help or panel: %+v", m.Name, m)
	}
	if m.Kind == observe.Counter && !strings.HasSuffix(m.Name, "_total") {
		t.Errorf("%s is a counter without _total", m.Name)
	}
	if m.Unit != "" && !strings.Contains(m.Name+"_", "_"+m.Unit+"_") {
		t.Errorf("%s does not name its unit, %s", m.Name, m.Unit)
	}
	froms := []string{"", "Linux", "Limits", "HTTP", "Latency", "Conns", "Workers", "Buffers", "Caches"}
	if !slices.Contains(froms, m.From) {
		t.Errorf("%s is from %q, want one of %q", m.Name, m.From, froms)
	}
}

// TestSources compares the metrics of pools with what their users did.
func TestSources(t *testing.T) {
	src := newSources(t)
	s := start(t, src.admin())
	src.close(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := src.conns.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := src.conns.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second.Discard(net.ErrClosed)
	release, running := make(chan struct{}), make(chan struct{})
	if err := src.workers.Go(ctx, func() { close(running); <-release }); err != nil {
		t.Fatal(err)
	}
	receive(t, "the task runs", running)
	lent := src.buffers.Get(1000)
	eventually(t, "the discarded connection is closed", func() bool { return src.conns.Stats().Open == 1 })
	want := series{
		`hone_connections_limit`:                                         100,
		`hone_output_memory_limit_bytes`:                                 2000,
		`hone_input_memory_limit_bytes`:                                  3000,
		`hone_replies_owed_limit`:                                        400,
		`hone_helpers_limit`:                                             10_000,
		`hone_http_fast_requests_total`:                                  7,
		`hone_http_loans_total`:                                          2,
		`hone_http_open_loans`:                                           1,
		`hone_http_late_handlers`:                                        5,
		`hone_http2_slow_bodies_total`:                                   3,
		`hone_http2_closed_windows_total`:                                4,
		`hone_conns_connections{pool="upstream",state="in_use"}`:         1,
		`hone_conns_connections{pool="upstream",state="idle"}`:           0,
		`hone_conns_limit{pool="upstream"}`:                              2,
		`hone_conns_gets_total{pool="upstream"}`:                         2,
		`hone_conns_closed_total{pool="upstream",reason="discarded"}`:    1,
		`hone_conns_closed_total{pool="upstream",reason="closed"}`:       0,
		`hone_conns_refused_total{pool="upstream",reason="busy"}`:        0,
		`hone_workers_goroutines{pool="images",state="busy"}`:            1,
		`hone_workers_started_total{pool="images"}`:                      1,
		`hone_workers_done_total{pool="images"}`:                         0,
		`hone_workers_limit{pool="images"}`:                              float64(2 * runtime.GOMAXPROCS(0)),
		`hone_workers_limit_moves_total{pool="images",reason="backlog"}`: 0,
		`hone_buffers_lent{pool="bodies"}`:                               1,
		`hone_buffers_misses_total{pool="bodies"}`:                       1,
		`hone_cache_hits_total{cache="avatars"}`:                         3,
		`hone_cache_misses_total{cache="avatars"}`:                       1,
		`hone_cache_evicted_total{cache="avatars"}`:                      5,
		`hone_cache_entries{cache="avatars"}`:                            2,
		`hone_cache_bytes{cache="avatars"}`:                              64,
	}
	got := s.scrape()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (%v), want %v", name, g, ok, v)
		}
	}
	if got[`hone_buffers_lent_bytes{pool="bodies"}`] < 1000 {
		t.Errorf("%v bytes lent for a buffer of 1000", got[`hone_buffers_lent_bytes{pool="bodies"}`])
	}
	close(release)
	first.Release()
	lent.Release()
	eventually(t, "everything is back", func() bool {
		got := s.scrape()
		return got[`hone_workers_done_total{pool="images"}`] == 1 && got[`hone_buffers_lent{pool="bodies"}`] == 0 &&
			got[`hone_conns_connections{pool="upstream",state="idle"}`] == 1
	})
}

// TestLimitsThatAreOff checks that limits that are off have no value: a utilisation computed from
// one would be wrong.
func TestLimitsThatAreOff(t *testing.T) {
	off := engine.Limits{Conns: -1, TotalOutput: -1, TotalInput: -1, TotalInFlight: -1, Helpers: -1}.OrDefaults()
	got := start(t, &observe.Admin{
		Stats: func() engine.Stats { return engine.Stats{Engine: "buffered", Limits: off} },
		Conns: map[string]func() conns.Stats{"upstream": func() conns.Stats { return conns.Stats{Max: math.MaxInt} }},
	}).scrape()
	if v, there := got[`hone_conns_limit{pool="upstream"}`]; there {
		t.Errorf("hone_conns_limit is %v", v)
	}
	for _, m := range observe.Metrics() {
		if v, there := got[m.Name]; m.From == "Limits" && there {
			t.Errorf("%s is %v", m.Name, v)
		}
	}
}

// decided is a worker pool that made decisions at the given seconds.
type decided struct{ log []workers.Decision }

func (d *decided) Stats() workers.Stats          { return workers.Stats{} }
func (d *decided) Decisions() []workers.Decision { return d.log }
func (d *decided) add(second int64, why workers.Reason) {
	d.log = append(d.log, workers.Decision{At: time.Unix(second, 0), Reason: why})
}

// TestLimitMovesCountedOnce scrapes a log that grows and drops its oldest entries.
func TestLimitMovesCountedOnce(t *testing.T) {
	d := &decided{}
	s := start(t, &observe.Admin{Stats: nothing, Workers: map[string]observe.WorkerPool{"p": d}})
	want := func(backlog, noGain float64) {
		t.Helper()
		got := s.scrape()
		for reason, v := range map[string]float64{"backlog": backlog, "no gain": noGain, "probe": 0} {
			if name := fmt.Sprintf(`hone_workers_limit_moves_total{pool="p",reason=%q}`, reason); got[name] != v {
				t.Errorf("%s is %v, want %v", name, got[name], v)
			}
		}
	}
	want(0, 0)
	d.add(1, workers.Backlog)
	want(1, 0)
	want(1, 0)
	d.add(2, workers.NoGain)
	d.add(3, workers.Backlog)
	want(2, 1)
	d.log = d.log[2:]
	want(2, 1)
	d.add(4, workers.NoGain)
	want(2, 2)
}

// TestEveryReasonOfConns checks that the loop over reasons covers all of them.
func TestEveryReasonOfConns(t *testing.T) {
	if got := (conns.PoolClosed + 1).String(); got != fmt.Sprintf("Reason(%d)", conns.PoolClosed+1) {
		t.Errorf("conns has a reason %s after PoolClosed: extend hone_conns_closed_total to it", got)
	}
	if got := (workers.Probe + 1).String(); got != fmt.Sprintf("Reason(%d)", workers.Probe+1) {
		t.Errorf("workers has a reason %s after Probe: extend hone_workers_limit_moves_total to it", got)
	}
}

// TestSeriesCap fills every field to its limit: no metric has more than 200 series.
func TestSeriesCap(t *testing.T) {
	a := &observe.Admin{
		Stats: nothing, Latency: new(observe.Latency),
		Conns: map[string]func() conns.Stats{}, Workers: map[string]observe.WorkerPool{},
		Buffers: map[string]func() pool.Stats{}, Caches: map[string]func() observe.Cache{},
	}
	for i := range 20 {
		name := fmt.Sprintf("source %d \xff\"\n", i)
		a.Conns[name] = func() conns.Stats { return conns.Stats{} }
		a.Workers[name] = &decided{}
		a.Buffers[name] = func() pool.Stats { return pool.Stats{} }
		a.Caches[name] = func() observe.Cache { return observe.Cache{} }
	}
	for name, m := range readExposition(t, start(t, a).want(200, "/metrics").body) {
		if m.series > 200 {
			t.Errorf("%s has %d series", name, m.series)
		}
	}
	for _, cores := range []int{1, 199, 200, 201, 1024} {
		got := observe.CoreSeries(cores)
		sum := 0.0
		for _, v := range got {
			sum += v
		}
		if len(got) != min(cores, 200) || sum != float64(cores) {
			t.Errorf("%d cores of 1 s each: %d series, %v s in total", cores, len(got), sum)
		}
		if _, folded := got["other"]; folded != (cores > 200) {
			t.Errorf("%d cores: %v", cores, slices.Sorted(maps.Keys(got)))
		}
	}
}

// TestSourcesAreChecked fills fields in wrongly.
func TestSourcesAreChecked(t *testing.T) {
	many := map[string]func() observe.Cache{}
	for i := range 21 {
		many[fmt.Sprint(i)] = func() observe.Cache { return observe.Cache{} }
	}
	for want, a := range map[string]*observe.Admin{
		`observe: Admin.Caches has 21 entries, but at most 20 are allowed, to keep each metric under 200 series; combine related ones`: {Caches: many},
		`observe: Admin.Conns["x"] is nil`:   {Conns: map[string]func() conns.Stats{"x": nil}},
		`observe: Admin.Workers["x"] is nil`: {Workers: map[string]observe.WorkerPool{"x": nil}},
		`observe: Admin.Buffers["x"] is nil`: {Buffers: map[string]func() pool.Stats{"x": nil}},
	} {
		t.Run(want, func(t *testing.T) {
			a.Stats = func() engine.Stats { return engine.Stats{} }
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panicked with %v", got)
				}
			}()
			a.Handler()
		})
	}
}
