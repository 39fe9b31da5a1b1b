package engine

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/internal/sys"
)

// testRules returns rules with round numbers: a period of 250 ticks, so that a limit of n
// applies at n+250.
func testRules() rules {
	return rulesOf(Limits{
		AuthTime: 20 * time.Second,
		IdleTime: time.Minute, FrameTime: 5 * time.Second, StallTime: 10 * time.Second, LingerTime: 2 * time.Second,
		FrameRate: 1000,
	}.OrDefaults())
}

// judged is one row of the judge's table. Timestamps are ages at the start: 1 is a moment
// ago, 0 is not running.
type judged struct {
	name    string
	m       moments
	verdict verdict
	why     Reason
	after   uint64 // ticks until the verdict; never: none
}

func judgeTable() []judged {
	return []judged{
		{"idle", moments{seen: 1}, refuse, IdleTimeout, 60_249},
		{"idle for a while", moments{seen: 60_000}, refuse, IdleTimeout, 250},
		{"owed is not idle", moments{seen: 59_000, owed: true}, live, 0, never},
		{"stalled is not idle", moments{seen: 59_000, stall: 1}, abort, WriteStall, 10_249},
		{"frame of unknown size", moments{seen: 1, frame: 1}, refuse, FrameTimeout, 5_249},
		{"frame with allowance for its size", moments{seen: 1, frame: 1, size: 10_000}, refuse, FrameTimeout, 15_249},
		{"bytes do not extend a frame", moments{seen: 1, frame: 5_000}, refuse, FrameTimeout, 250},
		{"frame longer than idle", moments{seen: 1, frame: 1, size: 100_000}, refuse, IdleTimeout, 60_249},
		{"frame while owed", moments{seen: 1, frame: 1, owed: true}, refuse, FrameTimeout, 5_249},
		{"frame while stalled", moments{seen: 1, frame: 1, stall: 1}, refuse, FrameTimeout, 5_249},
		{"stall before frame", moments{seen: 1, frame: 1, size: 10_000, stall: 1}, abort, WriteStall, 10_249},
		{"stall while owed", moments{seen: 1, stall: 1, owed: true}, abort, WriteStall, 10_249},
		{"finishing, owed", moments{phase: life.Finishing, since: 1, seen: 50_000, owed: true}, abort, IdleTimeout, 60_249},
		{"finishing, not owed", moments{phase: life.Finishing, since: 1, seen: 50_000}, live, 0, never},
		{"finishing, stalled", moments{phase: life.Finishing, since: 1, stall: 1, owed: true}, abort, WriteStall, 10_249},
		{"finishing has no frame", moments{phase: life.Finishing, since: 1, frame: 1}, live, 0, never},
		{"closing", moments{phase: life.Closing, since: 1, seen: 50_000}, abort, WriteStall, 10_249},
		{"closing has no frame", moments{phase: life.Closing, since: 1, frame: 5_000}, abort, WriteStall, 10_249},
		{"lingering", moments{phase: life.Lingering, since: 1, seen: 50_000, frame: 1}, abort, 0, 2_249},
		{"stalled for a period", moments{seen: 1, stall: 1}, measure, 0, 249},
		{"closing while the peer reads", moments{phase: life.Closing, since: 50_000, stall: 1}, abort, WriteStall, 10_249},
		{"untrusted", moments{seen: 1, since: 1}, refuse, AuthTimeout, 20_249},
		{"untrusted and busy", moments{seen: 1, since: 20_000, owed: true}, refuse, AuthTimeout, 250},
		{"untrusted and leaving", moments{phase: life.Finishing, since: 1}, live, 0, never},
		{"trusted", moments{seen: 1, since: 20_000, trusted: true}, refuse, IdleTimeout, 60_249},
		{"tired", moments{seen: 1, restAfter: 8}, rest, 0, 2_249},
		{"tired on a loop", moments{seen: 1, restAfter: 2}, rest, 0, 749},
		{"tired and owed", moments{seen: 1, owed: true, restAfter: 8}, rest, 0, 2_249},
		{"silent, and may be asked", moments{seen: 1, asks: true, judged: 1}, ask, 0, 30_249},
		{"silent and asked", moments{seen: 31_000, asks: true, judged: 500}, refuse, IdleTimeout, 29_250},
		{"silent with a reply owed", moments{seen: 1, asks: true, judged: 1, owed: true}, live, 0, never},
		{"taken over", moments{phase: life.TakenOver, since: 1, seen: 50_000, frame: 1, owed: true}, live, 0, never},
	}
}

// from converts ages into ticks as seen at now.
func (m moments) from(now tick) moments {
	for _, t := range []*tick{&m.seen, &m.frame, &m.stall, &m.since, &m.judged} {
		if *t != 0 {
			*t = now - *t
		}
	}
	return m
}

