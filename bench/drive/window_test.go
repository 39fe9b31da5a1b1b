package drive

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/client"
)

// TestFigure has a second in which the server used 0.9 of a CPU, and the client 0.8, a
// quarter of which it waited in.
func TestFigure(t *testing.T) {
	start := time.Now()
	w := window{
		first: moment{at: start, server: time.Second, client: 2 * time.Second},
		last:  moment{at: start.Add(time.Second), server: 1900 * time.Millisecond, client: 2800 * time.Millisecond},
	}
	p50 := 12.5
	f := w.figure(&client.Result{Requests: 99, Rate: 100_000, P50: &p50, Spun: 200 * time.Millisecond})
	want := map[string]float64{"cpu_us": 9, "server_busy": 0.9, "client_busy": 0.6, "rate": 100_000, "p50_us": 12.5}
	for name, want := range want {
		if got, has := f.Figures[name]; !has || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
	if f.Requests != 99 || len(f.Figures) != len(want) || f.Doubts == nil || len(f.Doubts) > 0 {
		t.Errorf("%+v", f)
	}
	f = w.figure(&client.Result{})
	if _, has := f.Figures["cpu_us"]; has || f.Figures["server_busy"] == 0 {
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
		f := new(Figure)
		if f.doubt(c.busy, &client.Result{Late: &c.late, Missing: c.missing}); !slices.Equal(f.Doubts, c.want) {
			t.Errorf("%s: %q", c.name, f.Doubts)
		}
	}
}
