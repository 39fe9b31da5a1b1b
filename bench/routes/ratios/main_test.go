package main

import (
	"strings"
	"testing"

	"github.com/hone-go/hone/bench/routes"
)

func TestRatios(t *testing.T) {
	const want = `| ns, and hone's ratio to | hone | gin |
|---|---|---|
| Clients/GitHub | 55 | 0.55 (0.50–0.60) |
| Clients/Static | 10 | – |
`
	runs := table{ns: make(map[string]map[string][]float64)}
	for _, ns := range []float64{50, 60} {
		runs.add("Clients/GitHub", "hone", ns)
		runs.add("Clients/GitHub", "gin", 100)
	}
	runs.add("Clients/Static", "hone", 10)
	var got strings.Builder
	if runs.print(&got); got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	if err := run("no such contest", 1, &got); err == nil {
		t.Error("nothing to show is no error")
	}
}

// A run has the contests that were asked for.
func TestMeasures(t *testing.T) {
	var got strings.Builder
	if err := run("GPlus", 1, &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range routes.Contests() {
		if strings.Contains(c.Name, "GPlus") && !strings.Contains(got.String(), "| "+c.Name+" | ") {
			t.Errorf("nothing of %s", c.Name)
		}
	}
}
