package fleet

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load"
)

// agents returns where so many agents wait.
func agents(t *testing.T, count int) *NATS {
	t.Helper()
	from, _ := agentsOf(t, count, -1)
	return from
}

// Agents send what one process sends: the server has had each request of the plan once,
// on its connection and in its size, and the result has them all.
func TestFleetSendsThePlan(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 3, most} {
		const conns, requests = 9, 1200
		s := serve(t, nil)
		j := testJob{Address: s.ln.Addr().String(), Conns: conns, Rate: 3000, Poisson: true, Requests: requests, Sizes: "uniform:1..700", MaxLag: time.Minute}
		r, err := fleetOf(t, j, agents(t, k)).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes, want := sizesOf(t, j.Sizes), make(map[int]int)
		for n := range requests {
			want[n] = sizes.At(5, uint64(n))
		}
		if got := s.asked(conns); !maps.Equal(got, want) {
			t.Errorf("%d agents: the server has had %d requests, or others than one process sends", k, len(got))
		}
		if r.Requests != requests || len(r.Agents) != k || !onlyBusy(r) {
			t.Errorf("%d agents: %d requests, %q", k, r.Requests, r.InvalidReasons)
		}
		checkWhole(t, r)
	}
}

// checkWhole compares the intervals' sum with the whole, bucket by bucket.
func checkWhole(t *testing.T, r *load.Result) {
	t.Helper()
	sum, service, at := load.NewHistogram(), load.NewHistogram(), time.Duration(0)
	for _, i := range r.Intervals {
		h, err := hdrhistogram.Decode(i.Latency)
		if err != nil {
			t.Fatal(err)
		}
		sum.Merge(h)
		if h, err = hdrhistogram.Decode(i.Service); err != nil {
			t.Fatal(err)
		}
		service.Merge(h)
		if i.Start != at {
			t.Errorf("an interval begins at %v, the one before ends at %v", i.Start, at)
		}
		at = i.End
	}
	if !sum.Equals(r.Histograms.Latency) || !service.Equals(r.Histograms.Service) {
		t.Error("the intervals' sum is not the whole")
	}
	var requests int64
	for _, a := range r.Agents {
		requests += a.Requests
	}
	if requests != r.Requests {
		t.Errorf("agents have %d requests, all %d", requests, r.Requests)
	}
}

// A closed loop is split as well, and a live view sees all of it.
func TestFleetOfAClosedLoop(t *testing.T) {
	t.Parallel()
	s := serve(t, func() { <-time.After(time.Millisecond) })
	f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 6, For: 2500 * time.Millisecond}, agents(t, 2))
	var most load.Progress
	var seen int64
	f.Plan.Progress = func(p load.Progress) {
		most.Conns = max(most.Conns, p.Conns)
		most.Answered = max(most.Answered, p.Answered)
		seen += p.Latency.TotalCount()
	}
	opened, closed := 0, 0
	f.Plan.WindowOpens, f.Plan.WindowCloses = func() { opened++ }, func() { closed++ }
	r, err := f.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !onlyBusy(r) || most.Conns != 6 || most.Answered == 0 || seen == 0 || seen > r.Requests || opened != 1 || closed != 1 {
		t.Errorf("%q; seen %+v with %d times; the window opened %d times, closed %d", r.InvalidReasons, most, seen, opened, closed)
	}
	checkWhole(t, r)
}

// An agent that leaves, or whose clock is wrong, is found within 3 s, named, and its run never valid.
func TestFleetFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slow int
		hurt func(pid int) error
		want string
	}{
		"left":  {-1, func(pid int) error { return syscall.Kill(pid, syscall.SIGINT) }, "agent 2 was interrupted on its own machine"},
		"clock": {1, func(int) error { return nil }, "agent 2 has a clock that drifted by "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			from, pids := agentsOf(t, 3, c.slow)
			f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 6, Rate: 150, For: 20 * time.Second, Warmup: -1, MaxLag: time.Minute}, from)
			var hurt time.Time
			f.Told = func(all []Now) {
				if measured(all, 3) && hurt.IsZero() {
					if hurt = time.Now(); c.hurt(pids[1]) != nil {
						t.Error("the agent has ended already")
					}
				}
			}
			began := time.Now()
			r, err := f.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if hurt.IsZero() {
				hurt = began
			}
			if took := time.Since(hurt); took > 2*slower*(3*time.Second+lastWords) {
				t.Errorf("the run ended %v after that", took)
			} else {
				t.Logf("the run ended %v after that: %q", took.Round(time.Millisecond), r.InvalidReasons)
			}
			if r.Valid || r.Interrupted || !slices.ContainsFunc(r.InvalidReasons, func(why string) bool { return strings.HasPrefix(why, c.want) }) {
				t.Errorf("valid %v: %q", r.Valid, r.InvalidReasons)
			}
			if c.slow < 0 && (r.Requests == 0 || r.Agents[0].Requests == 0) || r.Agents[1].Fault == "" {
				t.Errorf("the figures until then are lost: %+v", r.Agents)
			}
			if c.slow < 0 && *r.Offered < *r.Rate {
				t.Errorf("%v answers a second, and only %v requests a second offered", *r.Rate, *r.Offered)
			}
			checkWhole(t, r)
		})
	}
}

