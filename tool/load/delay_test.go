package load

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// What the generator added to an answer is known from the timer that rings where it reads: no
// answer in time counts as late, nor more than an answer took longer than the quickest.
func TestAnswersTakeTheDelayOfTheirReader(t *testing.T) {
	const ms = int64(time.Millisecond)
	s := &counter{window: window{0, 1000 * ms}, timeout: 1000 * ms, now: newTally(false)}
	r := &run{window: s.window, counters: []*counter{s}}
	h, err := r.newHeartbeat(s)
	if err != nil {
		t.Fatal(err)
	}
	defer h.timer.Close()
	defer h.threads.Close()
	for _, step := range []struct {
		what                string
		due                 int64 // set before
		rings               bool  // the reader notices the timer, and not an answer
		written, now, count int64
		late, delay         int64 // answers that are late after the step, and the longest delay
	}{
		{"before it has begun", 0, false, 0, ms, 1, 0, 0},
		{"in time", 12 * ms, false, 9 * ms, 10 * ms, 5, 0, 0},
		{"the timer is a little late", 12 * ms, false, 9 * ms, 12*ms + 200_000, 5, 0, 0},
		{"read after a stop of 8 ms, before the timer", 13 * ms, false, 11 * ms, 21 * ms, 7, 7, 8 * ms},
		{"and then the timer", 13 * ms, true, 0, 21*ms + 100_000, 0, 7, 8 * ms},
		{"read in the same turn, asked before the stop", 24 * ms, false, 12 * ms, 22 * ms, 2, 9, 8 * ms},
		{"asked in the turn of the stop, read in time", 32 * ms, false, 21 * ms, 30 * ms, 3, 9, 8 * ms},
		{"asked as the stop began, read in time", 32 * ms, false, 12*ms + 200_000, 31 * ms, 4, 13, 8 * ms},
		{"delayed by less than it took longer", 34 * ms, false, 56 * ms, 60 * ms, 1, 14, 8 * ms},
		{"asked and read in a stop", 34 * ms, false, 59 * ms, 60 * ms, 1, 14, 8 * ms},
		{"outside of the window", 34 * ms, false, 2000 * ms, 2100 * ms, 1, 14, 8 * ms},
	} {
		h.due.Store(step.due)
		if step.rings {
			h.beat(step.now)
		} else {
			s.record(&batch{runs: []answers{{intended: step.written, written: step.written, count: step.count}}, count: step.count}, step.now)
		}
		if n, most := s.delayed.TotalCount(), s.delayed.Max(); n != step.late || most/ms != step.delay/ms {
			t.Fatalf("%s: %d answers are late, by up to %v; want %d, %v", step.what, n, time.Duration(most), step.late, time.Duration(step.delay))
		}
	}
	m := &Measured{tally: *s.now}
	m.delays(r.heartbeats, r.counters)
	if m.Delay.TotalCount() != m.Latency.TotalCount() || m.Delay.ValueAtQuantile(40) != 1 || m.Stop < 8*time.Millisecond {
		t.Errorf("%d delays of %d answers, the median %d, a stop of %v", m.Delay.TotalCount(), m.Latency.TotalCount(), m.Delay.ValueAtQuantile(50), m.Stop)
	}
}

// Warnings say what valid figures hide, and accuse nobody without evidence.
func TestWarnings(t *testing.T) {
	stalled := func(m *Measured) {
		closed(m, spiked(1, 1))
		m.Latency = spiked(2_000_000_000, 1)
	}
	for _, c := range []struct {
		name  string
		spoil func(*Measured)
		says  string // the only warning; empty: none
	}{
		{"sound", func(*Measured) {}, ""},
		{"retries", func(m *Measured) { m.Retries = 10 }, ""},
		{"more retries", func(m *Measured) { m.Retries = 11 }, "11 of 1000 requests (1.1 %) were retried"},
		{"p99.9", func(m *Measured) { closed(m, spiked(3_000_000, 2)) }, "p99.9 is not the server's: the generator itself delayed 0.1 % of the requests by 3"},
		{"p99.9 with a rate", func(m *Measured) { m.Lag = spiked(3_000_000, 2) }, "p99.9 is not the server's: the generator itself delayed 0.1 % of the requests by 3"},
		{"p99.9 by one", func(m *Measured) { closed(m, spiked(3_000_000, 1)) }, ""},
		{"the server", stalled, "the server, or the way to it, stalled"},
		{"the generator a little", func(m *Measured) { stalled(m); m.Stop = 90 * time.Millisecond }, "the server, or the way to it, stalled"},
		{"not known", func(m *Measured) { stalled(m); m.Delay = histogram{} }, "the server, or the generator, stalled"},
		{"the generator", func(m *Measured) { stalled(m); m.Stop, m.plan.MaxLag = 600*time.Millisecond, time.Second }, "the generator itself once did not run for 600 ms: the server may not be to blame"},
	} {
		m := sound()
		c.spoil(m)
		r := m.result()
		if all := strings.Join(r.Warnings, "\n"); !r.Valid || !strings.Contains(all, c.says) || c.says == "" && all != "" || len(r.Warnings) > 1 {
			t.Errorf("%s: valid %v, %q, warnings %q, want %q", c.name, r.Valid, r.InvalidReasons, r.Warnings, c.says)
		}
	}
}

