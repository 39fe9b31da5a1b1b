package knee

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// A server that closes the connections of more than half of the requests is not there; with fewer
// it has missed.
func TestServerThatClosesConnections(t *testing.T) {
	t.Parallel()
	for each, gone := range map[int64]bool{5: false, 1: true} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if asked.Add(1)%each == 0 {
				panic(http.ErrAbortHandler)
			}
		}))
		defer server.Close()
		goal, err := load.ParseGoal("p50<1m")
		if err != nil {
			t.Fatal(err)
		}
		s := &Search{
			Plan: Plan{From: 2, To: 3, Width: 0.02, Confirm: 1, Whole: true}, Goals: []load.Goal{goal}, Length: 300 * time.Millisecond,
			Load: load.Plan{Target: codec.HTTP{URL: server.URL, Method: http.MethodPost}, Conns: 2, MaxLag: time.Hour},
		}
		if err := s.Run(t.Context()); (err != nil) != gone {
			t.Errorf("every %dth request: %v", each, err)
		}
	}
}

// TestJudge has one case for each thing that a run can show. 8,000 req/s have met the goal
// before.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*load.Result)
		goal    string // another one than a p99 below 5 ms
		met     bool
		invalid bool
		why     string
	}{
		"met":    {met: true},
		"slow":   {goal: "p99<100us", met: false, why: "p99<100us missed"},
		"behind": {func(r *load.Result) { r.Kept = new(0.5) }, "", false, false, "it answered 50.0 % of the requests in time"},
		"not valid": {func(r *load.Result) {
			r.Valid, r.InvalidReasons = false, []string{"the generator was late", "and slow"}
		},
			"", false, true, "the generator was late; and slow"},
		"too few": {func(r *load.Result) { r.Requests, r.Latency.P99 = 5, nil },
			"", false, true, "p99<5ms cannot be judged: there were only 5 requests; use a longer --for"},
		"failures":           {errorsOf("failed", 1), "", false, false, "1 of 1,000 requests failed"},
		"failures and slow":  {errorsOf("failed", 1), "p99<100us", false, false, "1 of 1,000 requests failed"},
		"failures in a goal": {errorsOf("failed", 1), "errors<1%", true, false, ""},
		"half are closed":    {errorsOf("closed", 500), "", false, false, "500 of 1,000 requests failed"},
		"most are closed": {errorsOf("closed", 501), "", false, false,
			"the server closed the connections of 501 of 1000 requests before their answers"},
	} {
		s := searched(t)
		s.Load.Target = codec.HTTP{URL: "http://127.0.0.1:7000"}
		if c.goal != "" {
			s.Goals = goalsOf(t, c.goal)
		}
		p := measured{Trial: Trial{Step: Step{Load: 9_000}}, result: result(1000, 1000, 100, 200)}
		if c.change != nil {
			c.change(p.result)
		}
		p, err := s.judge(p)
		if err != nil || p.Met != c.met && !c.invalid || p.Invalid != c.invalid || !strings.Contains(p.Why, c.why) || (p.Why == "") != (c.why == "") {
			t.Errorf("%s: met %v, invalid %v, %q, %v", name, p.Met, p.Invalid, p.Why, err)
		}
	}
}

func errorsOf(kind string, n int64) func(*load.Result) {
	return func(r *load.Result) { r.Errors = map[string]int64{kind: n, "total": n} }
}

// A trial that broke off is a sample too.
func TestSamples(t *testing.T) {
	s := searched(t, "the generator was busy")
	s.points = s.points[:3] // 1,000, 2,000 and 4,000 requests per second, of which the last is invalid
	broke := measured{Trial: Trial{Step: Step{Load: 3_000}, Met: false}, Why: "refused"}
	s.points = append(s.points, broke)
	for i, want := range []struct {
		valid   bool
		load    float64
		figures bool
		reason  string
	}{{true, 1_000, true, ""}, {true, 2_000, true, ""}, {false, 4_000, true, "the generator was busy"}, {false, 3_000, false, "refused"}} {
		got := s.Samples()[i]
		m := got.Metrics[0]
		if got.Order != i+1 || got.Valid != want.valid || m.Name != "load" || m.Unit != "req/s" || m.Value != want.load || len(got.Metrics) > 1 != want.figures || strings.Join(got.Reasons, "; ") != want.reason {
			t.Errorf("sample %d is %+v", i, got)
		}
	}
}
