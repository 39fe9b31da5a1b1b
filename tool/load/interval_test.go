package load

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/hone-go/hone/wire"
)

// sumOf decodes and adds the histograms that which selects.
func sumOf(t *testing.T, intervals []Interval, which func(Interval) []byte) *hdrhistogram.Histogram {
	t.Helper()
	sum := NewHistogram()
	for _, i := range intervals {
		h, err := hdrhistogram.Decode(which(i))
		if err != nil {
			t.Fatal(err)
		}
		sum.Merge(h)
	}
	return sum
}

func latencyOf(i Interval) []byte { return i.Latency }
func serviceOf(i Interval) []byte { return i.Service }

// The intervals add up to the run: they have no gaps, and their sums are its figures.
func TestIntervalsAreTheWhole(t *testing.T) {
	sideBySide(t)
	target := serveWith(t, "tcp", answering(func() { <-time.After(time.Millisecond) }, echo))
	for name, p := range map[string]Plan{
		"closed": {Conns: 3, Depth: 4},
		"open":   {Conns: 3, Rate: 1000, MaxLag: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			sideBySide(t)
			p.Target, p.For, p.Warmup = target, 2300*time.Millisecond, 50*time.Millisecond
			r := measured(t, p)
			if n := len(r.Intervals); n < 1 || n > 3 {
				t.Fatalf("%d intervals of %v, want 3, or fewer on a busy machine", n, p.For)
			}
			checkIntervals(t, r)
		})
	}
}

func checkIntervals(t *testing.T, r *Result) {
	t.Helper()
	at, answered, errors := time.Duration(0), int64(0), int64(0)
	for _, i := range r.Intervals {
		if i.Start != at || i.End <= i.Start {
			t.Errorf("an interval from %v to %v follows %v", i.Start, i.End, at)
		}
		at, answered, errors = i.End, answered+i.Answered, errors+i.Errors
	}
	if at != r.Window {
		t.Errorf("the intervals end at %v, the measured time at %v", at, r.Window)
	}
	if errors != r.Errors["total"] {
		t.Errorf("%d errors in the intervals, %d in all", errors, r.Errors["total"])
	}
	if got := float64(answered-errors) / r.Window.Seconds(); r.Errors["total"] == 0 && (got < *rated(r)*0.999 || got > *rated(r)*1.001) {
		t.Errorf("%.1f answers a second in the intervals, %.1f in all", got, *rated(r))
	}
	if sum := sumOf(t, r.Intervals, latencyOf); !sum.Equals(r.Histograms.Latency) {
		t.Errorf("the intervals have %d response times, the run %d, or others", sum.TotalCount(), r.Histograms.Latency.TotalCount())
	}
	if sum := sumOf(t, r.Intervals, serviceOf); !sum.Equals(r.Histograms.Service) {
		t.Errorf("the intervals have %d service times, the run %d, or others", sum.TotalCount(), r.Histograms.Service.TotalCount())
	}
}

// Failed requests, and those that end after the measured time, are in the intervals, too.
func TestIntervalsOfABadRun(t *testing.T) {
	sideBySide(t)
	var n atomic.Int64
	half := answering(nil, func(dst []byte, p wire.Packet) []byte {
		if n.Add(1)%2 == 0 {
			return dst
		}
		return echo(dst, p)
	})
	r := measured(t, Plan{
		Target: serveWith(t, "tcp", half), Rate: 200, Depth: 2000, Warmup: -1, For: 1200 * time.Millisecond,
		Timeout: 2500 * time.Millisecond, MaxLag: time.Second,
	})
	if r.Errors["unanswered"]+r.Errors["timeout"] != 120 || r.Errors["total"] != 120 {
		t.Errorf("errors %v, want half of the requests unanswered", r.Errors)
	}
	checkIntervals(t, r)
}

func TestIntervalsOfAnInterruptedRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	o := runPlan(t, ctx, Plan{Target: echoServer(t, "tcp"), Warmup: -1, For: time.Minute})
	if o.err != nil || len(o.result.Intervals) != 1 {
		t.Fatalf("%v, %+v", o.err, o.result)
	}
	checkIntervals(t, o.result)
}

func TestIntervalLength(t *testing.T) {
	for of, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, time.Second: time.Second, time.Hour: time.Second,
		time.Hour + 1: 2 * time.Second, 24 * time.Hour: 24 * time.Second, 25*time.Hour - time.Second: 25 * time.Second,
	} {
		if got := (Plan{For: of}).intervalLength(); got != want {
			t.Errorf("a run of %v has intervals of %v, want %v", of, got, want)
		}
	}
}

// BenchmarkInterval measures the cost of an interval, for a steady server (30 µs to 1 ms, most of
// them in between) and for one that answers after anything from a microsecond to ten seconds.
func BenchmarkInterval(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name   string
		sample func() float64
	}{
		{"steady", func() float64 { return 30e3 + 60e3*random.ExpFloat64() }},
		{"anything", func() float64 { return 1e3 * math.Pow(10, 7*random.Float64()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			t := newTally(false)
			for range 200_000 {
				t.Latency.record(int64(c.sample()), 1)
			}
			size := 0
			for b.Loop() {
				size = len(newInterval(t, 0, 1).Latency)
			}
			b.ReportMetric(float64(size), "B/interval")
		})
	}
}
