package load

import (
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
)

func TestConstantScheduleIsExact(t *testing.T) {
	for _, rate := range []float64{1, 3, 7, 0.25, 20_000, 333_333, 1e6, 123.456} {
		s := schedule{rate: rate}
		for _, n := range []int64{0, 1, 2, 3, 999, 1_000_000, 987_654_321} {
			want := new(big.Rat).SetFloat64(rate)
			want.Mul(want.Inv(want), big.NewRat(n, 1)).Mul(want, big.NewRat(1e9, 1))
			exact, _ := want.Float64()
			if got := float64(s.at(n)); math.Abs(got-exact) > max(0.5, exact*1e-15) {
				t.Errorf("request %d of %v a second at %.0f ns, want %f", n, rate, got, exact)
			}
		}
	}
}

func TestPoissonScheduleIsPure(t *testing.T) {
	const n = 2000
	ascending := schedule{arrivals: Poisson, rate: 1000, seed: 7}
	moments := make([]time.Duration, n)
	for i := range moments {
		moments[i] = ascending.at(int64(i))
		if i > 0 && moments[i] < moments[i-1] {
			t.Fatalf("request %d comes before the one before it", i)
		}
	}
	jumping := schedule{arrivals: Poisson, rate: 1000, seed: 7}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		if got := jumping.at(int64(i)); got != moments[i] {
			t.Fatalf("request %d at %v, in order at %v", i, got, moments[i])
		}
	}
	other := schedule{arrivals: Poisson, rate: 1000, seed: 8}
	if other.at(n-1) == moments[n-1] {
		t.Error("another seed gives the same schedule")
	}
}

// Exponential gaps have the squared mean as their variance, and a Poisson process has equal mean
// and variance in an interval.
func TestPoissonScheduleIsPoisson(t *testing.T) {
	const n, rate = 200_000, 1000.0
	s := schedule{arrivals: Poisson, rate: rate, seed: 42}
	var sum, squares float64
	perTenth := make([]float64, n/100)
	last := time.Duration(0)
	for i := range int64(n) {
		at := s.at(i)
		gap := (at - last).Seconds() * rate
		sum, squares, last = sum+gap, squares+gap*gap, at
		if tenth := int(at / (100 * time.Millisecond)); tenth < len(perTenth) {
			perTenth[tenth]++
		}
	}
	mean := sum / n
	variance := squares/n - mean*mean
	if math.Abs(mean-1) > 0.01 || math.Abs(variance-1) > 0.03 {
		t.Errorf("gaps have mean %.4f and variance %.4f, want 1 and 1", mean, variance)
	}
	sum, squares = 0, 0
	whole := perTenth[:len(perTenth)*9/10]
	for _, count := range whole {
		sum, squares = sum+count, squares+count*count
	}
	mean = sum / float64(len(whole))
	if dispersion := (squares/float64(len(whole)) - mean*mean) / mean; math.Abs(dispersion-1) > 0.1 {
		t.Errorf("arrivals in a tenth of a second have variance/mean %.3f, want 1", dispersion)
	}
}

func TestPacersShareTheSchedule(t *testing.T) {
	for _, c := range []struct{ conns, pacers int }{{1, 1}, {7, 1}, {7, 3}, {8, 4}, {3, 3}} {
		p := must[Plan](t)(Plan{Target: codec.Frames{}, Conns: c.conns, Rate: 1e9}.complete()) // request n at n ns
		r := newRun(p)
		for i := range r.conns {
			r.conns[i] = newConn(r, i, swallow{})
		}
		seen := map[int64]bool{}
		for i := range c.pacers {
			pacer := must[*pacer](t)(newPacer(r, i, c.pacers))
			defer pacer.alarm.timer.Close()
			for m := range int64(100) {
				n := pacer.arrival(m).moment
				if seen[n] {
					t.Fatalf("%+v: request %d twice", c, n)
				}
				seen[n] = true
				if own := pacer.conns[m%int64(len(pacer.conns))]; int64(own.number) != n%int64(c.conns) {
					t.Fatalf("%+v: request %d on connection %d", c, n, own.number)
				}
			}
		}
		for n := range int64(100) {
			if !seen[n] {
				t.Fatalf("%+v: request %d is missing", c, n)
			}
		}
	}
}

func TestPacersFor(t *testing.T) {
	for _, c := range []struct {
		rate               float64
		conns, procs, want int
	}{
		{100, 100, 8, 1}, {49_999, 100, 8, 1}, {50_000, 100, 8, 2}, {1e6, 100, 8, 8}, {1e6, 3, 8, 3}, {1e300, 1 << 20, 1 << 20, 1<<16 + 1},
	} {
		if got := pacersFor(Plan{Rate: c.rate, Conns: c.conns}, c.procs); got != c.want {
			t.Errorf("%+v: %d pacers", c, got)
		}
	}
}

// promisedLag is far above the lag on a quiet machine, 20 to 30 µs, and far below the millisecond
// of a runtime timer.
const promisedLag = 250 * time.Microsecond

func TestAlarmPaces(t *testing.T) {
	for _, interval := range []time.Duration{10 * time.Microsecond, 50 * time.Microsecond, time.Millisecond} {
		t.Run(interval.String(), func(t *testing.T) {
			keepsPace(t, func() (p50, p99 time.Duration) {
				timer := must[*sys.Timer](t)(sys.NewTimer())
				defer timer.Close()
				start := time.Now()
				a := alarm{timer: timer, now: func() int64 { return int64(time.Since(start)) }}
				late := make([]time.Duration, min(2000, time.Second/4/interval))
				for i := range late {
					moment := int64(i+1) * int64(interval)
					now, err := a.until(moment)
					if err != nil {
						t.Fatal(err)
					}
					late[i] = time.Duration(now - moment)
				}
				slices.Sort(late)
				return late[len(late)/2], late[len(late)*99/100]
			})
		})
	}
}

// keepsPace expects the promised median lag in one of ten measurements. Other programs on the
// machine spoil some; a timer that is late spoils all. If other programs never leave the
// processors alone, the test does not fail.
func keepsPace(t *testing.T, lag func() (p50, p99 time.Duration)) {
	t.Helper()
	quiet := 0
	for range 10 {
		p50, p99 := lag()
		t.Logf("lag p50 %v, p99 %v", p50, p99)
		if p50 <= promisedLag || runtime.GOOS != "linux" {
			return
		}
		if p99 <= 2*DefaultMaxLag {
			quiet++
		}
	}
	if quiet == 10 {
		t.Errorf("the median lag is above %v in ten measurements, none of which others have disturbed", promisedLag)
	}
}

func TestRunPaces(t *testing.T) {
	target := echoServer(t, "tcp")
	keepsPace(t, func() (p50, p99 time.Duration) {
		r := measured(t, Plan{Target: target, Conns: 10, Rate: 20_000, Echo: true, For: time.Second / 4, MaxLag: time.Second})
		return microseconds(r.Lag.P50), microseconds(r.Lag.P99)
	})
}

func BenchmarkSchedule(b *testing.B) {
	for _, arrivals := range []Arrivals{Constant, Poisson} {
		b.Run(arrivals.String(), func(b *testing.B) {
			s := schedule{arrivals: arrivals, rate: 12345}
			for n := int64(0); b.Loop(); n++ {
				s.at(n)
			}
		})
	}
}

func BenchmarkClock(b *testing.B) {
	r := &run{start: time.Now()}
	for b.Loop() {
		r.now()
	}
}
