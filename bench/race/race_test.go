package race

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

func TestPlaced(t *testing.T) {
	a, a2 := Scenario{Name: "A", Pinned: true, Loops: 1}, Scenario{Name: "A2", Loops: 2}
	server, client, procs := a.placed([]int{3, 5})
	if server.CPU != 3 || server.Loops != 1 || client != 5 || procs != 1 {
		t.Errorf("%+v, %d, %d", server, client, procs)
	}
	server, client, procs = a.placed([]int{3})
	if server.CPU != fleet.AnyCPU || client != fleet.AnyCPU || procs != 1 {
		t.Errorf("%+v, %d, %d", server, client, procs)
	}
	if !strings.Contains(a.title([]int{3}), "NOT PINNED") {
		t.Errorf("%q", a.title([]int{3}))
	}
	server, client, procs = a2.placed([]int{0, 1, 2, 3})
	if server.CPU != fleet.AnyCPU || server.Loops != 2 || client != fleet.AnyCPU || procs != 2 {
		t.Errorf("%+v, %d, %d", server, client, procs)
	}
}

func TestJobs(t *testing.T) {
	r := &Race{Servers: fleet.All(), Scenarios: Scenarios()}
	count := make(map[string]int)
	for _, j := range r.jobs() {
		if len(j.scenario.Levels) == 0 && len(j.servers) != 1 || len(j.servers) > together {
			t.Errorf("%d servers at a time in %s", len(j.servers), j.scenario.Name)
		}
		for _, e := range j.servers {
			count[j.scenario.Name]++
			if e.Extra && j.scenario.Sleepers == 0 {
				t.Errorf("%s takes part in %s", e.Name, j.scenario.Name)
			}
		}
	}
	for _, sc := range r.Scenarios {
		want := len(fleet.All())
		if sc.Sleepers == 0 {
			want -= 3
		}
		if count[sc.Name] != want {
			t.Errorf("%d servers take part in %s, not %d", count[sc.Name], sc.Name, want)
		}
	}
}

// TestChoose also holds the scenarios to what servers and clients can open.
func TestChoose(t *testing.T) {
	names, err := Choose(Scenarios(), nil)
	if err != nil || len(names) != len(Scenarios()) {
		t.Fatal(names, err)
	}
	if _, err := Choose(Scenarios(), []string{"A", "Z"}); err == nil {
		t.Error("a scenario of no name is chosen")
	}
	two, err := Choose(Scenarios(), []string{"S", "A"})
	if err != nil || len(two) != 2 || two[0].Name != "A" {
		t.Errorf("%+v, %v", two, err)
	}
	for _, s := range Scenarios() {
		if s.Conns+s.Idle+s.Sleepers > 16_000 || len(s.Levels) > 0 && slices.Max(s.Levels) > 16_000 {
			t.Errorf("%s needs more connections than a server allows", s.Name)
		}
	}
}

func TestDisturbed(t *testing.T) {
	var s report.Sample
	if disturbed(s) {
		t.Error("a sample that does not tell is disturbed")
	}
	for others, want := range map[float64]bool{0.1: false, 0.7: true} {
		s.Others = &others
		if disturbed(s) != want {
			t.Errorf("%v: %v", others, !want)
		}
	}
}

func TestPace(t *testing.T) {
	start := time.Now()
	p := pace{start: start, limit: 100 * time.Second, done: 49, total: 100}
	if !p.ahead(start.Add(44 * time.Second)) {
		t.Error("half of the jobs in 44 of 100 seconds are not ahead")
	}
	if p.ahead(start.Add(46 * time.Second)) {
		t.Error("half of the jobs in 46 of 100 seconds leave no time to take samples again")
	}
}
