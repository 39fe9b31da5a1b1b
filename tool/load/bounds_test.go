package load

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// Closed and open loops send exactly the number of requests of the plan, and then end.
func TestRequestsInAll(t *testing.T) {
	sideBySide(t)
	for _, p := range []Plan{
		{Conns: 7, Requests: 5000}, {Conns: 3, Depth: 16, Requests: 1001}, {Conns: 7, Rate: 2000, Requests: 500},
		{Conns: 3, Rate: 2000, Arrivals: Poisson, Requests: 500},
	} {
		var served atomic.Int64
		p.Target = serveWith(t, "tcp", answering(nil, func(dst []byte, p wire.Packet) []byte {
			served.Add(1)
			return echo(dst, p)
		}))
		p.Echo, p.MaxLag = true, time.Second
		o := runPlan(t, t.Context(), p)
		if o.err != nil {
			t.Fatal(o.err)
		}
		r := o.result
		if !onlyBusy(r) || r.Requests != p.Requests || served.Load() != p.Requests || o.took > 20*time.Second {
			t.Errorf("%d requests, %d served, want %d; after %v; %q", r.Requests, served.Load(), p.Requests, o.took, r.InvalidReasons)
		}
		if r.Window <= 0 || r.Window > o.took || *rated(r) < float64(p.Requests)/o.took.Seconds() {
			t.Errorf("window %v of %v, rate %v", r.Window, o.took, *rated(r))
		}
	}
	for _, p := range []Plan{{Requests: -1}, {Requests: 1, Warmup: 1}, {Requests: 1, Churn: 1}, {Requests: 1, Idle: 1}} {
		p.Target = codec.Frames{Address: "127.0.0.1:1"}
		if _, err := Run(t.Context(), p); faultOf(t, err).Kind != BadPlan {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// onlyBusy reports whether only a busy machine makes the result invalid.
func onlyBusy(r *Result) bool {
	for _, reason := range r.InvalidReasons {
		if !strings.Contains(reason, "CPU") {
			return false
		}
	}
	return true
}

// A goal that is certain to be missed ends the run, and is judged as missed.
func TestMissedGoalEndsTheRun(t *testing.T) {
	sideBySide(t)
	serve := func(t *testing.T) codec.Target {
		var served atomic.Int64
		return serveWith(t, "tcp", answering(func() {
			if served.Add(1)%4 == 0 {
				<-time.After(10 * time.Millisecond)
			}
		}, echo))
	}
	for _, text := range []string{"p50<1us", "max<5ms", "p90<=1ms"} {
		t.Run(text, func(t *testing.T) {
			sideBySide(t)
			target := serve(t)
			goal := must[Goal](t)(ParseGoal(text))
			var o outcome
			// On a busy machine most answers may come at the end of the run, and only then is the goal
			// certain to be missed.
			for again := 0; again == 0 || again < 5 && (o.result.Stopped == "" || o.result.Window >= 4*time.Second); again++ {
				o = runPlan(t, t.Context(), Plan{
					Target: target, Conns: 8, Rate: 400, Warmup: -1, For: 4 * time.Second, MaxLag: 10 * time.Second, AbortOn: []Goal{goal},
				})
				if o.err != nil {
					t.Fatal(o.err)
				}
			}
			r, outcome := o.result, Check(o.result, []Goal{goal})[0]
			if r.Stopped != text || r.Window >= 4*time.Second || !onlyBusy(r) || outcome.Met || outcome.Judged != r.Valid {
				t.Errorf("stopped for %q after %v, %v, reasons %q", r.Stopped, r.Window, outcome, r.InvalidReasons)
			}
		})
	}
	t.Run("met", func(t *testing.T) {
		sideBySide(t)
		goal := must[Goal](t)(ParseGoal("p99<1m"))
		r := measured(t, Plan{Target: serve(t), Conns: 8, Rate: 400, Warmup: -1, For: 1100 * time.Millisecond, MaxLag: time.Second, AbortOn: []Goal{goal}})
		if r.Stopped != "" || r.Requests != 440 {
			t.Errorf("stopped for %q after %d requests", r.Stopped, r.Requests)
		}
	})
}

// When a goal is certain to be missed, and when it is not.
func TestMissedForCertain(t *testing.T) {
	counted, nothing := newTally(true), newTally(true)
	counted.Latency.record(int64(time.Millisecond), 990)
	counted.Latency.record(int64(time.Second), 10)
	counted.Errors[Failed] = 3
	counted.Errors[Shed] = 2
	for _, c := range []struct {
		goal string
		most int64
		want bool
	}{
		{"p99<10ms", 999, true}, {"p99<10ms", 1000, false}, {"p99<10ms", 0, false}, {"p999<10ms", 2000, true},
		{"max<1s", 0, false}, {"max<10ms", 0, true}, {"max>10ms", 0, false}, {"service.max<10ms", 0, false},
		{"errors==0", 0, true}, {"errors<5", 0, true}, {"errors<=5", 0, false}, {"errors==5", 0, false}, {"errors<6", 0, false},
		{"errors<1%", 500, true}, {"errors<1%", 501, false}, {"errors<1%", 0, false}, {"shed<2", 0, true}, {"shed<3", 0, false},
		{"rate>=10", 1000, false}, {"rate<10", 1000, false}, {"max>=10ms", 0, false}, {"pay.max>10ms", 0, false}, {"pay.max<10ms", 0, false},
	} {
		if got := must[Goal](t)(ParseGoal(c.goal)).missed(counted, nothing, c.most); got != c.want {
			t.Errorf("%s of %d: %v, want %v", c.goal, c.most, got, c.want)
		}
	}
}

// The bound of the number of requests is that of the schedule, and in a closed loop unknown.
func TestMostRequests(t *testing.T) {
	for want, p := range map[int64]Plan{
		0:    {For: time.Second},
		500:  {Requests: 500, Rate: 1000, For: time.Minute},
		2001: {Rate: 1000, For: 2 * time.Second},
		1081: {Rate: 900, For: time.Second, Arrivals: Poisson}, // 900 + 6 * 30 + 1
	} {
		if got := p.most(nil); got != want {
			t.Errorf("%+v: %d, want %d", p, got, want)
		}
	}
}

// HTTP/1.1 answers in order: without a depth, a request waits for no other one's answer.
func TestDepth(t *testing.T) {
	frames, web := codec.Frames{Address: "127.0.0.1:1"}, codec.HTTP{URL: "http://127.0.0.1:1/"}
	for _, c := range []struct {
		plan Plan
		want int
	}{
		{Plan{Target: frames}, 1}, {Plan{Target: web}, 1}, {Plan{Target: frames, Rate: 1}, openDepth}, {Plan{Target: web, Rate: 1}, 1},
		{Plan{Target: frames, Depth: 3}, 3}, {Plan{Target: web, Rate: 1, Depth: 3}, 3},
	} {
		if p := must[Plan](t)(c.plan.complete()); p.Depth != c.want {
			t.Errorf("%T at %v/s, depth %d: %d, want %d", c.plan.Target, c.plan.Rate, c.plan.Depth, p.Depth, c.want)
		}
	}
}

// A closed loop warns if the server stalls, because its percentiles hide the stall; an open loop,
// whose percentiles show it, does not.
func TestStalledServerIsWarnedOf(t *testing.T) {
	eachRate(t, []float64{0, 4000}, func(t *testing.T, rate float64) {
		var served atomic.Int64
		target := serveWith(t, "tcp", answering(func() {
			if served.Add(1) == 300 {
				<-time.After(time.Second)
			}
		}, echo))
		var r *Result
		warned := false
		// A busy machine causes many stalls, so the server's does not stand out.
		for again := 0; again == 0 || again < 5 && warned != (rate == 0); again++ {
			served.Store(0)
			r = measured(t, Plan{Target: target, Requests: 4000, Rate: rate, MaxLag: time.Second})
			warned = len(r.Warnings) == 1 && strings.Contains(r.Warnings[0], "closed loop")
		}
		if warned != (rate == 0) {
			t.Errorf("at %v/s: max %v, p99.9 %v, warnings %q", rate, *r.Latency.Max, *r.Latency.P999, r.Warnings)
		}
	})
}
