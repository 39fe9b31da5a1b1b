package workers

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A whole pool in fake time, on a machine that reports idle processors: its limit grows
// to what the tasks can use, gives reasons, and sampling stops when the pool is idle.
func TestAutoPoolGrowsAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Auto(AutoOptions{Min: 2, Max: 200, Start: 4})})
		looks := 0
		p.crew.pilot.machine = func() machine { looks++; return machine{procs: procs} }
		downstream := make(chan struct{}, 64)
		var done atomic.Int64
		task := func() {
			downstream <- struct{}{}
			<-time.After(time.Duration(25+(done.Add(1)*7919)%51) * time.Millisecond) // 50 on average, with jitter
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
			t.Errorf("an idle pool was sampled %d times", looks-quiet)
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

func TestAutoOptions(t *testing.T) {
	here := runtime.GOMAXPROCS(0)
	for o, want := range map[AutoOptions]struct{ lowest, initial, highest int }{
		{}:                            {1, 2 * here, 1024 * here},
		{Min: -1, Max: -1, Start: -1}: {1, 2 * here, math.MaxInt},
		{Start: 1}:                    {1, 1, 1024 * here},
		{Min: 5, Max: 3, Start: 1}:    {5, 5, 5},
		{Min: 2, Max: 7, Start: 9}:    {2, 7, 7},
	} {
		if c := newPilot(o).climb; c.min != want.lowest || c.limit != want.initial || c.max != want.highest {
			t.Errorf("%+v: a limit of %d, from %d to %d, want %+v", o, c.limit, c.min, c.max, want)
		}
	}
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

// A trial whose lower limit no longer binds ends where it began, without a decision.
func TestTrialEndsWithTheBacklog(t *testing.T) {
	for _, bound := range []bool{true, false} {
		c := climb{min: 1, max: 100, limit: 20, stride: widest}
		w := window{took: shortest, done: 100, bound: true, busy: 20, inUse: 20, waiting: 90}
		c.next(w) // begins a trial of 40
		for range 10 {
			w.inUse, w.done, w.bound = c.limit, 5*c.limit, bound || c.limit > 20
			if c.next(w); c.trial == Hold || c.base != 20 {
				break
			}
		}
		if grown := c.base == 40; grown != bound || !bound && c.limit != 20 {
			t.Errorf("bound %v: from %d to %d", bound, c.base, c.limit)
		}
	}
}

// A gain is noise if the added workers only wait for processors.
func TestNoGrowthIntoCrowd(t *testing.T) {
	for _, crowded := range []bool{true, false} {
		c := climb{min: 1, max: 100, limit: 8, stride: widest}
		grown := false
		for range 20 {
			w := window{took: shortest, done: 100, procs: 8, bound: true, inUse: c.limit, busy: float64(c.limit), waiting: 90, cpu: 0.5}
			if c.limit > 8 {
				w.done = 200 // by chance
				if crowded {
					w.crowd = c.limit - 8
				}
			}
			c.next(w)
			grown = grown || c.base > 8
		}
		if grown == crowded {
			t.Errorf("crowded: %v, grown: %v", crowded, grown)
		}
	}
}

// While the limit does not exceed the number of processors, waiting goroutines are not
// surplus workers: two CPU-bound workers were once judged one too many, because the
// callers waited for processors.
func TestGrowthToTheProcessorsIgnoresTheCrowd(t *testing.T) {
	c := climb{min: 1, max: 2, limit: 1, stride: widest}
	for range 20 {
		c.next(window{took: shortest, done: 70 * c.limit, procs: 2, bound: true, inUse: c.limit,
			busy: float64(c.limit), waiting: 60, cpu: 0.5, crowd: 9 * (c.limit - 1)})
	}
	if c.trial != Hold || c.limit != 2 {
		t.Errorf("limit %d, trial %v with a lead of %d", c.limit, c.trial, c.lead)
	}
}

// At a low limit, one more worker is a large fraction and need not add as much: the best
// limit is the smallest one with 95 % of the throughput.
func TestLowLimitIsWorthItsLastWorker(t *testing.T) {
	for _, test := range []struct{ gain, limit int }{{2, 1}, {8, 2}} { // % of the second worker
		c := climb{min: 1, max: 2, limit: 1, stride: widest}
		for i := range 100 {
			c.next(window{took: shortest, done: 1000 + 10*test.gain*(c.limit-1), procs: 4, bound: true, inUse: c.limit,
				busy: float64(c.limit), waiting: 60, cpu: 0.1})
			if i > 10 && c.trial == Hold && c.limit != test.limit {
				t.Fatalf("a second worker that adds %d %%: limit %d", test.gain, c.limit)
			}
		}
		if c.votes == 0 {
			t.Error("no trial was started")
		}
	}
}

// The gradient in platinummonkey's library was wrong for two years: whatever the windows
// show, the limit stays between Min and Max.
func TestPlatinummonkey166RailsHold(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	c := climb{min: 3, max: 50, limit: 10, stride: widest}
	for range 100_000 {
		d := c.next(window{
			took: time.Duration(r.IntN(1e9)), done: r.IntN(1000), procs: 1 + r.IntN(8), bound: r.IntN(4) > 0, inUse: r.IntN(70),
			busy: r.Float64() * 60, waiting: r.Float64() * 10, cpu: r.Float64()*2.2 - 1, runnable: r.Float64() * 100,
		})
		if c.limit < 3 || c.limit > 50 || d.why > Probe {
			t.Fatalf("seed %d: %+v, %+v", seed, d, c)
		}
	}
	for why := range Probe + 2 {
		if why.String() == "" {
			t.Errorf("reason %d has no name", why)
		}
	}
}

// A limit that is reached now and then stays, whatever the throughput: nothing waits for
// it.
func TestHoldsWhenTheLoadIsTheLimit(t *testing.T) {
	c := climb{min: 1, max: 100, limit: 40, stride: widest}
	for i := range 1000 {
		w := window{took: shortest, done: 60 + i%50, procs: 4, busy: 15, inUse: 10 + i%31, waiting: 3, cpu: 0.5}
		if d := c.next(w); c.limit != 40 || d.why != Hold {
			t.Fatalf("limit %d because of %v", c.limit, d.why)
		}
	}
}

// Tasks that wait for a worker to wake up do not wait because of the limit.
func TestBoundOnlyByTheLimit(t *testing.T) {
	for _, test := range []struct {
		workers, coming, idle, queued int
		bound                         bool
	}{
		{workers: 10, queued: 3, bound: true},
		{workers: 10, queued: 0},
		{workers: 10, coming: 1, queued: 3},
		{workers: 10, idle: 2, queued: 3},
		{workers: 9, queued: 3},
		{workers: 3, coming: 1, queued: 3},
	} {
		c := newCrew(Options{Limit: Fixed(10)}, func(*shift, int) {}, func(int, error) {})
		c.workers, c.coming, c.queued, c.idle = test.workers, test.coming, test.queued, make([]*worker[int], test.idle)
		if got := c.census().bound; got != test.bound {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// A growth trial keeps the workers that were used, not the limit that it tried: otherwise
// a limit that nobody uses doubles again and again.
func TestGrowthKeepsWhatIsUsed(t *testing.T) {
	c := climb{min: 1, max: 4096, limit: 250, stride: widest}
	for range 20 {
		used := min(c.limit, 400)
		c.next(window{took: shortest, done: 20 * used, procs: 4, bound: c.limit < 400,
			busy: float64(used), inUse: used, waiting: float64(1000 - used)})
		if c.limit > 500 {
			t.Fatalf("limit %d", c.limit)
		}
	}
	if c.limit != 400 || c.trial != Hold {
		t.Errorf("limit %d, %v", c.limit, c.trial)
	}
}

// While hundreds of tasks compute, the timer's function waits for a processor, and workers sample.
func TestWorkersTakeOverdueSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Limit: Auto(AutoOptions{Max: 1})})
		c, looks, hold := p.crew, 0, make(chan struct{})
		c.pilot.machine = func() machine { looks++; return machine{procs: procs} }
		p.Go(t.Context(), func() { <-hold })
		synctest.Wait()
		c.mu.Lock()
		c.sample(time.Now().Add(-2*look), machine{}) // has waited for the lock, and replaces the timer's next call
		if c.pilot.due.Load() != int64(time.Since(c.pilot.epoch)+again) || !c.pilot.last.IsZero() {
			t.Error("an old sample was used, or is not repeated soon")
		}
		c.pilot.timer.Stop() // as if its function waited
		c.running--
		c.mu.Unlock()
		<-time.After(2 * look)
		for range 20 {
			p.Go(t.Context(), func() {})
		}
		close(hold)
		synctest.Wait()
		if looks != 1 {
			t.Errorf("%d samples, want 1", looks)
		}
		<-time.After(time.Minute)
		if looks != 2 {
			t.Errorf("%d samples, want another one, which finds the pool idle", looks)
		}
		if err := p.Close(t.Context()); err != nil || c.running != 0 {
			t.Errorf("%v, %d goroutines and timers are left", err, c.running)
		}
	})
}

