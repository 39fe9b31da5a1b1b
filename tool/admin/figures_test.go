package admin

import (
	"maps"
	"strings"
	"testing"
)

// scraped is a Go server's metrics in variations that the format allows: a scraper's
// labels, timestamps, other spacing, and unrelated metrics.
func scraped(live, cycles, pauses, waits string) string {
	return `# HELP go_gc_heap_live_bytes Heap memory.
# TYPE go_gc_heap_live_bytes gauge
go_gc_heap_live_bytes{pod="a",note="a } \" b"} ` + live + ` 1700000000000
# TYPE go_gc_heap_goal_bytes gauge
go_gc_heap_goal_bytes	 8e+06
# TYPE go_gc_cycles_total_gc_cycles_total counter
go_gc_cycles_total_gc_cycles_total ` + cycles + `
# TYPE go_sched_pauses_total_gc_seconds histogram
go_sched_pauses_total_gc_seconds_bucket{le="1e-05",pod="a"} 0
go_sched_pauses_total_gc_seconds_bucket{le="0.0002",pod="a"} ` + pauses + `
go_sched_pauses_total_gc_seconds_bucket{le="+Inf",pod="a"} ` + pauses + `
go_sched_pauses_total_gc_seconds_sum{pod="a"} NaN
go_sched_pauses_total_gc_seconds_count{pod="a"} ` + pauses + `
# TYPE go_sched_latencies_seconds histogram
go_sched_latencies_seconds_bucket{pod="a",le="0.001"} ` + waits + `
go_sched_latencies_seconds_bucket{pod="a",le="+Inf"} ` + waits + `
go_sched_latencies_seconds_sum{pod="a"} 1
go_sched_latencies_seconds_count{pod="a"} ` + waits + `
other_total{path="/\n"} 3
`
}

func TestRuntimeFigures(t *testing.T) {
	var f runtimeFigures
	for _, c := range []struct {
		text string
		want map[string]float64
	}{
		{scraped("4e6", "7", "3", "100"), map[string]float64{"g.heap": 4e6, "g.goal": 8e6}},
		{scraped("5e6", "9", "4", "150"), map[string]float64{"g.heap": 5e6, "g.goal": 8e6, "g.gc": 2, "g.pause": 200, "g.sched": 1000}},
		{"go_gc_heap_live_bytes 6e6\n<html>", map[string]float64{}}, // not metrics: no figures, and the last reading stays
		{scraped("6e6", "10", "4", "150"), map[string]float64{"g.heap": 6e6, "g.goal": 8e6, "g.gc": 1, "g.pause": 0, "g.sched": 0}},
	} {
		if got := f.since(strings.NewReader(c.text)); !maps.Equal(got, c.want) {
			t.Errorf("figures %v, want %v, of\n%s", got, c.want, c.text)
		}
	}
}
