package race

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/web"
)

// TestHTTPJobs has every server in every scenario but the one that parses nothing, which
// has neither TLS nor an idea of what a chunk is.
func TestHTTPJobs(t *testing.T) {
	r := &Race{Servers: fleet.HTTP(), Scenarios: HTTPScenarios()}
	count := make(map[string]int)
	for _, j := range r.jobs() {
		for _, e := range j.servers {
			count[j.scenario.Name]++
			if e.ParsesNothing && (j.scenario.Name == "TLS" || j.scenario.Name == "lent") {
				t.Errorf("%s takes part in %s", e.Name, j.scenario.Name)
			}
		}
	}
	for _, sc := range r.Scenarios {
		if _, err := web.Named(sc.Ask); err != nil {
			t.Errorf("%s: %v", sc.Name, err)
		}
		how, _, _ := sc.placed([]int{0, 1})
		if how.TLS != (sc.Name == "TLS") {
			t.Errorf("%s: TLS is %v", sc.Name, how.TLS)
		}
		want := len(r.Servers)
		if sc.Name == "TLS" || sc.Name == "lent" {
			want--
		}
		if count[sc.Name] != want {
			t.Errorf("%d servers take part in %s, not %d", count[sc.Name], sc.Name, want)
		}
	}
}

// TestScenariosStayTogether in every order, which has all jobs.
func TestScenariosStayTogether(t *testing.T) {
	r := &Race{Servers: fleet.HTTP(), Scenarios: HTTPScenarios()}
	jobs := r.jobs()
	orders := make(map[string]bool)
	for seed := range uint64(20) {
		order := inOrder(jobs, rand.New(rand.NewPCG(seed, 0)))
		var names []string
		for _, at := range order {
			names = append(names, jobs[at].scenario.Name)
		}
		if n := len(slices.Compact(names)); n != len(r.Scenarios) {
			t.Errorf("seed %d: %d runs of %d scenarios", seed, n, len(r.Scenarios))
		}
		orders[jobs[order[0]].scenario.Name] = true
		slices.Sort(order)
		if len(slices.Compact(order)) != len(jobs) {
			t.Errorf("seed %d: some of %d jobs are missing", seed, len(jobs))
		}
	}
	if len(orders) < 3 {
		t.Errorf("20 seeds begin with %d scenarios", len(orders))
	}
}

func TestWrkCount(t *testing.T) {
	const good = "Running 1s test @ http://127.0.0.1:1/hello\n  Latency  1.0ms\n  27605 requests in 1.10s, 3.50MB read\nRequests/sec:  25034\n"
	n, took, err := wrkCount([]byte(good))
	if n != 27605 || took != 1100*time.Millisecond || err != nil {
		t.Errorf("%d, %v, %v", n, took, err)
	}
	for _, bad := range []string{"", good + "  Non-2xx or 3xx responses: 3\n", good + "  Socket errors: connect 0, read 1\n", "  0 requests in 1.00s, 0B read\n"} {
		if n, _, err := wrkCount([]byte(bad)); err == nil {
			t.Errorf("%q is read as %d", bad, n)
		}
	}
}

func TestPerfCounts(t *testing.T) {
	n, err := perfCounts([]byte("# started on Sun Nov 22\n\n6051,,raw_syscalls:sys_enter,405005902,100.00,,\n17,,instructions:u,405005902,100.00,,\n"))
	if !slices.Equal(n, []float64{6051, 17}) || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	for _, bad := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n", "event syntax error\n"} {
		if n, err := perfCounts([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, n)
		}
	}
}
