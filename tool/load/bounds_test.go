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
