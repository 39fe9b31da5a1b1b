package workers_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/workers"
)

// BenchmarkAfterWaiting has 700 callers whose tasks wait, until Auto's limit has grown, and then
// compute for 15 s. It compares the 99.9th percentile of the time from the call to the end of a task
// with that of a fixed limit: in all that time, and after 10 s of it. An iteration is a round of each.
func BenchmarkAfterWaiting(b *testing.B) {
	var fixed, auto, later []float64
	most := 0
	for b.Loop() {
		all, late, _ := afterWaiting(b, workers.Fixed(runtime.GOMAXPROCS(0)), 1)
		fixed = append(fixed, all)
		b.Logf("fixed: %.2f s, after 10 s %.2f s", all, late)
		all, late, n := afterWaiting(b, workers.Auto(workers.AutoOptions{}), 600)
		auto, later, most = append(auto, all), append(later, late), max(most, n)
		b.Logf("auto: %.2f s, after 10 s %.2f s with %d workers at most", all, late, n)
	}
	for _, values := range [][]float64{fixed, auto, later} {
		slices.Sort(values)
	}
	half := len(fixed) / 2
	b.ReportMetric(auto[half]/fixed[half], "p99.9/fixed")
	b.ReportMetric(later[half]/fixed[half], "late-p99.9/fixed")
	b.ReportMetric(float64(most), "workers")
}

// afterWaiting returns the 99.9th percentile in seconds, that after 10 s, and the most workers after
// 10 s. Tasks wait until the limit has grown to at least grown.
func afterWaiting(t testing.TB, l workers.Limit, grown int) (all, late float64, most int) {
	const callers, long, settled = 700, 15 * time.Second, 10 * time.Second
	p := workers.New(workers.Options{Limit: l})
	var computing, stop atomic.Bool
	var begun time.Time
	var took, lateTook [callers][]float64
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			done := make(chan struct{}, 1)
			task := func() {
				if computing.Load() {
					compute(100_000)
				} else {
					rest()
				}
				done <- struct{}{}
			}
			for !stop.Load() {
				measured, from := computing.Load(), time.Now()
				p.Go(t.Context(), task)
				<-done
				if measured {
					took[i] = append(took[i], time.Since(from).Seconds())
					if from.Sub(begun) > settled {
						lateTook[i] = append(lateTook[i], time.Since(from).Seconds())
					}
				}
			}
		})
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.Stats().Limit < grown {
		<-tick.C
	}
	begun = time.Now()
	computing.Store(true)
	for time.Since(begun) < long {
		if <-tick.C; time.Since(begun) > settled {
			most = max(most, p.Stats().Workers)
		}
	}
	stop.Store(true)
	running.Wait()
	closeAll(t, p)
	tail := func(of [callers][]float64) float64 {
		values := slices.Concat(of[:]...)
		slices.Sort(values)
		return values[len(values)*999/1000]
	}
	return tail(took), tail(lateTook), most
}