// One goroutine takes a sample; if it has to wait for a processor, another one.
func TestClaimLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPilot(AutoOptions{})
		for i, late := range []time.Duration{0, 0, look} {
			if at, _ := p.claim(late); at.IsZero() != (i > 0) {
				t.Errorf("claim %d: %v", i, at)
			}
		}
		<-time.After(2 * look)
		if at, _ := p.claim(look); at.IsZero() {
			t.Error("the claim has not lapsed")
		}
	})
}

// Workers that were worth it for tasks that wait are not kept because of that for tasks that compute.
func TestCrowdEndsThePauseAfterGrowth(t *testing.T) {
	for _, test := range []struct {
		wary    bool // a trial of fewer has failed before
		cpu     float64
		windows int
		fell    bool
	}{{false, 1, 2, true}, {false, 1, 1, false}, {false, 0.4, 2, false}, {true, 1, 2, false}} { // with 0.4, other programs have the processors
		c := climb{min: 1, max: 1000, limit: 512, stride: widest, shrinkIn: pause, wary: test.wary}
		for range test.windows {
			c.next(window{took: shortest, done: 100, procs: procs, busy: 512, inUse: 512, cpu: test.cpu, crowd: 500})
		}
		if fell := c.trial == Contended && c.limit == 16; fell != test.fell {
			t.Errorf("%+v: the limit is %d", test, c.limit)
		}
	}
}

// BenchmarkLook is the cost of one sample, of which there are 50 a second.
func BenchmarkLook(b *testing.B) {
	p := newPilot(AutoOptions{})
	for b.Loop() {
		p.see(time.Now(), census{limit: 8, busy: 4}, p.machine(), false)
	}
}
