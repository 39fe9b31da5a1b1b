package knee

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// server is a simulated server: the result of a load for that many seconds, started at a
// virtual time.
type server func(at, load, seconds float64) Trial

// The trials' lengths in seconds, as in hone knee.
const (
	short  = 1
	full   = 3
	warmup = 0.1 // of the trial
	rest   = 1
)

// drive searches in virtual time, and returns how much of it passed.
func drive(t interface{ Fatalf(string, ...any) }, p Plan, s server) (Knee, []Trial, time.Duration) {
	var made []Trial
	now := 0.0
	for {
		step, more := p.Next(made)
		if !more {
			break
		}
		if len(made) > 150 {
			t.Fatalf("the search does not end: %v", made[len(made)-5:])
		}
		length := float64(short)
		if step.Full {
			length = full
		}
		if step.Rest {
			now += rest
		}
		length *= 1 + warmup
		trial := s(now, step.Load, length)
		now += length
		trial.Step = step
		made = append(made, trial)
	}
	return p.Find(made), made, time.Duration(now * 1e9)
}

// wantKnee checks a known knee, and how long the search took.
func wantKnee(t *testing.T, k Knee, state State, want, part float64, took time.Duration) {
	t.Helper()
	if k.State != state || math.Abs(k.Met/want-1) > part {
		t.Errorf("%v: met %g, missed %g, invalid %g; want %v, %g within %g %%", k.State, k.Met, k.Missed, k.Invalid, state, want, 100*part)
	}
	if took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// cliff answers capacity requests per second and queues the rest: the last request of a
// trial waits longest. The goal is a time in seconds for the 99th percentile.
func cliff(capacity, goal float64) server {
	return func(_, load, seconds float64) Trial {
		p99 := 0.0002
		if load > capacity {
			p99 += 0.99 * seconds * (1 - capacity/load)
		}
		return Trial{Met: p99 < goal}
	}
}

func TestCliff(t *testing.T) {
	for _, capacity := range []float64{123, 999.5, 8_000, 65_537, 1.23e6} {
		k, made, took := drive(t, Plan{From: 100}, cliff(capacity, 0.005))
		wantKnee(t, k, Found, capacity, 0.03, took)
		if k.Missed <= k.Met || k.Missed > k.Met*1.0201 || k.Again != 0 {
			t.Errorf("the range is %+v", k)
		}
		confirmed := 0
		for i, trial := range made {
			if trial.Full && trial.Load == k.Met {
				confirmed++
			}
			if wantRest := i > 0 && !made[i-1].Met; trial.Rest != wantRest {
				t.Errorf("trial %d rests %v, want %v", i, trial.Rest, wantRest)
			}
		}
		if confirmed != 3 {
			t.Errorf("%g was confirmed %d times", k.Met, confirmed)
		}
	}
}

// queue is c servers with exponential service times and Poisson arrivals in one queue.
// The 99th percentile is that of one trial.
func queue(random *rand.Rand, servers int, mean float64, goal float64) server {
	return func(_, load, seconds float64) Trial {
		free := make([]float64, servers)
		var times []float64
		for at := 0.0; at < seconds; at += random.ExpFloat64() / load {
			first := 0
			for i, f := range free {
				if f < free[first] {
					first = i
				}
			}
			free[first] = max(at, free[first]) + random.ExpFloat64()*mean
			if at > seconds*warmup/(1+warmup) {
				times = append(times, free[first]-at)
			}
		}
		slices.Sort(times)
		return Trial{Met: times[len(times)*99/100] < goal}
	}
}

// sojourn99 returns the load at which an M/M/1 queue meets a 99th percentile: the time in
// the system is exponential with the spare rate.
func sojourn99(mean, goal float64) float64 { return 1/mean - math.Log(100)/goal }

func TestQueueOfOneServer(t *testing.T) {
	const mean, goal = 0.0001, 0.005
	want := sojourn99(mean, goal)
	for seed := range uint64(4) {
		k, made, took := drive(t, Plan{From: 100}, queue(rand.New(rand.NewPCG(seed, 1)), 1, mean, goal))
		wantKnee(t, k, Found, want, 0.03, took)
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, made)
		}
	}
}

