package timing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/life"
)

// testRules returns rules with round numbers: a period of 250 ticks, so that a limit of n
// applies at n+250.
func testRules() Rules {
	return Limits{
		Auth: 20 * time.Second, Idle: time.Minute, Frame: 5 * time.Second, Stall: 10 * time.Second, Linger: 2 * time.Second,
		Rate: 1000,
	}.Rules()
}

// unlimited is no limit.
const unlimited = time.Duration(math.MaxInt64)

// usual returns the rules of the default limits with a change.
func usual(change func(*Limits)) Rules {
	l := Limits{Idle: 3 * time.Minute, Frame: 5 * time.Second, Stall: 10 * time.Second, Linger: 2 * time.Second, Auth: unlimited, Rate: 1 << 10}
	change(&l)
	return l.Rules()
}

// judged is one row of the judge's table. Timestamps are ages at the start: 1 is a moment
// ago, 0 is not running.
type judged struct {
	name    string
	m       Moments
	verdict Verdict
	why     Limit
	after   uint64 // ticks until the verdict; never: none
}

func judgeTable() []judged {
	return []judged{
		{"idle", Moments{Seen: 1}, Refuse, IdleTime, 60_249},
		{"idle for a while", Moments{Seen: 60_000}, Refuse, IdleTime, 250},
		{"owed is not idle", Moments{Seen: 59_000, Owed: true}, Live, 0, Never},
		{"stalled is not idle", Moments{Seen: 59_000, Stall: 1}, Abort, StallTime, 10_249},
		{"frame of unknown size", Moments{Seen: 1, Frame: 1}, Refuse, FrameTime, 5_249},
		{"frame with allowance for its size", Moments{Seen: 1, Frame: 1, Size: 10_000}, Refuse, FrameTime, 15_249},
		{"bytes do not extend a frame", Moments{Seen: 1, Frame: 5_000}, Refuse, FrameTime, 250},
		{"frame longer than idle", Moments{Seen: 1, Frame: 1, Size: 100_000}, Refuse, IdleTime, 60_249},
		{"frame while owed", Moments{Seen: 1, Frame: 1, Owed: true}, Refuse, FrameTime, 5_249},
		{"frame while stalled", Moments{Seen: 1, Frame: 1, Stall: 1}, Refuse, FrameTime, 5_249},
		{"stall before frame", Moments{Seen: 1, Frame: 1, Size: 10_000, Stall: 1}, Abort, StallTime, 10_249},
		{"stall while owed", Moments{Seen: 1, Stall: 1, Owed: true}, Abort, StallTime, 10_249},
		{"finishing, owed", Moments{Phase: life.Finishing, Since: 1, Seen: 50_000, Owed: true}, Abort, IdleTime, 60_249},
		{"finishing, not owed", Moments{Phase: life.Finishing, Since: 1, Seen: 50_000}, Live, 0, Never},
		{"finishing, stalled", Moments{Phase: life.Finishing, Since: 1, Stall: 1, Owed: true}, Abort, StallTime, 10_249},
		{"finishing has no frame", Moments{Phase: life.Finishing, Since: 1, Frame: 1}, Live, 0, Never},
		{"closing", Moments{Phase: life.Closing, Since: 1, Seen: 50_000}, Abort, StallTime, 10_249},
		{"closing has no frame", Moments{Phase: life.Closing, Since: 1, Frame: 5_000}, Abort, StallTime, 10_249},
		{"lingering", Moments{Phase: life.Lingering, Since: 1, Seen: 50_000, Frame: 1}, Abort, 0, 2_249},
		{"stalled for a period", Moments{Seen: 1, Stall: 1}, Measure, 0, 249},
		{"closing while the peer reads", Moments{Phase: life.Closing, Since: 50_000, Stall: 1}, Abort, StallTime, 10_249},
		{"untrusted", Moments{Seen: 1, Since: 1}, Refuse, AuthTime, 20_249},
		{"untrusted and busy", Moments{Seen: 1, Since: 20_000, Owed: true}, Refuse, AuthTime, 250},
		{"untrusted and leaving", Moments{Phase: life.Finishing, Since: 1}, Live, 0, Never},
		{"trusted", Moments{Seen: 1, Since: 20_000, Trusted: true}, Refuse, IdleTime, 60_249},
		{"tired", Moments{Seen: 1, RestAfter: 8}, Rest, 0, 2_249},
		{"tired and owed", Moments{Seen: 1, Owed: true, RestAfter: 8}, Rest, 0, 2_249},
		{"silent, and may be asked", Moments{Seen: 1, Asks: true, Judged: 1}, Ask, 0, 30_249},
		{"silent and asked", Moments{Seen: 31_000, Asks: true, Judged: 500}, Refuse, IdleTime, 29_250},
		{"silent with a reply owed", Moments{Seen: 1, Asks: true, Judged: 1, Owed: true}, Live, 0, Never},
		{"taken over", Moments{Phase: life.TakenOver, Since: 1, Seen: 50_000, Frame: 1, Owed: true}, Live, 0, Never},
	}
}