// beginnings returns start times: plain ones and ones around the wrap.
func beginnings() []tick {
	all := []tick{200_000, math.MaxInt32, math.MaxInt32 + 50_000, math.MaxUint32}
	for _, before := range []tick{1, 100, 2_249, 5_250, 10_249, 60_000} {
		all = append(all, math.MaxUint32-before)
	}
	return all
}

func TestJudge(t *testing.T) {
	r := testRules()
	for _, x := range judgeTable() {
		for _, now := range beginnings() {
			m := x.m.from(now)
			v, why, next := r.judge(m, now)
			first, waiting := x.after, live
			if m.stall != 0 { // it is checked every period
				first, waiting = 249, measure
			}
			if v != live || why != 0 || next != first {
				t.Errorf("%s, at %d: %v %v, next in %d; want to live and be looked at in %d", x.name, now, v, why, next, first)
				continue
			}
			if next = x.after; next == 249 {
				waiting = live
			}
			if next == never {
				if v, why, _ := r.judge(m, now+math.MaxInt32/2); v != live {
					t.Errorf("%s, at %d: %v %v after 12 days, want never", x.name, now, v, why)
				}
				continue
			}
			if v, why, left := r.judge(m, now+tick(next)-1); v != waiting || left != 1 {
				t.Errorf("%s, at %d: %v %v a tick before it is due (next in %d)", x.name, now, v, why, left)
			}
			if v, why, _ := r.judge(m, now+tick(next)); v != x.verdict || why != x.why {
				t.Errorf("%s, at %d: %v %v when due, want %v %v", x.name, now, v, why, x.verdict, x.why)
			}
		}
	}
}

// A connection may store a timestamp that the sweep, which read the clock before, has not
// reached: that must not count as an age of 49 days.
func TestJudgeStampsAheadOfTheSweep(t *testing.T) {
	r := testRules()
	for _, now := range beginnings() {
		for _, ahead := range []tick{1, 250, 10_000} {
			for _, m := range []moments{
				{seen: now + ahead},
				{seen: now + ahead, frame: now + ahead},
				{seen: now + ahead, stall: now + ahead},
				{phase: life.Finishing, since: now + ahead, owed: true},
				{phase: life.Closing, since: now + ahead},
				{phase: life.Lingering, since: now + ahead},
			} {
				v, why, next := r.judge(m, now)
				if v != live || next == 0 || next == never {
					t.Errorf("%+v at %d: %v %v, next in %d; want to live and be looked at again", m, now, v, why, next)
				}
			}
		}
	}
}

func TestJudgeSwitchedOff(t *testing.T) {
	off := rulesOf(Limits{FrameTime: -1, IdleTime: -1, StallTime: -1, LingerTime: -1, FrameRate: -1}.OrDefaults())
	for _, x := range judgeTable() {
		if x.verdict == rest {
			continue // not a limit
		}
		for _, now := range beginnings() {
			v, why, next := off.judge(x.m.from(now), now+math.MaxInt32/2)
			if v != live || next != never {
				t.Errorf("%s, at %d, every limit off: %v %v, next in %d; want never", x.name, now, v, why, next)
			}
		}
	}
	one := rulesOf(Limits{IdleTime: -1}.OrDefaults())
	if v, why, next := one.judge(moments{seen: 1, frame: 1}, 2); v != live || next == never {
		t.Errorf("idle off, frame running: %v %v, next in %d; want the frame's moment", v, why, next)
	}
	defaults := rulesOf(Limits{IdleTime: time.Second}.OrDefaults())
	if v, why, _ := defaults.judge(moments{seen: 1, frame: 1, within: 10_000}, 9_000); v != live {
		t.Errorf("an expected message, silent for longer than idle: %v %v; want live", v, why)
	}
}

func TestRulesPeriod(t *testing.T) {
	for _, x := range []struct {
		l    Limits
		want tick
	}{
		{Limits{}, 250},
		{Limits{LingerTime: time.Minute}, 625},
		{Limits{FrameTime: -1, IdleTime: -1, StallTime: -1, LingerTime: -1}, 1000},
		{Limits{IdleTime: time.Nanosecond}, 4},
		{Limits{StallTime: 80 * time.Millisecond}, 10},
	} {
		if got := rulesOf(x.l.OrDefaults()).period; got != x.want {
			t.Errorf("period for %+v is %d ms, want %d", x.l, got, x.want)
		}
	}
}