// slow returns the share of requests that an M/M/c system holds for longer than limit:
// Erlang's probability of waiting, and the sum of two exponential times.
func slow(servers int, mean, load, limit float64) float64 {
	a, c := load*mean, float64(servers)
	term, sum := 1.0, 0.0
	for k := range servers {
		sum += term
		term *= a / float64(k+1)
	}
	waits := term * c / (c - a) / (sum + term*c/(c-a))
	t, rest := limit/mean, c-1-a
	return math.Exp(-t) * (1 + waits*(1-math.Exp(-t*rest))/rest)
}

func TestQueueOfFour(t *testing.T) {
	const mean, goal = 0.0001, 0.002
	low, high := 1.0, 4/mean
	for range 60 {
		if mid := (low + high) / 2; slow(4, mean, mid, goal) < 0.01 {
			low = mid
		} else {
			high = mid
		}
	}
	for seed := range uint64(4) {
		k, made, took := drive(t, Plan{From: 100}, queue(rand.New(rand.NewPCG(seed, 2)), 4, mean, goal))
		wantKnee(t, k, Found, low, 0.03, took)
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, made)
		}
	}
}

// TestNoise has a capacity that varies between trials, and trials that miss for no
// reason. The confirmed load is never too high.
func TestNoise(t *testing.T) {
	const capacity = 10_000
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		k, made, took := drive(t, Plan{From: 100}, func(at, load, seconds float64) Trial {
			trial := cliff(capacity*(1+0.01*random.NormFloat64()), 0.005)(at, load, seconds)
			if random.IntN(25) == 0 {
				trial.Met = false
			}
			return trial
		})
		if k.State != Found || k.Met < 0.9*capacity || k.Met > 1.02*capacity || took > 3*time.Minute {
			t.Errorf("seed %d: %+v in %v: %v", seed, k, took, made)
		}
	}
}

// collapsing runs at half speed after an overload until it has rested for that many
// seconds.
func collapsing(capacity, recovers float64) server {
	ill, ended := false, 0.0
	return func(at, load, seconds float64) Trial {
		if at-ended >= recovers {
			ill = false
		}
		now := capacity
		if ill {
			now /= 2
		}
		trial := cliff(now, 0.005)(at, load, seconds)
		if !trial.Met {
			ill = true
		}
		ended = at + seconds
		return trial
	}
}

func TestCollapse(t *testing.T) {
	k, _, took := drive(t, Plan{From: 100}, collapsing(8_000, 0.9))
	wantKnee(t, k, Found, 8_000, 0.03, took)

	// If it recovers more slowly than the rest, the search finds the reduced knee, and
	// remembers the earlier results.
	k, _, took = drive(t, Plan{From: 100}, collapsing(8_000, 2))
	wantKnee(t, k, Found, 4_000, 0.03, took)
	if k.Again < k.Missed {
		t.Errorf("nothing says that it met more before: %+v", k)
	}
}

func TestGoalThatIsNeverMet(t *testing.T) {
	k, made, _ := drive(t, Plan{From: 100}, func(_, _, _ float64) Trial { return Trial{Met: false} })
	if k != (Knee{State: Below, Missed: 100}) || len(made) != 2 || !made[1].Full {
		t.Errorf("%+v after %v", k, made)
	}
}

func TestGoalThatIsAlwaysMet(t *testing.T) {
	k, made, _ := drive(t, Plan{From: 100, To: 5_000}, cliff(math.Inf(1), 1))
	if k != (Knee{State: Above, Met: 5_000}) {
		t.Errorf("%+v", k)
	}
	for _, trial := range made {
		if trial.Load > 5_000 {
			t.Errorf("it tried %g", trial.Load)
		}
	}
	if k, made, _ := drive(t, Plan{From: 100}, cliff(math.Inf(1), 1)); k.State != Unfinished || len(made) != 100 || math.IsInf(made[99].Load, 0) {
		t.Errorf("without an end: %+v after %d trials", k, len(made))
	}
}