// With Plan.AllowLate the percentiles that are the generator's are missing, and the result is valid. A stop of
// the generator still is not.
func TestPercentilesOfTheGeneratorAreWithheld(t *testing.T) {
	for _, c := range []struct {
		late int64 // answers of 1,000 that were read 3 ms late
		has  [4]bool
	}{
		{5, [4]bool{true, true, true, true}},
		{20, [4]bool{true, true, false, false}},
		{200, [4]bool{true, false, false, false}},
		{600, [4]bool{}},
	} {
		m := sound()
		delay := newHistogram()
		delay.record(3_000_000, c.late)
		delay.record(1, 1000-c.late)
		closed(m, delay)
		m.plan.AllowLate = true
		r := m.result()
		if got := [4]bool{r.Latency.P50 != nil, r.Latency.P90 != nil, r.Latency.P99 != nil, r.Latency.P999 != nil}; got != c.has || !r.Valid || r.Rate == nil {
			t.Errorf("%d late: valid %v (%v), has p50, p90, p99, p99.9: %v, want %v", c.late, r.Valid, r.InvalidReasons, got, c.has)
		}
		if m.Stop = 150 * time.Millisecond; m.result().Valid {
			t.Errorf("%d late: valid after a stop of %v", c.late, m.Stop)
		}
	}
}

// While a run goes on, it is known that the generator's delays will make it invalid: for one stop, or
// for more than a hundredth of the requests, where the limit does not grow with p99.
func TestDoubtsOfARunSoFar(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what   string
		paced  bool
		takes  time.Duration // each of 1,000 answers
		by     time.Duration // how late the generator was with late of them
		late   int64
		change func(*Plan)
		want   string
	}{
		{"in time", true, ms, 900 * time.Microsecond, 1000, nil, ""},
		{"a stop", false, 500 * ms, 100 * ms, 0, nil, "did not run for 100 ms"},
		{"stops that are too much of the whole", false, ms, 0, 0, func(p *Plan) { p.For = time.Second }, "did not run in 2.1 % of the time"},
		{"a stop that is allowed", true, ms, 100 * ms, 0, func(p *Plan) { p.MaxLag = 101 * ms }, ""},
		{"one in a hundred", true, ms, 2 * ms, 10, nil, ""},
		{"more at a rate", true, 500 * ms, 2 * ms, 11, nil, "more than 1.00 ms late with 1.1 % of the requests"},
		{"more without", false, 3 * ms, 2 * ms, 11, nil, "more than 1.00 ms late with 1.1 % of the requests"},
		{"more, but little for such times", false, 9 * ms, 2 * ms, 11, nil, ""},
		{"more, which is allowed", false, 3 * ms, 2 * ms, 11, func(p *Plan) { p.AllowLate = true }, ""},
	} {
		r := &run{plan: Plan{Conns: 1, MaxLag: DefaultMaxLag, For: time.Minute}, paced: c.paced}
		r.total, r.recent = newTally(c.paced), newTally(c.paced)
		if c.change != nil {
			c.change(&r.plan)
		}
		r.total.Latency.record(int64(c.takes), 1000)
		h := &heartbeat{}
		h.stopped.Store(21 * int64(ms))
		r.heartbeats = append(r.heartbeats, h)
		r.lagged(int64(c.by), c.late)
		r.lagged(int64(c.by/2), 0)
		r.longestLag = time.Duration(r.lag.Load())
		if got := r.doubt(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// Of a delay, what threads were at work or waited for a processor is no stop; the rest is.
func TestStopsAreAddedUp(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &run{start: time.Now()}
	var l lost
	l.threads.Find()
	defer l.threads.Close()
	if !l.threads.Known() {
		t.Skip("this system does not tell what threads do")
	}
	timer := must[*sys.Timer](t)(sys.NewTimer())
	defer timer.Close()
	const span = 20 * time.Millisecond
	delay := func(pass func()) time.Duration {
		before := l.stopped.Load()
		l.threads.Since(true)
		due := r.now()
		pass()
		l.beat(due, r.now())
		return time.Duration(l.stopped.Load() - before)
	}
	var err error
	for _, c := range []struct {
		what        string
		pass        func()
		least, most time.Duration
	}{
		{"at work", func() {
			for begun := time.Now(); time.Since(begun) < span; {
			}
		}, 0, span / 4},
		{"behind a goroutine at work", func() {
			done := make(chan bool)
			go func() {
				for begun := time.Now(); time.Since(begun) < span; {
				}
				close(done)
			}()
			<-done
		}, 0, span / 4},
		{"asleep", func() { err = timer.WaitFor(span) }, span / 2, time.Minute},
	} {
		var said []time.Duration
		for len(said) < 10 { // other programs may keep a thread from working, or from waking
			got := delay(c.pass)
			if said = append(said, got); c.least <= got && got <= c.most {
				break
			}
		}
		if got := said[len(said)-1]; got < c.least || got > c.most || err != nil {
			t.Errorf("%s for %v each time, it is said to have stopped for %v (%v)", c.what, span, said, err)
		}
	}
	if got := delay(func() {}); got != 0 {
		t.Errorf("without a delay it is said to have stopped for %v", got)
	}
}