// TestLimitsStrikeInTime sweeps random connections once a period, with timestamps from a
// clock that lags.
func TestLimitsStrikeInTime(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		ms := func(most int64) time.Duration { return time.Duration(1+rng.Int64N(most)) * time.Millisecond }
		r := rulesOf(Limits{IdleTime: ms(200_000), FrameTime: ms(20_000), StallTime: ms(20_000), LingerTime: ms(5_000), FrameRate: 1 + rng.IntN(4096)}.OrDefaults())
		kinds := []struct {
			m       moments
			verdict verdict
			why     Reason
			limit   uint64
		}{
			{moments{seen: 1}, refuse, IdleTimeout, r.idle},
			{moments{frame: 1, owed: true}, refuse, FrameTimeout, r.frame},
			{moments{frame: 1, owed: true, size: 5_000}, refuse, FrameTimeout, r.frame + 5_000*1000/r.rate},
			{moments{stall: 1}, abort, WriteStall, r.stall},
			{moments{phase: life.Finishing, since: 1, owed: true}, abort, IdleTimeout, r.idle},
			{moments{phase: life.Closing, since: 1}, abort, WriteStall, r.stall},
			{moments{phase: life.Lingering, since: 1}, abort, 0, r.linger},
		}
		kind := kinds[rng.IntN(len(kinds))]
		begun := uint64(rng.Uint32()) | 1<<33 // the true time; wraps are as likely as any value
		sweep := begun - uint64(rng.IntN(int(r.period)))
		m := kind.m
		for _, s := range []*tick{&m.seen, &m.frame, &m.stall, &m.since} {
			if *s != 0 {
				*s = max(1, tick(sweep)) // where the clock stood
			}
		}
		for {
			sweep += uint64(r.period)
			v, why, next := r.judge(m, tick(sweep))
			age := sweep - begun
			if (v == live || v == measure && m.stall != 0) && age <= kind.limit+2*uint64(r.period) && next != 0 && next != never {
				continue
			}
			if v != kind.verdict || why != kind.why || age < kind.limit || age > kind.limit+2*uint64(r.period) {
				t.Fatalf("seed %d: %v %v (next in %d) after %d ticks; want %v %v at %d to %d, for %+v and %+v",
					seed, v, why, next, age, kind.verdict, kind.why, kind.limit, kind.limit+2*uint64(r.period), m, r)
			}
			break
		}
	}
}

func TestClockReads(t *testing.T) {
	var k clock
	k.init()
	if k.now.Load() == 0 {
		t.Fatal("a clock at 0 cannot store timestamps: 0 means not running")
	}
	before := k.now.Load()
	k.start = k.start.Add(-time.Second)
	if got := k.read(); got-before < 1000 || got != k.now.Load() {
		t.Errorf("read %d (stored %d) a second after %d", got, k.now.Load(), before)
	}
	k.start = k.start.Add(time.Second)
	if got := k.read(); got-before < 1000 {
		t.Errorf("went back to %d, %d after it began", got, got-before)
	}
}

// A server without connections does not sweep, so nothing reads its clock: after any idle
// time, the first connection must get the right time.
func TestClockAfterALongSilence(t *testing.T) {
	const day = 24 * time.Hour
	for _, silence := range []time.Duration{time.Hour, 20 * day, 25 * day, 30 * day, 49 * day, 60 * day, 400 * day} {
		var k clock
		k.init()
		k.start = k.start.Add(-silence)
		got := k.read()
		want := tick(time.Since(k.start).Milliseconds())
		if lag := int32(want - got); lag < -1000 || lag > 1000 {
			t.Errorf("after %v of silence the clock shows %d, want about %d", silence, got, want)
			continue
		}
		k.start = k.start.Add(-10 * time.Second)
		if moved := k.read() - got; moved < 10_000 || moved > 12_000 {
			t.Errorf("after %v of silence, 10 s are %d ticks", silence, moved)
		}
	}
}

func TestClockWakesTheSweeperOnce(t *testing.T) {
	var k clock
	k.init()
	k.wakeUp()
	if len(k.kick) != 0 {
		t.Error("a running sweeper was woken")
	}
	k.parked.Store(true)
	for range 3 {
		k.wakeUp()
	}
	if k.parked.Load() || len(k.kick) != 1 {
		t.Errorf("parked %v and %d kicks after wakeUp, want awake and one", k.parked.Load(), len(k.kick))
	}
}

// bare returns a server without background goroutines, for tests with plain values.
func bare(l Limits) *Server {
	s := &Server{limits: l.OrDefaults(), perVisit: -1}
	s.rules = rulesOf(s.limits)
	s.ordered = s.limits.InFlight == 1
	s.clock.init()
	s.output.init(s.limits.TotalOutput, &s.buffers.spares, s.clock.sweepNow)
	s.input.init(s.limits.TotalInput, &s.buffers.Buffers, s.clock.sweepNow)
	s.requests.init(s.limits.TotalInFlight, s.clock.sweepNow)
	s.running = make(chan struct{})
	s.spoken.Store(&[]*spoken{newSpoken(nil)})
	s.inflights.New = func() any { return new(inflight) }
	return s
}