// from converts ages into ticks as seen at now.
func (m Moments) from(now Tick) Moments {
	for _, t := range []*Tick{&m.Seen, &m.Frame, &m.Stall, &m.Since, &m.Judged} {
		if *t != 0 {
			*t = now - *t
		}
	}
	return m
}

// beginnings returns start times: plain ones and ones around the wrap.
func beginnings() []Tick {
	all := []Tick{200_000, math.MaxInt32, math.MaxInt32 + 50_000, math.MaxUint32}
	for _, before := range []Tick{1, 100, 2_249, 5_250, 10_249, 60_000} {
		all = append(all, math.MaxUint32-before)
	}
	return all
}

func TestJudge(t *testing.T) {
	r := testRules()
	for _, x := range judgeTable() {
		for _, now := range beginnings() {
			m := x.m.from(now)
			v, why, next := r.Judge(m, now)
			first, waiting := x.after, Live
			if m.Stall != 0 { // it is checked every period
				first, waiting = 249, Measure
			}
			if v != Live || why != 0 || next != first {
				t.Errorf("%s, at %d: %v %v, next in %d; want to live and be looked at in %d", x.name, now, v, why, next, first)
				continue
			}
			if next = x.after; next == 249 {
				waiting = Live
			}
			if next == Never {
				if v, why, _ := r.Judge(m, now+math.MaxInt32/2); v != Live {
					t.Errorf("%s, at %d: %v %v after 12 days, want never", x.name, now, v, why)
				}
				continue
			}
			if v, why, left := r.Judge(m, now+Tick(next)-1); v != waiting || left != 1 {
				t.Errorf("%s, at %d: %v %v a tick before it is due (next in %d)", x.name, now, v, why, left)
			}
			if v, why, _ := r.Judge(m, now+Tick(next)); v != x.verdict || why != x.why {
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
		for _, ahead := range []Tick{1, 250, 10_000} {
			for _, m := range []Moments{
				{Seen: now + ahead},
				{Seen: now + ahead, Frame: now + ahead},
				{Seen: now + ahead, Stall: now + ahead},
				{Phase: life.Finishing, Since: now + ahead, Owed: true},
				{Phase: life.Closing, Since: now + ahead},
				{Phase: life.Lingering, Since: now + ahead},
				{Phase: life.Lingering, Since: now + ahead, Draining: true},
			} {
				v, why, next := r.Judge(m, now)
				if v != Live || next == 0 || next == Never {
					t.Errorf("%+v at %d: %v %v, next in %d; want to live and be looked at again", m, now, v, why, next)
				}
			}
		}
	}
}

func TestJudgeSwitchedOff(t *testing.T) {
	off := Limits{unlimited, unlimited, unlimited, unlimited, unlimited, math.MaxInt32}.Rules()
	for _, x := range judgeTable() {
		if x.verdict == Rest {
			continue // not a limit
		}
		for _, now := range beginnings() {
			v, why, next := off.Judge(x.m.from(now), now+math.MaxInt32/2)
			if v != Live || next != Never {
				t.Errorf("%s, at %d, every limit off: %v %v, next in %d; want never", x.name, now, v, why, next)
			}
		}
	}
	one := usual(func(l *Limits) { l.Idle = unlimited })
	if v, why, next := one.Judge(Moments{Seen: 1, Frame: 1}, 2); v != Live || next == Never {
		t.Errorf("idle off, frame running: %v %v, next in %d; want the frame's moment", v, why, next)
	}
	defaults := usual(func(l *Limits) { l.Idle = time.Second })
	if v, why, _ := defaults.Judge(Moments{Seen: 1, Frame: 1, Within: 10_000}, 9_000); v != Live {
		t.Errorf("an expected message, silent for longer than idle: %v %v; want live", v, why)
	}
}

func TestRulesPeriod(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*Limits)
		want   Tick
	}{
		{"the usual limits", func(*Limits) {}, 250},
		{"a long linger time", func(l *Limits) { l.Linger = time.Minute }, 625},
		{"no limits", func(l *Limits) { l.Frame, l.Idle, l.Stall, l.Linger = unlimited, unlimited, unlimited, unlimited }, 1000},
		{"a tiny idle time", func(l *Limits) { l.Idle = time.Nanosecond }, 4},
		{"a short stall time", func(l *Limits) { l.Stall = 80 * time.Millisecond }, 10},
	} {
		if got := usual(x.change).Period; got != x.want {
			t.Errorf("%s: the period is %d ms, want %d", x.name, got, x.want)
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
		r := Limits{Idle: ms(200_000), Frame: ms(20_000), Stall: ms(20_000), Linger: ms(5_000), Auth: unlimited, Rate: 1 + rng.IntN(4096)}.Rules()
		kinds := []struct {
			m       Moments
			verdict Verdict
			why     Limit
			limit   uint64
		}{
			{Moments{Seen: 1}, Refuse, IdleTime, r.Idle},
			{Moments{Frame: 1, Owed: true}, Refuse, FrameTime, r.Frame},
			{Moments{Frame: 1, Owed: true, Size: 5_000}, Refuse, FrameTime, r.Frame + 5_000*1000/r.Rate},
			{Moments{Stall: 1}, Abort, StallTime, r.Stall},
			{Moments{Phase: life.Finishing, Since: 1, Owed: true}, Abort, IdleTime, r.Idle},
			{Moments{Phase: life.Closing, Since: 1}, Abort, StallTime, r.Stall},
			{Moments{Phase: life.Lingering, Since: 1}, Abort, 0, r.Linger},
		}
		kind := kinds[rng.IntN(len(kinds))]
		begun := uint64(rng.Uint32()) | 1<<33 // the true time; wraps are as likely as any value
		sweep := begun - uint64(rng.IntN(int(r.Period)))
		m := kind.m
		for _, s := range []*Tick{&m.Seen, &m.Frame, &m.Stall, &m.Since} {
			if *s != 0 {
				*s = max(1, Tick(sweep)) // where the clock stood
			}
		}
		for {
			sweep += uint64(r.Period)
			v, why, next := r.Judge(m, Tick(sweep))
			age := sweep - begun
			if (v == Live || v == Measure && m.Stall != 0) && age <= kind.limit+2*uint64(r.Period) && next != 0 && next != Never {
				continue
			}
			if v != kind.verdict || why != kind.why || age < kind.limit || age > kind.limit+2*uint64(r.Period) {
				t.Fatalf("seed %d: %v %v (next in %d) after %d ticks; want %v %v at %d to %d, for %+v and %+v",
					seed, v, why, next, age, kind.verdict, kind.why, kind.limit, kind.limit+2*uint64(r.Period), m, r)
			}
			break
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	r := testRules()
	m := Moments{Seen: 1, Frame: 1, Size: 100}
	for b.Loop() {
		r.Judge(m, 2)
	}
}
