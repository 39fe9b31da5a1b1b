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

// real is a load for this machine: callers that wait for their task and then submit the
// next one.
type real struct {
	name    string
	callers int
	task    func() func()
	fixed   []int // limits to compare with
}

func compute(loops int) {
	x := 1.0
	for range loops {
		x += 1 / x
	}
	runtime.KeepAlive(x)
}

// restTime is how long a task blocks, if the machine wakes it in time.
const restTime = 5 * time.Millisecond

func rest() {
	began := time.Now()
	<-time.After(restTime)
	rests.count.Add(1)
	rests.took.Add(int64(time.Since(began)))
}

// rests counts all of them so far.
var rests struct{ count, took atomic.Int64 }

var reals = []real{
	{"blocking, 64 at once", 400, func() func() {
		places := make(chan struct{}, 64)
		return func() { places <- struct{}{}; rest(); <-places }
	}, []int{48, 52, 56, 60, 64, 80, 128}},
	{"blocking, 400 callers", 400, func() func() { return rest }, []int{300, 340, 360, 380, 400, 500, 1740}},
	{"computing", 64, func() func() { return func() { compute(400_000) } }, []int{1, 2, 3, 4, 8}},
	{"mixed", 400, func() func() { return func() { compute(50_000); rest() } }, []int{16, 24, 32, 40, 48, 56, 64, 80}},
}

// run keeps a pool busy for as long as watch, called every 10 ms, returns true.
func (r real) run(t testing.TB, l workers.Limit, watch func(time.Duration, *workers.Pool) (more bool)) {
	p := workers.New(workers.Options{Limit: l})
	task, stop := r.task(), make(chan struct{})
	var callers sync.WaitGroup
	for range r.callers {
		callers.Go(func() {
			done := make(chan struct{}, 1)
			call := func() { task(); done <- struct{}{} }
			for {
				select {
				case <-stop:
					return
				default:
					p.Go(t.Context(), call)
					<-done
				}
			}
		})
	}
	begin, tick := time.Now(), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for watch(time.Since(begin), p) {
		<-tick.C
	}
	close(stop)
	callers.Wait()
	closeAll(t, p)
}

// On this machine the limit comes to within a quarter of the smallest sufficient one, and
// stays there for a second. While other work competes for the processors, tasks take
// longer, and the smallest sufficient limit is unknown.
func TestAutoOnThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; run without -short")
	}
	for i, enough := range []int{61, 380} { // for 95 % of the throughput
		t.Run(reals[i].name, func(t *testing.T) {
			t.Parallel()
			var since, busy time.Duration
			reals[i].run(t, workers.Auto(workers.AutoOptions{}), func(now time.Duration, p *workers.Pool) bool {
				if limit := p.Stats().Limit; limit < enough*3/4 || limit > enough*5/4 {
					since = now
				}
				near := now >= since+time.Second
				if near {
					t.Logf("close to %d after %v", enough, since)
				} else if now > 30*time.Second {
					if mean := time.Duration(rests.took.Load() / rests.count.Load()); mean > restTime*11/10 {
						busy = mean
					} else {
						t.Errorf("not a second near %d:\n%+v", enough, p.Decisions())
					}
					near = true
				}
				return !near
			})
			if busy > 0 {
				t.Skipf("the machine is busy: a rest of %v has taken %v", restTime, busy)
			}
		})
	}
}

// BenchmarkAuto compares Auto with fixed limits. An iteration measures each fixed limit
// four times, interleaved, and then Auto for 20 s, of which the first 10 s do not count.
func BenchmarkAuto(b *testing.B) {
	for _, r := range reals {
		b.Run(r.name, func(b *testing.B) {
			for b.Loop() {
				rates := r.sweep(b)
				best, enough := slices.Max(rates), 0
				for rates[enough] < 0.95*best {
					enough++
				}
				limit, lowest, highest, rate := r.auto(b)
				b.Logf("%.0f/s with %v workers: %d suffice; Auto has %.1f (%d to %d), and %.2f of the best throughput",
					rates, r.fixed, r.fixed[enough], limit, lowest, highest, rate/best)
			}
		})
	}
}

// sweep returns the median throughput of each fixed limit.
func (r real) sweep(t testing.TB) []float64 {
	const turns, long, settle = 4, 300 * time.Millisecond, 50 * time.Millisecond
	all := make([][]float64, len(r.fixed))
	turn, from, before := -1, time.Duration(0), int64(0)
	r.run(t, workers.Fixed(r.fixed[0]), func(now time.Duration, p *workers.Pool) bool {
		done := p.Stats().Done
		if turn < 0 || now >= from+long {
			if turn >= 0 {
				all[turn%len(all)] = append(all[turn%len(all)], float64(done-before)/(now-from).Seconds())
			}
			turn++
			p.Resize(r.fixed[turn%len(all)])
			from, before = now+settle, -1
		}
		if before < 0 && now >= from {
			from, before = now, done
		}
		return turn < turns*len(all)
	})
	medians := make([]float64, len(all))
	for i, rates := range all {
		slices.Sort(rates)
		medians[i] = (rates[len(rates)/2-1] + rates[len(rates)/2]) / 2
	}
	return medians
}

// auto returns the mean, minimum and maximum limit and the throughput of Auto.
func (r real) auto(t testing.TB) (limit float64, lowest, highest int, rate float64) {
	var from time.Duration
	var before int64
	looks := 0.0
	r.run(t, workers.Auto(workers.AutoOptions{}), func(now time.Duration, p *workers.Pool) bool {
		st := p.Stats()
		switch {
		case now < 10*time.Second:
		case from == 0:
			from, before, lowest = now, st.Done, st.Limit
		default:
			limit += float64(st.Limit)
			lowest, highest = min(lowest, st.Limit), max(highest, st.Limit)
			looks++
			rate = float64(st.Done-before) / (now - from).Seconds()
		}
		return now < 20*time.Second
	})
	return limit / looks, lowest, highest, rate
}
