package load

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/wire"
)

func scheduleOf(tb testing.TB, text string) (s offer.Schedule) {
	tb.Helper()
	if err := s.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return s
}

func sizesOf(tb testing.TB, text string) (s offer.Sizes) {
	tb.Helper()
	if err := s.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestRunFollowsASchedule(t *testing.T) {
	sideBySide(t)
	target := echoServer(t, "tcp")
	for text, c := range map[string]struct {
		want     int64
		measured time.Duration
		length   time.Duration // of the plan; 0: the schedule's
	}{
		"stages:500/200ms,2000/200ms,1000/200ms": {700, 600 * time.Millisecond, 0},
		"ramp:0..4000":                           {1000, time.Second / 2, time.Second / 2},
		"ramp:3000..1000":                        {1000, time.Second / 2, time.Second / 2},
	} {
		for _, arrivals := range []Arrivals{Constant, Poisson} {
			t.Run(text+"/"+arrivals.String(), func(t *testing.T) {
				sideBySide(t)
				r := measured(t, Plan{
					Target: target, Conns: 3, Schedule: scheduleOf(t, text), Arrivals: arrivals, For: c.length, Echo: true, MaxLag: time.Second,
				})
				off := int64(1) // where the warm-up's requests are no whole number
				if arrivals == Poisson {
					off = int64(5 * math.Sqrt(float64(c.want)))
				}
				if r.Requests < c.want-off || r.Requests > c.want+off || r.Errors["total"] != 0 {
					t.Errorf("%d requests, want %d; errors %v", r.Requests, c.want, r.Errors)
				}
				if r.Window != c.measured || r.Schedule != text || r.Offered == nil || math.Abs(*r.Offered*c.measured.Seconds()-float64(r.Requests)) > 0.5 {
					t.Errorf("schedule %q for %v, offered %v", r.Schedule, r.Window, r.Offered)
				}
			})
		}
	}
}

// Poisson arrivals of a changing rate have the rate's integral as their mean and variance in each
// second.
func TestPoissonScheduleFollowsTheRate(t *testing.T) {
	const seconds = 200
	timeline := scheduleOf(t, "ramp:100..900").Over(0, seconds*time.Second)
	s := schedule{arrivals: Poisson, seed: 5, timeline: timeline}
	var counts [seconds]float64
	for n := int64(0); ; n++ {
		at := s.at(n)
		if at >= seconds*time.Second {
			break
		}
		counts[at/time.Second]++
	}
	chi := 0.0
	for i, count := range counts {
		from := time.Duration(i) * time.Second
		want := timeline.Due(from+time.Second) - timeline.Due(from)
		chi += (count - want) * (count - want) / want
	}
	// Of 200 degrees of freedom: between 128 and 290 but once in 10,000 times.
	if chi < 128 || chi > 290 {
		t.Errorf("chi squared is %.0f", chi)
	}
}

// Only a slow server is behind, not a changing rate: more requests are in flight when the rate is
// higher.
func TestGateKnowsTheSchedule(t *testing.T) {
	const latency = 100 * time.Millisecond
	for _, c := range []struct {
		schedule       string
		warmup         time.Duration
		offered, under int64 // under way at the end more than at the beginning
		behind         bool
	}{
		{"ramp:1000..9000", time.Second, 50_000, 800, false},
		{"ramp:1000..9000", time.Second, 50_000, 1_300, false}, // one in a hundred is none
		{"ramp:1000..9000", time.Second, 50_000, 2_200, true},
		{"ramp:9000..1000", time.Second, 50_000, -800, false},
		{"ramp:9000..1000", time.Second, 50_000, 900, true},
		{"stages:1000/5s,9000/5s", time.Second, 50_000, 800, false},
		{"stages:1000/5s,9000/5s", time.Second, 50_000, 2_200, true},
		{"stages:9000/5s,1000/5s", time.Second, 50_000, 900, true},
		{"ramp:5000..5000", 0, 50_000, 500, false},
	} {
		m := sound()
		m.plan.Rate, m.plan.Schedule, m.plan.For, m.plan.Warmup = 0, scheduleOf(t, c.schedule), 10*time.Second, c.warmup
		m.timeline, m.Offered, m.During = m.plan.timeline(), c.offered, c.offered-c.under
		m.Latency = newHistogram()
		m.Latency.record(int64(latency), c.offered)
		if says := m.behind(); (says != "") != c.behind {
			t.Errorf("%s, %d more under way: %q", c.schedule, c.under, says)
		}
	}
}

// Request n's size is a function of n and the seed, on any connection and with any pacing; answers
// are checked against it.
func TestRunOfManySizes(t *testing.T) {
	sideBySide(t)
	const conns, seed = 3, 9
	sizes := sizesOf(t, "lognormal:300,1")
	for name, p := range map[string]Plan{
		"closed": {Depth: 4, Requests: 300}, "open": {Rate: 3000, Requests: 300}, "poisson": {Rate: 3000, Arrivals: Poisson, Requests: 300},
		"schedule": {Schedule: scheduleOf(t, "ramp:0..6000"), For: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var bySize [conns][]int
			target := serveWith(t, "tcp", answering(nil, func(dst []byte, p wire.Packet) []byte {
				mu.Lock()
				number := p.ID >> 16 & 0xffff
				bySize[number] = append(bySize[number], len(p.Content))
				mu.Unlock()
				return echo(dst, p)
			}))
			p.Target, p.Conns, p.Sizes, p.Seed, p.Echo, p.MaxLag, p.Timeout = target, conns, sizes, seed, true, time.Second, patience/2
			r := measured(t, p)
			if r.Errors["total"] != 0 || r.Requests == 0 {
				t.Fatalf("%d requests, errors %v", r.Requests, r.Errors)
			}
			sum, count, most := 0, 0, 0
			for number, seen := range bySize {
				for k, size := range seen {
					if want := sizes.At(seed, uint64(k*conns+number)); size != want {
						t.Fatalf("request %d of connection %d has %d bytes, want %d", k, number, size, want)
					}
					sum, count, most = sum+size, count+1, max(most, size)
				}
			}
			if mean := float64(sum) / float64(count); *r.SizeMean != mean || *r.SizeMost != most {
				t.Errorf("said to be %v on average and %d at most, the server saw %v and %d", *r.SizeMean, *r.SizeMost, mean, most)
			}
		})
	}
}