// A target that cannot be reached, or a plan that cannot be split, fails as without agents.
func TestFleetFails(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for name, c := range map[string]struct {
		job    testJob
		agents int
		want   string
	}{
		"nobody listens":      {testJob{Address: "127.0.0.1:1", Conns: 3}, 3, "nothing listens there"},
		"too few connections": {testJob{Address: s.ln.Addr().String(), Conns: 2}, 3, "-c 2 is too few for 3 agents; use -c 3 or more, one connection for each"},
	} {
		r, err := fleetOf(t, c.job, agents(t, c.agents)).Run(t.Context())
		if !strings.Contains(textOf(err), c.want) || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	huge := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 2}, testNATS(""))
	huge.Job = make([]byte, mostJob+1)
	if _, err := huge.Run(t.Context()); !strings.Contains(textOf(err), "the load has 49283073 bytes in the form in which agents receive it, and the limit is 49283072; use a smaller scenario or smaller files") {
		t.Errorf("a huge job: %v", err)
	}
	f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 2}, agents(t, 1))
	f.Version = "other"
	if _, err := f.Run(t.Context()); !strings.Contains(textOf(err), "agent 1 is hone test, and this is other; run the same version") {
		t.Errorf("another version: %v", err)
	}
}

// Ctrl-C has what was measured until then, interrupted.
func TestFleetInterrupted(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	f := fleetOf(t, testJob{Address: s.ln.Addr().String(), Conns: 4, Rate: 200, For: 20 * time.Second, Warmup: -1, MaxLag: time.Minute}, agents(t, 2))
	ctx, cancel := context.WithCancel(t.Context())
	var told atomic.Int64
	f.Told = func(all []Now) {
		if len(all) == 2 && all[0].Phase == load.Measuring && told.Add(1) == 2 {
			cancel()
		}
	}
	r, err := f.Run(ctx)
	if err != nil || r.Valid || !r.Interrupted || r.Requests == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The progress has the delay of the latest agent, and names the first that makes the result invalid.
func TestProgressNamesTheLateAgent(t *testing.T) {
	var told load.Progress
	c := &coordinator{Fleet: &Fleet{Plan: load.Plan{Progress: func(p load.Progress) { told = p }}}, step: running}
	for _, seen := range []load.Progress{{Lag: 2}, {Lag: 5, Doubt: "it was late"}, {Lag: 1, Doubt: "it was, too"}} {
		c.members = append(c.members, &member{hello: hello{Name: string(rune('a' + len(c.members)))}, seen: seen})
	}
	if c.report(time.Now()); told.Lag != 5 || told.Doubt != "agent b: it was late" {
		t.Errorf("told %v, %q", told.Lag, told.Doubt)
	}
}

// The truth: against a server with a known schedule of stalls, the quantiles of three
// agents are those that can be computed.
func TestFleetTellsTheTruth(t *testing.T) {
	const period, stall = 500 * time.Millisecond, 100 * time.Millisecond
	epoch := time.Now()
	s := serve(t, func() {
		phase := time.Since(epoch) % period
		if phase >= stall {
			return
		}
		end := time.Now().Add(stall - phase)
		if early := time.Until(end) - 2*time.Millisecond; early > 0 {
			<-time.After(early)
		}
		for time.Now().Before(end) {
			runtime.Gosched()
		}
	})
	j := testJob{Address: s.ln.Addr().String(), Conns: 6, Rate: 2000, For: 4 * period, Warmup: period / 2, MaxLag: stall / 50}
	quantile := func(q float64) time.Duration {
		part := float64(stall) / float64(period)
		return time.Duration(float64(stall) * max(0, (q-(1-part))/part))
	}
	for again := range 6 {
		r, err := fleetOf(t, j, agents(t, 3)).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Valid {
			t.Logf("measured again: %q", r.InvalidReasons)
			continue
		}
		wrong := 0
		for q, got := range map[float64]*float64{0.9: r.Latency.P90, 0.95: r.Latency.P95, 0.99: r.Latency.P99, 0.999: r.Latency.P999} {
			want := quantile(q)
			off := math.Abs(*got*1e3-float64(want)) / float64(want)
			t.Logf("p%v: computed %v, fleet %v (%.1f %%)", 100*q, want, time.Duration(*got*1e3), 100*off)
			if off > 0.05 {
				wrong++
			}
		}
		if wrong == 0 {
			return
		}
		if again >= 2 {
			t.Fatal("the figures are not the computed ones")
		}
	}
	t.Log("others kept the generator from working, and it said so each time: nothing is claimed")
}
