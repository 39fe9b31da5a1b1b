package load

import (
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// stalls is a server with a known schedule: it answers at once, except during the first Stall of
// every Period.
type stalls struct{ Period, Stall time.Duration }

// serve holds answers that fall into a stall until its end.
func (s stalls) serve(epoch time.Time) func(net.Conn) {
	return answering(func() {
		phase := time.Since(epoch) % s.Period
		if phase >= s.Stall {
			return
		}
		end := time.Now().Add(s.Stall - phase)
		// A runtime timer may be late by a millisecond, so it spins for the rest.
		if early := time.Until(end) - 2*time.Millisecond; early > 0 {
			<-time.After(early)
		}
		for time.Now().Before(end) {
			runtime.Gosched()
		}
	}, echo)
}

// quantile computes the true quantile of the response time for constant arrivals: requests during
// a stall wait between nothing and all of it, uniformly, the others not at all.
func (s stalls) quantile(q float64) time.Duration {
	part := float64(s.Stall) / float64(s.Period)
	return time.Duration(float64(s.Stall) * max(0, (q-(1-part))/part))
}

// The truth: against a server with known stalls the open loop reports the computed quantiles, and
// the closed loop does not.
func TestOpenLoopTellsTheTruth(t *testing.T) {
	for _, s := range []stalls{
		{time.Second, 600 * time.Millisecond},
		{500 * time.Millisecond, 100 * time.Millisecond},
		{time.Second, 50 * time.Millisecond},
		{500 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v in %v", s.Stall, s.Period), func(t *testing.T) {
			if (s.Stall > 50*time.Millisecond || s.Period > time.Second/2) && !testrun.All() {
				t.Skip("takes two to eight seconds; HONE_TEST_ALL=1 runs it")
			}
			// A busy machine adds stalls to those of the schedule, but not three times in a row.
			for range 3 {
				wrong := s.compare(t)
				if len(wrong) == 0 {
					return
				}
				if t.Log(strings.Join(wrong, "\n")); t.Failed() {
					return
				}
			}
			t.Error("the figures are not the computed ones in three runs")
		})
	}
}

// compare measures in both ways and returns what differs from the computed figures.
func (s stalls) compare(t *testing.T) (wrong []string) {
	open := undisturbed(t, s, Plan{Conns: 4, Rate: 2000, MaxLag: s.Stall / 50})
	if !open.Valid {
		t.Log("others kept the generator from working, and it said so each time: nothing is claimed")
		return nil
	}
	alike := s.plan(t, Plan{Conns: 4})
	alike.Warmup, alike.For = -1, s.Period // a closed loop has more than enough requests in one
	closed := measured(t, alike)
	var table strings.Builder
	fmt.Fprintf(&table, "\n%6s %12s %12s %12s\n", "", "computed", "open loop", "closed loop")
	for _, row := range []struct {
		name         string
		q            float64
		open, closed *float64
	}{
		{"p50", 0.5, open.Latency.P50, closed.Latency.P50},
		{"p99", 0.99, open.Latency.P99, closed.Latency.P99},
		{"p99.9", 0.999, open.Latency.P999, closed.Latency.P999},
	} {
		want := s.quantile(row.q)
		fmt.Fprintf(&table, "%6s %12v %12v %12v\n", row.name, want.Round(time.Microsecond), microseconds(row.open), microseconds(row.closed))
		wrong = append(wrong, s.judge(row.name, want, row.open, row.closed)...)
	}
	t.Log(table.String())
	return wrong
}

// tolerated is the largest relative difference from the computed figure.
const tolerated = 0.05

func (s stalls) judge(name string, want time.Duration, open, closed *float64) (wrong []string) {
	// If the computed figure is 0, the difference is relative to the stall.
	scale := want
	if want == 0 {
		scale = s.Stall
	}
	off := func(got *float64) float64 {
		return math.Abs(float64(microseconds(got)-want)) / float64(scale)
	}
	if off(open) > tolerated {
		wrong = append(wrong, fmt.Sprintf("the open loop's %s is %v, computed %v", name, microseconds(open), want))
	}
	if want > 0 && off(closed) <= tolerated {
		wrong = append(wrong, fmt.Sprintf("the closed loop's %s is %v and so is the truth: the stalls do not show the difference", name, microseconds(closed)))
	}
	return wrong
}

func microseconds(figure *float64) time.Duration {
	if figure == nil {
		return -1
	}
	return time.Duration(*figure * 1e3)
}

// plan measures whole periods, so that their phase does not matter.
func (s stalls) plan(t *testing.T, p Plan) Plan {
	p.Target = serveWith(t, "tcp", s.serve(time.Now()))
	p.Echo, p.Warmup, p.For = true, s.Period/2, 2*s.Period
	return p
}

// undisturbed measures until the generator reports no disturbance, six times at most. The
// condition does not look at the figures.
func undisturbed(t *testing.T, s stalls, p Plan) *Result {
	t.Helper()
	for again := 0; ; again++ {
		r := measured(t, s.plan(t, p))
		if r.Valid || again == 5 {
			return r
		}
		t.Logf("measured again: %q", r.InvalidReasons)
	}
}

// Requests at constant intervals fall into step with periodic stalls: what they see depends on
// when the load began. Poisson arrivals see each moment equally often.
func TestPoissonArrivalsDoNotFallIntoStep(t *testing.T) {
	const requests, rate = 200_000, 500
	s := stalls{Period: 20 * time.Millisecond, Stall: 3 * time.Millisecond}
	truth := s.Stall.Seconds() * s.Stall.Seconds() / 2 / s.Period.Seconds() // the mean wait at a random moment
	for arrivals, want := range map[Arrivals][2]float64{Constant: {0.7, 1.7}, Poisson: {0.97, 1.03}} {
		least, most := math.Inf(1), 0.0
		for began := time.Duration(0); began < s.Period; began += s.Period / 8 {
			moments, sum := schedule{arrivals: arrivals, rate: rate, seed: 1}, 0.0
			for n := range int64(requests) {
				if phase := (began + moments.at(n)) % s.Period; phase < s.Stall {
					sum += (s.Stall - phase).Seconds()
				}
			}
			mean := sum / requests / truth
			least, most = min(least, mean), max(most, mean)
		}
		t.Logf("%v: %.2f to %.2f of the truth", arrivals, least, most)
		if arrivals == Constant && (least > want[0] || most < want[1]) || arrivals == Poisson && (least < want[0] || most > want[1]) {
			t.Errorf("%v arrivals see %.2f to %.2f of the true mean, want %v", arrivals, least, most, want)
		}
	}
}