func TestRunOfManySizesVerifies(t *testing.T) {
	sideBySide(t)
	var n atomic.Int64
	target := serveWith(t, "tcp", answering(nil, func(dst []byte, p wire.Packet) []byte {
		if n.Add(1)%10 == 0 {
			p.Content = p.Content[:len(p.Content)-1]
		}
		return echo(dst, p)
	}))
	r := measured(t, Plan{
		Target: target, Sizes: sizesOf(t, "uniform:1..100"), Echo: true, Rate: 1000, Warmup: -1, For: 200 * time.Millisecond, MaxLag: time.Second,
	})
	if r.Errors["wrong_content"] != 20 || r.Errors["total"] != 20 {
		t.Errorf("errors %v, want 20 of wrong content", r.Errors)
	}
}

func TestPlansThatCannotBeTogether(t *testing.T) {
	frames, rate := codec.Frames{Address: "127.0.0.1:1"}, scheduleOf(t, "ramp:1..2")
	for name, p := range map[string]Plan{
		"rate and schedule":        {Target: frames, Rate: 1, Schedule: rate},
		"rate without connections": {Target: frames, Rate: 1, Idle: 1},
		"schedule without any":     {Target: frames, Schedule: rate, Churn: 1},
		"idle":                     {Target: frames, Idle: -1},
		"churn":                    {Target: frames, Churn: -1},
		"content and sizes":        {Target: frames, Content: []byte("x"), Sizes: sizesOf(t, "uniform:1..2")},
		"sizes and expect":         {Target: frames, Expect: []byte("x"), Sizes: sizesOf(t, "uniform:1..2")},
		"sizes of HTTP":            {Target: codec.HTTP{URL: "http://127.0.0.1:1"}, Sizes: sizesOf(t, "uniform:1..2")},
		"sizes of fixed messages":  {Target: codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, "fixed:2")}, Sizes: sizesOf(t, "uniform:1..2")},
		"sizes below the match":    {Target: codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, "len32be"), Match: codec.Match{Len: 4}}, Sizes: sizesOf(t, "uniform:3..9")},
		"sizes above the length":   {Target: codec.Messages{Address: "127.0.0.1:1", Framing: framing(t, "len16be")}, Sizes: sizesOf(t, "uniform:3..70000")},
		"sources of a unix socket": {Target: codec.Frames{Network: "unix", Address: "x"}, Sources: sourcesOf(t, "127.0.0.1")},
		"sources of HTTP's":        {Target: codec.HTTP{URL: "http://unix:/x:/"}, Sources: sourcesOf(t, "127.0.0.1")},
	} {
		r, err := Run(context.Background(), p)
		e := faultOf(t, err)
		if r != nil || e.Kind != BadPlan {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		checkLine(t, e, "")
	}
}