// bareShard returns a shard without a runner.
func (s *Server) bareShard() *shard {
	sh := &shard{srv: s, counts: &s.counts[0], rouse: func() {}}
	sh.chunks.Store(&[]chunk{})
	return sh
}

// bareConn returns a connection of a bare server without an owner.
func (s *Server) bareConn() *connRef {
	k, err := s.bareShard().take()
	if err != nil {
		panic(err)
	}
	k.begin(netip.AddrPort{}, sys.NoSocket, nil, false, false)
	k.s.opened, k.s.weight = true, smallWeight
	k.s.mu.Unlock()
	return &k
}

func TestStampWakesAParkedClock(t *testing.T) {
	s := bare(Limits{})
	c := s.bareConn()
	s.clock.start = s.clock.start.Add(-time.Minute)
	s.clock.parked.Store(true)
	c.touch()
	if age := s.clock.read() - c.s.seen.Load(); age > 10_000 {
		t.Errorf("stored a timestamp %d ms old: the clock was stale", age)
	}
	if s.clock.parked.Load() || len(s.clock.kick) != 1 {
		t.Error("the sweeper was not woken although there is something to sweep")
	}
}

// The sweeper reads a connection's timestamps while the connection changes them. A phase
// read with the time of another phase, or without one, would be judged by it.
func TestPhaseIsNeverSeenWithoutItsBeginning(t *testing.T) {
	s := bare(Limits{})
	s.clock.now.Store(1_000_000)
	for _, p := range []life.Phase{life.Finishing, life.Closing, life.Lingering} {
		for round := range 1_000 {
			c := s.bareConn()
			begun := make(chan struct{})
			go func() {
				<-begun
				c.enter(p)
			}()
			close(begun)
			m := c.locked()
			for m.phase == life.Serving {
				m = c.locked()
			}
			if v, why, _ := s.rules.judge(m, 1_000_000); v != live {
				t.Errorf("round %d: a connection that enters phase %d now gets the verdict %v %v: timestamp %d, now 1000000", round, p, v, why, m.since)
				break
			}
		}
	}
}

// locked returns moments for a test.
func (k *connRef) locked() moments {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.moments()
}

// A sentence may arrive late: the owner, which knows what happened meanwhile, decides.
func TestLateSentences(t *testing.T) {
	for _, x := range []struct {
		name        string
		why         Reason
		frame, seen tick // ages in ms; 0: not running
		on          bool
	}{
		{"idle, and it is", IdleTimeout, 0, 200_000, false},
		{"idle, but a handler has just returned", IdleTimeout, 0, 1, true},
		{"frame, and it trickles still", FrameTimeout, 6_000, 1, false},
		{"frame, but it is complete", FrameTimeout, 0, 1, true},
		{"frame, but the next one has just begun", FrameTimeout, 1, 1, true},
	} {
		s := bare(Limits{})
		s.clock.now.Store(1_000_000)
		c := s.bareConn()
		c.s.seen.Store(1_000_000 - x.seen)
		c.s.mu.Lock()
		if x.frame != 0 {
			c.attach().frame.Store(1_000_000 - x.frame)
		}
		c.s.suspect = x.why
		if st := life.Next(c.facts(nil)); st != life.StepReconsider {
			t.Errorf("%s: the next step is %d", x.name, st)
		}
		c.carryOut(life.StepReconsider, nil)
		c.s.mu.Lock()
		if on := life.Next(c.facts(nil)) == life.WaitForBytes; on != x.on {
			t.Errorf("%s: continues to read: %v, want %v (ended for %v)", x.name, on, x.on, c.reason())
		}
		c.s.mu.Unlock()
	}
}

func TestClockAllocates0(t *testing.T) {
	s := bare(Limits{})
	c := s.bareConn()
	m := moments{seen: 1, frame: 1, size: 100, stall: 1}
	for name, f := range map[string]func(){
		"judge":   func() { s.rules.judge(m, 2) },
		"moments": func() { m = c.locked() },
		"stamp":   c.touch,
		"enter":   func() { c.enter(life.Closing) },
		"read":    func() { s.clock.read() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	r := testRules()
	m := moments{seen: 1, frame: 1, size: 100}
	for b.Loop() {
		r.judge(m, 2)
	}
}

func BenchmarkStamp(b *testing.B) {
	c := bare(Limits{}).bareConn()
	for b.Loop() {
		c.touch()
	}
}