// limited is a generator with a maximum rate.
func limited(most float64, s server) server {
	return func(at, load, seconds float64) Trial {
		if load > most {
			return Trial{Invalid: true}
		}
		return s(at, load, seconds)
	}
}

func TestGeneratorAtItsEnd(t *testing.T) {
	// The generator's limit is below the target's: the knee stays unknown.
	k, _, took := drive(t, Plan{From: 100}, limited(3_000, cliff(8_000, 0.005)))
	wantKnee(t, k, Hidden, 3_000, 0.03, took)
	if k.Missed != 0 || k.Invalid <= 3_000 {
		t.Errorf("%+v", k)
	}
	// Slightly above it: the knee is found all the same.
	k, _, took = drive(t, Plan{From: 100}, limited(8_500, cliff(8_000, 0.005)))
	wantKnee(t, k, Found, 8_000, 0.03, took)
	// Below the first load: nothing is known.
	k, made, _ := drive(t, Plan{From: 100}, limited(10, cliff(8_000, 0.005)))
	if k != (Knee{State: Hidden, Invalid: 100}) || len(made) != mostInvalid || !made[1].Rest || !made[2].Rest {
		t.Errorf("%+v after %v", k, made)
	}
}

// TestGeneratorThatTires has full trials that are invalid above a load that short ones
// still offer.
func TestGeneratorThatTires(t *testing.T) {
	k, made, _ := drive(t, Plan{From: 100}, func(at, load, seconds float64) Trial {
		if isFull := seconds > 2; load > 3_000 && isFull || load > 9_000 {
			return Trial{Invalid: true}
		}
		return cliff(20_000, 0.005)(at, load, seconds)
	})
	wantKnee(t, k, Hidden, 3_000, 0.03, 0)
	if len(made) > 60 {
		t.Errorf("it took %d trials: %v", len(made), made)
	}
}

// TestBadLuck has single trials that are wrong: invalid, or missed.
func TestBadLuck(t *testing.T) {
	_, usual, _ := drive(t, Plan{From: 100}, cliff(8_000, 0.005))
	for number := range 25 {
		for _, unlucky := range []Trial{{Invalid: true}, {Met: false}, {Met: true}} {
			n := -1
			k, made, took := drive(t, Plan{From: 100}, func(at, load, seconds float64) Trial {
				if n++; n == number {
					return unlucky
				}
				return cliff(8_000, 0.005)(at, load, seconds)
			})
			if number < len(made) && made[number].Full && !unlucky.Invalid {
				continue // one full trial decides a miss, and three decide a hit
			}
			wantKnee(t, k, Found, 8_000, 0.03, took)
			if unlucky.Invalid && len(made) > len(usual)+1 {
				t.Errorf("it took %d trials, and %d without bad luck", len(made), len(usual))
			}
			if t.Failed() {
				t.Fatalf("trial %d came out as %+v: %v", number, unlucky, made)
			}
		}
	}
}

// A full trial lasts 3.3 s and delays requests by 1 s under the load that is found. Short ones
// never do: all of them are too optimistic.
func TestShortTrialsThatAllMeet(t *testing.T) {
	k, made, _ := drive(t, Plan{From: 100}, cliff(8_000, 1))
	wantKnee(t, k, Found, 8_000/(1-1/(0.99*3.3)), 0.03, 0)
	if len(made) > 40 {
		t.Errorf("it took %d trials: %v", len(made), made)
	}
}

