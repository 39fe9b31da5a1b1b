package workers

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A whole pool in fake time, on a machine that says it is idle: it grows to what
// the tasks can use, says why, and is not looked at any more when it is quiet.
func TestAutoPoolGrowsAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Auto(AutoOptions{Min: 2, Max: 200, Start: 4})})
		looks := 0
		p.crew.pilot.machine = func() (time.Duration, bool, int) { looks++; return 0, true, 0 }
		downstream := make(chan struct{}, 64)
		var done atomic.Int64
		task := func() {
			downstream <- struct{}{}
			<-time.After(time.Duration(25+(done.Add(1)*7919)%51) * time.Millisecond) // 50 on average, out of step
			<-downstream
		}
		begin := time.Now()
		for time.Since(begin) < 20*time.Second {
			if err := p.Go(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}
		before := done.Load()
		for time.Since(begin) < 25*time.Second {
			p.Go(t.Context(), task)
		}
		if rate := float64(done.Load()-before) / 5; rate < 0.95*64/0.05 {
			t.Errorf("%.0f/s at a limit of %d:\n%v", rate, p.Stats().Limit, p.Decisions())
		}
		log := p.Decisions()
		for i, d := range log {
			if d.From == d.To || d.To < 2 || d.To > 200 || d.Reason == Hold || i > 0 && d.At.Before(log[i-1].At) {
				t.Errorf("decision %d is %+v", i, d)
			}
		}
		if len(log) == 0 || log[0].Reason != Backlog || log[0].From != 4 {
			t.Errorf("the log begins with %+v", log)
		}
		<-time.After(time.Minute)
		quiet := looks
		<-time.After(time.Hour)
		if looks != quiet {
			t.Errorf("a quiet pool was looked at %d times", looks-quiet)
		}
		p.Resize(7)
		if st := p.Stats(); st.Limit != 7 || st.Workers != 0 {
			t.Errorf("%+v", st)
		}
		p.Go(t.Context(), task)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDecisionsAreBounded(t *testing.T) {
	p := newPilot(AutoOptions{})
	for i := range 3 * keptDecisions {
		p.note(Decision{To: i})
	}
	log := p.decisions()
	if len(log) != keptDecisions || log[0].To != 2*keptDecisions || log[keptDecisions-1].To != 3*keptDecisions-1 {
		t.Errorf("%d decisions, from %d to %d", len(log), log[0].To, log[len(log)-1].To)
	}
}

// platinummonkey's gradient was wrong for two years: whatever it sees, a limit
// stays between its rails.
func TestPlatinummonkey166RailsHold(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	c := climb{min: 3, max: 50, limit: 10, stride: len(strides) - 1}
	for range 100_000 {
		limit, why := c.next(window{
			took: time.Duration(r.IntN(1e9)), done: r.IntN(1000), procs: 1 + r.IntN(8),
			busy: r.Float64() * 60, waiting: r.Float64() * 10, cpu: r.Float64()*2.2 - 1, runnable: r.Float64() * 100,
		})
		if limit < 3 || limit > 50 || limit != c.limit || why > Probe {
			t.Fatalf("seed %d: limit %d because of %v, %+v", seed, limit, why, c)
		}
	}
	for why := range Probe + 2 {
		if why.String() == "" {
			t.Errorf("reason %d has no name", why)
		}
	}
}

// A limit that is enough is held, however busy it is for moments.
func TestHoldsWhenTheLoadIsTheLimit(t *testing.T) {
	c := climb{min: 1, max: 100, limit: 40, stride: len(strides) - 1}
	for range 1000 {
		if limit, why := c.next(window{took: shortest, done: 60, procs: 4, busy: 15, cpu: 0.99, runnable: 30}); limit != 40 || why != Hold {
			t.Fatalf("limit %d because of %v", limit, why)
		}
	}
}

// The real machine: what waits gets many workers, what computes gets few.
func TestAutoOnThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("it keeps the processors busy for seconds; run without -short")
	}
	procs := runtime.GOMAXPROCS(0)
	compute := func() {
		x := 1.0
		for range 20_000 {
			x += 1 / x
		}
		runtime.KeepAlive(x)
	}
	wait := func() { <-time.After(10 * time.Millisecond) }
	for _, test := range []struct {
		name        string
		task        func()
		least, most int
		longest     time.Duration // until there are least
	}{
		{"computing", compute, 1, 16 * procs, time.Second}, // others may use the machine too
		{"asking", wait, 12 * procs, 1 << 20, 15 * time.Second},
		{"mixed", func() { compute(); wait() }, 4 * procs, 1 << 20, 15 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := New(Options{Limit: Auto(AutoOptions{}), Queue: 64})
			begin := time.Now()
			for time.Since(begin) < test.longest && (test.least == 1 || p.Stats().Limit < test.least) {
				p.Go(t.Context(), test.task)
			}
			st := p.Stats()
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
			t.Logf("limit %d after %v, %d tasks", st.Limit, time.Since(begin), st.Done)
			if st.Limit < test.least || st.Limit > test.most {
				t.Errorf("limit %d, want %d to %d:\n%+v", st.Limit, test.least, test.most, p.Decisions())
			}
		})
	}
}

// BenchmarkLook is what watching a pool costs, 50 times a second.
func BenchmarkLook(b *testing.B) {
	p := newPilot(AutoOptions{})
	for b.Loop() {
		p.see(census{limit: 8, busy: 4}, false)
	}
}
