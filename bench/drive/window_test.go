package drive

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/client"
)

// TestFigure has a second in which the server used 0.9 of a CPU, the client 0.8, a
// quarter of which it waited in, and the rest of a machine of two CPUs 0.1.
func TestFigure(t *testing.T) {
	start := time.Now()
	w := window{
		first: moment{at: start, server: time.Second, client: 2 * time.Second, idle: 5 * time.Second, cpus: 2},
		last:  moment{at: start.Add(time.Second), server: 1900 * time.Millisecond, client: 2800 * time.Millisecond, idle: 5200 * time.Millisecond, cpus: 2},
	}
	p50 := 12.5
	f := w.figure(&client.Result{Requests: 99, Rate: 100_000, P50: &p50, Spun: 200 * time.Millisecond})
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"cpu": {f.CPU, 9}, "client cpu": {f.ClientCPU, 6}, "server busy": {f.ServerBusy, 0.9}, "client busy": {f.Busy, 0.6},
		"others": {f.Others, 0.1}, "rate": {f.Rate, 100_000}, "p50": {f.P50, 12.5},
	} {
		if c.got == nil || math.Abs(*c.got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %v, not %v", name, c.got, c.want)
		}
	}
	if f.Requests != 99 || f.P99 != nil || f.Doubts == nil || len(f.Doubts) > 0 {
		t.Errorf("%+v", f)
	}
	if f = w.figure(&client.Result{}); f.CPU != nil || f.ClientCPU != nil || f.ServerBusy == nil {
		t.Errorf("without answers: %+v", f)
	}
}

func TestDoubts(t *testing.T) {
	cpus := float64(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name       string
		busy, late float64
		missing    int64
		want       []string
	}{
		{"none", 0.94 * cpus, 999, 0, nil},
		{"busy", 0.96 * cpus, 0, 0, []string{"the client used 96 % of its CPU: it may be the limit"}},
		{"late", 0, 1500, 0, []string{"one request in a hundred was sent 1500 µs late or more"}},
		{"missing", 0, 0, 7, []string{"7 requests have no answer"}},
	} {
		f := &Figure{Busy: &c.busy}
		if f.doubt(&client.Result{Late: &c.late, Missing: c.missing}); !slices.Equal(f.Doubts, c.want) {
			t.Errorf("%s: %q", c.name, f.Doubts)
		}
	}
}