// TestWholeLoads finds the exact number of connections.
func TestWholeLoads(t *testing.T) {
	for most := 1; most < 70; most++ {
		k, made, _ := drive(t, Plan{From: 1, Whole: true}, func(_, load, _ float64) Trial {
			return Trial{Met: load <= float64(most)}
		})
		if k.State != Found || k.Missed > k.Met*1.02 && k.Missed != k.Met+1 || int(k.Met) > most || int(k.Missed) <= most {
			t.Errorf("%d: %+v", most, k)
		}
		for _, trial := range made {
			if trial.Load != math.Trunc(trial.Load) {
				t.Errorf("%d: it tried %g", most, trial.Load)
			}
		}
	}
}

// A From or To that is not whole is rounded into the range.
func TestWholeLoadsBetweenOtherEnds(t *testing.T) {
	k, made, _ := drive(t, Plan{From: 1.5, To: 5.5, Whole: true}, func(_, _, _ float64) Trial { return Trial{Met: true} })
	if k != (Knee{State: Above, Met: 5}) || made[0].Load != 2 {
		t.Errorf("%+v after %v", k, made)
	}
}

// TestCutShort checks the partial result after every trial.
func TestCutShort(t *testing.T) {
	p := Plan{From: 100}
	_, made, _ := drive(t, p, cliff(8_000, 0.005))
	if k := p.Find(nil); k != (Knee{}) {
		t.Errorf("before anything: %+v", k)
	}
	for n := range made {
		if k := p.Find(made[:n]); k.State != Unfinished || k.Met > 1.01*8_000 || k.Missed != 0 && k.Missed < 8_000 {
			t.Errorf("after %d of %d: %+v", n, len(made), k)
		}
	}
}

// TestAnyThreshold checks that the range contains any threshold, and is narrow.
func TestAnyThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{
			From: rapid.Float64Range(0.001, 1e4).Draw(t, "from"), Width: rapid.Float64Range(0.001, 0.5).Draw(t, "width"),
			Whole: rapid.Bool().Draw(t, "whole"), Confirm: rapid.IntRange(1, 5).Draw(t, "confirm"),
		}
		if p.Whole {
			p.From = math.Ceil(p.From)
		}
		threshold := p.From * rapid.Float64Range(1, 1e6).Draw(t, "threshold")
		if rapid.Bool().Draw(t, "bounded") {
			p.To = p.From * rapid.Float64Range(1, 1e6).Draw(t, "to")
		}
		k, made, _ := drive(t, p, func(_, load, _ float64) Trial {
			if p.To > 0 && load > p.To || load < p.From {
				t.Fatalf("it tried %g", load)
			}
			return Trial{Met: load <= threshold}
		})
		if k.State == Above && threshold >= p.complete().To {
			return
		}
		narrow := k.Missed <= k.Met*(1+p.Width) || p.Whole && k.Missed-k.Met <= 1
		if k.State != Found || k.Met > threshold || k.Missed <= threshold || !narrow || len(made) > 60 {
			t.Fatalf("%+v after %d trials: %v", k, len(made), made)
		}
	})
}

func TestPlansThatCannotBe(t *testing.T) {
	for _, p := range []Plan{{}, {From: -1}, {From: math.NaN()}, {From: 0.5, Whole: true}, {From: 2, To: 1}, {From: 2, To: math.NaN()}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken", p)
				}
			}()
			p.Next(nil)
		}()
	}
}

// Two loads that short trials met and full ones refuted are enough: the next trial is a full one,
// below them.
func TestShortTrialsAreNotTrustedForLong(t *testing.T) {
	p := Plan{From: 100, Width: 0.02, Confirm: 1}
	made := []Trial{}
	for _, step := range []struct {
		load      float64
		full, met bool
	}{{100, false, true}, {200, false, true}, {400, false, false}, {200, true, false}, {150, false, true}, {150, true, false}} {
		made = append(made, Trial{Step: Step{Load: step.load, Full: step.full}, Met: step.met})
	}
	if next, more := p.Next(made); !more || !next.Full || next.Load >= 150 {
		t.Errorf("the next trial is %+v, %v", next, more)
	}
	if next, more := p.Next(made[:4]); !more || next.Full {
		t.Errorf("after one that was refuted it is %+v, %v", next, more)
	}
}
