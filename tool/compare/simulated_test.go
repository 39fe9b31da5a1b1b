package compare

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// familiesOf returns how many comparisons to simulate of each kind. Of 2,000, in CI, at
// most 6.6 % may be wrong if the truth is 5 %; of 250 at most 9.6 % (see most), which
// detects gross errors in an eighth of the time but cannot judge mutants. All limits held
// with 10,000: at most 3.8 % were wrong where nothing differs, 4.6 % in three looks. To
// decide more finely, run it by hand:
//
//	HONE_TEST_FAMILIES=10000 go test ./tool/compare -run TestSimulated -v
func familiesOf(t *testing.T) int {
	text := os.Getenv("HONE_TEST_FAMILIES")
	switch {
	case text == "" && testrun.Race: // ten times as slow; enough to find races
		return 200
	case text == "" && !testrun.All():
		return 250
	case text == "":
		return 2000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		t.Fatalf("HONE_TEST_FAMILIES=%s: give a number of at least 100", text)
	}
	return n
}

// TestSimulated simulates comparisons whose truth is known, and checks Compare against
// what the documentation promises. Each mutant is a mistake that the test must detect: it
// has to exceed the same limits.
func TestSimulated(t *testing.T) {
	families := familiesOf(t)
	for seed, s := range simulations() {
		if s.mutant && families < 2000 {
			continue // too few to detect it reliably
		}
		t.Run(s.name, func(t *testing.T) {
			count := s.count(t, uint64(seed), families)
			part := float64(count) / float64(families)
			held := count <= most(families, s.limit)
			limit := "at most"
			if s.least {
				held, limit = families-count <= most(families, 1-s.limit), "at least"
			}
			t.Logf("%.2f %% of %d, limit %s %g %%", 100*part, families, limit, 100*s.limit)
			if held == s.mutant {
				t.Errorf("%d of %d families; the limit is %s %g %%", count, families, limit, 100*s.limit)
			}
		})
	}
}

// A simulation counts families in which something happens.
type simulation struct {
	name   string
	world  world
	judge  judge
	event  event
	limit  float64 // largest share of the families
	least  bool    // the limit is the smallest share
	mutant bool    // the limit must be broken
}

// A judge returns a verdict on each figure, at each of its looks.
type judge func(t *testing.T, figures []Figure) []Verdict

// An event inspects the true differences, as logarithms, and the verdicts.
type event func(truth []float64, verdicts []Verdict) bool

func simulations() []simulation {
	const wrong = 0.05
	var all []simulation
	twoPercent := slices.Repeat([]noise{normal(0.02)}, 6)
	for _, n := range []int{8, 16, 32} {
		for _, w := range []struct {
			name  string
			world world
		}{
			{"normal noise", world{noises: twoPercent}},
			{"six noises", world{noises: noises()}},
			{"normal noise, 10 % missing", world{noises: twoPercent, missing: 0.1, primary: true}},
			{"six noises, 10 % missing", world{noises: noises(), missing: 0.1, primary: true}},
		} {
			w.world.pairs = n
			all = append(all, simulation{name: fmt.Sprintf("nothing differs, %d pairs, %s", n, w.name), world: w.world, judge: proposed(-1), event: anyWrong, limit: wrong})
		}
	}
	for _, c := range []struct {
		pairs                int
		primary, other, same float64 // smallest shares
	}{{8, 0.90, 0.74, 0.05}, {12, 0.98, 0.95, 0.20}, {16, 0.99, 0.99, 0.50}, {24, 0.99, 0.99, 0.90}} {
		name := fmt.Sprintf(", %d pairs, 2 %% noise", c.pairs)
		five := func(moved int) world {
			truth := make([]float64, 6)
			truth[moved] = math.Log1p(0.05)
			return world{pairs: c.pairs, noises: twoPercent, truth: truth, primary: true}
		}
		nothing := world{pairs: c.pairs, noises: twoPercent, primary: true}
		all = append(all,
			simulation{name: "5 % in the primary figure is found" + name, world: five(0), judge: proposed(tolerance), event: found, limit: c.primary, least: true},
			simulation{name: "5 % in another figure is found" + name, world: five(5), judge: proposed(tolerance), event: found, limit: c.other, least: true},
			simulation{name: "the same is shown" + name, world: nothing, judge: proposed(tolerance), event: lastSame, limit: c.same, least: true})
	}
	atTolerance := world{pairs: 16, noises: twoPercent, truth: slices.Repeat([]float64{math.Log1p(tolerance)}, 6)}
	atTolerance24 := atTolerance
	atTolerance24.pairs = 24
	sevenfold := func(of noise) world {
		return world{pairs: 6, noises: slices.Repeat([]noise{of}, 6), truth: []float64{0, 0, 0, 0, 0, math.Log(7)}, primary: true}
	}
	rebuilt := world{pairs: 16, noises: twoPercent, rebuild: 0.01, sessions: 8}
	days := world{pairs: 12, noises: twoPercent, rebuild: 0.03, sessions: 8, apart: true}
	integers := world{pairs: 16, noises: slices.Repeat([]noise{normal(0.02)}, 6), truth: slices.Repeat([]float64{math.Log1p(0.05)}, 6), level: 5, unit: 1}
	return append(all, []simulation{
		{name: "same at the tolerance, 16 pairs", world: atTolerance, judge: proposed(tolerance), event: anySame, limit: wrong},
		{name: "same at the tolerance, 24 pairs", world: atTolerance24, judge: proposed(tolerance), event: anySame, limit: wrong},
		{name: "looks at 8, 16 and 32 pairs", world: world{pairs: 32, noises: twoPercent}, judge: looks(true), event: anyWrong, limit: wrong},
		{name: "a sevenfold gain, 6 pairs, 20 % noise", world: sevenfold(normal(0.2)), judge: proposed(tolerance), event: found, limit: 0.99, least: true},
		{name: "a sevenfold gain, 6 pairs, 20 % noise with far values", world: sevenfold(farValues(0.2)), judge: proposed(tolerance), event: found, limit: 0.99, least: true},
		{name: "rebuilds differ by 1 %, 8 sessions of 16 pairs", world: rebuilt, judge: proposed(-1), event: anyWrong, limit: wrong},
		{name: "days differ by 3 %, not in turn, 8 sessions of 12 pairs", world: days, judge: proposed(-1), event: anyWrong, limit: wrong},
		{name: "small integers that differ by less than 1", world: integers, judge: proposed(tolerance), event: anySame, limit: wrong},

		{name: "mutant: every figure on its own", world: world{pairs: 16, noises: twoPercent}, judge: unadjusted, event: anyWrong, limit: wrong, mutant: true},
		{name: "mutant: sign flips and Holm beside a full primary", world: world{pairs: 8, noises: twoPercent}, judge: signFlipsAndHolm, event: anyWrong, limit: wrong, mutant: true},
		{name: "mutant: looks without a price", world: world{pairs: 32, noises: twoPercent}, judge: looks(false), event: anyWrong, limit: wrong, mutant: true},
		{name: "mutant: no floor", world: rebuilt, judge: withoutFloor, event: anyWrong, limit: wrong, mutant: true},
		{name: "mutant: same by 90 % intervals", world: atTolerance, judge: ninetyPercent, event: anySame, limit: wrong, mutant: true},
		{name: "mutant: values without steps", world: integers, judge: withoutSteps, event: anySame, limit: wrong, mutant: true},
	}...)
}

const tolerance = 0.03

// count runs the families. They are identical in every run, whatever the number of
// goroutines.
func (s *simulation) count(t *testing.T, seed uint64, families int) int {
	var next, happened atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(families) || t.Failed() {
					return
				}
				figures, truth := s.world.draw(rand.New(rand.NewPCG(seed, uint64(i))))
				if s.event(truth, s.judge(t, figures)) {
					happened.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(happened.Load())
}

// A noise draws the logarithm of the noise of one run.
type noise func(*rand.Rand) float64

func normal(deviation float64) noise {
	return func(r *rand.Rand) float64 { return deviation * r.NormFloat64() }
}

// farValues has Student's distribution with 3 degrees of freedom.
func farValues(deviation float64) noise {
	return func(r *rand.Rand) float64 {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		return deviation * r.NormFloat64() / math.Sqrt(a*a+b*b+c*c)
	}
}

// noises have different shapes, and sizes of 2 to 20 %.
func noises() []noise {
	return []noise{
		normal(0.02),
		farValues(0.03),
		func(r *rand.Rand) float64 { return 0.05 / math.Sqrt2 * (r.ExpFloat64() - r.ExpFloat64()) },
		func(r *rand.Rand) float64 { return 0.08 * math.Sqrt(12) * (r.Float64() - 0.5) },
		func(r *rand.Rand) float64 { // stalls
			if r.IntN(10) == 0 {
				return 0.4 + 0.02*r.NormFloat64()
			}
			return 0.02 * r.NormFloat64()
		},
		func(r *rand.Rand) float64 { return 0.2 * r.ExpFloat64() },
	}
}

// A world generates figures.
type world struct {
	pairs    int
	noises   []noise   // of each figure
	truth    []float64 // logarithms of the true ratios; nil: no difference
	missing  float64   // share of the values
	primary  bool      // the first figure is
	rebuild  float64   // deviation between builds of the same source
	sessions int
	apart    bool    // runs do not alternate
	level    float64 // of the values; 0: 100
	unit     float64 // to which values are rounded; 0: not rounded
}

func (w *world) draw(r *rand.Rand) (figures []Figure, truth []float64) {
	truth = w.truth
	if truth == nil {
		truth = make([]float64, len(w.noises))
	}
	for i, noise := range w.noises {
		f := Figure{Name: strconv.Itoa(i), Unit: "x", Primary: w.primary && i == 0, Pairs: w.session(r, noise, truth[i])}
		for range w.sessions {
			f.Sessions = append(f.Sessions, Session{Pairs: w.session(r, noise, 0)})
		}
		if w.apart { // A's runs are from another day than B's
			other := w.session(r, noise, truth[i])
			for j, p := range f.Pairs {
				f.A, f.B = append(f.A, p.A), append(f.B, other[j].B)
			}
			f.Pairs = nil
		}
		figures = append(figures, f)
	}
	return figures, truth
}

// session draws pairs of two builds on one day.
func (w *world) session(r *rand.Rand, noise noise, truth float64) []Pair {
	level := w.level
	if level == 0 {
		level = 100
	}
	value := func(log float64) float64 {
		v := level * math.Exp(log+noise(r))
		if w.unit > 0 {
			v = w.unit * math.Round(v/w.unit)
		}
		if w.missing > 0 && r.Float64() < w.missing {
			v = math.NaN()
		}
		return v
	}
	day, build := 0.0, w.rebuild*r.NormFloat64()
	if w.apart {
		day = build
	}
	pairs := make([]Pair, w.pairs)
	for i := range pairs {
		weather := 0.0
		if w.unit == 0 {
			weather = 0.1 * r.NormFloat64()
		}
		pairs[i] = Pair{i + 1, value(day + weather), value(truth + build + weather)}
	}
	return pairs
}

// anyWrong is a wrong verdict on any figure.
func anyWrong(truth []float64, verdicts []Verdict) bool {
	for i, v := range verdicts {
		diff := truth[i%len(truth)]
		if v == Better && diff >= 0 || v == Worse && diff <= 0 || v == Same && math.Abs(diff) >= math.Log1p(tolerance) {
			return true
		}
	}
	return false
}

func lastSame(_ []float64, verdicts []Verdict) bool { return verdicts[len(verdicts)-1] == Same }

func anySame(_ []float64, verdicts []Verdict) bool { return slices.Contains(verdicts, Same) }

// found means that every real difference is detected.
func found(truth []float64, verdicts []Verdict) bool {
	for i, v := range verdicts {
		if truth[i] > 0 && v != Worse || truth[i] < 0 && v != Better {
			return false
		}
	}
	return true
}

// proposed is Compare, with a check that p and the interval agree.
func proposed(tolerance float64) judge {
	return func(t *testing.T, figures []Figure) []Verdict {
		return verdictsOf(t, Rules{Tolerance: tolerance}.Compare(figures))
	}
}

func verdictsOf(t *testing.T, c *Comparison) (verdicts []Verdict) {
	for _, change := range c.Changes {
		if change.P != nil {
			certain, out := *change.P <= change.Level, *change.Low > 1 || *change.High < 1
			if certain != out || *change.Ratio < *change.Low || *change.Ratio > *change.High || !out && (change.Verdict == Better || change.Verdict == Worse) {
				t.Errorf("p is %v at level %v, and the ratio %v is between %v and %v: %s", *change.P, change.Level, *change.Ratio, *change.Low, *change.High, change.Verdict)
			}
		}
		verdicts = append(verdicts, change.Verdict)
	}
	return verdicts
}

// looks looks three times; with priced, each look has a separate level.
func looks(priced bool) judge {
	return func(t *testing.T, figures []Figure) (verdicts []Verdict) {
		for look, n := range []int{8, 16, 32} {
			early := slices.Clone(figures)
			for i := range early {
				early[i].Pairs = early[i].Pairs[:n]
			}
			rules := Rules{Tolerance: -1}
			if priced {
				rules.Look = look + 1
			}
			verdicts = append(verdicts, verdictsOf(t, rules.Compare(early))...)
		}
		return verdicts
	}
}

func unadjusted(t *testing.T, figures []Figure) (verdicts []Verdict) {
	for _, f := range figures {
		verdicts = append(verdicts, verdictsOf(t, Rules{Tolerance: -1}.Compare([]Figure{f}))...)
	}
	return verdicts
}

func withoutFloor(t *testing.T, figures []Figure) []Verdict {
	bare := slices.Clone(figures)
	for i := range bare {
		bare[i].Sessions = nil
	}
	return proposed(-1)(t, bare)
}

// withoutSteps hides that values were rounded.
func withoutSteps(t *testing.T, figures []Figure) []Verdict {
	exact := slices.Clone(figures)
	for i := range exact {
		exact[i].Pairs = slices.Clone(exact[i].Pairs)
		exact[i].Pairs[0].A += 1e-9
	}
	return proposed(tolerance)(t, exact)
}

// ninetyPercent returns same if the 90 % interval lies within the tolerance.
func pairLogs(pairs []Pair) (a, b []float64) {
	for _, p := range pairs {
		a, b = append(a, p.A), append(b, p.B)
	}
	return logs(a), logs(b)
}

func ninetyPercent(_ *testing.T, figures []Figure) (verdicts []Verdict) {
	for _, f := range figures {
		a, b := pairLogs(f.Pairs)
		d := minus(b, a)
		mean, variance := moments(d)
		n := float64(len(d))
		e := byStudent(mean, math.Sqrt(variance/n), n-1, 0.1, studentT)
		v := Unclear
		if tau := math.Log1p(tolerance); -tau < e.low && e.high < tau {
			v = Same
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// signFlipsAndHolm spends all of alpha on the first figure and, in addition, applies
// Holm's procedure to the others.
func signFlipsAndHolm(_ *testing.T, figures []Figure) []Verdict {
	verdicts := slices.Repeat([]Verdict{Unclear}, len(figures))
	ps := make([]float64, len(figures))
	for i, f := range figures {
		a, b := pairLogs(f.Pairs)
		d := minus(b, a)
		ps[i] = signFlip(d)
		if mean, _ := moments(d); ps[i] <= alpha {
			verdicts[i] = Worse
			if mean < 0 {
				verdicts[i] = Better
			}
		}
	}
	others := slices.Sorted(slices.Values(ps[1:]))
	for i := 1; i < len(ps); i++ {
		for rank, p := range others {
			if p*float64(len(others)-rank) > alpha {
				break
			}
			if p >= ps[i] {
				ps[i] = -1 // rejected
			}
		}
		if ps[i] >= 0 {
			verdicts[i] = Unclear
		}
	}
	return verdicts
}

// signFlip returns how often the sum is as far from zero under random signs.
func signFlip(values []float64) float64 {
	sum, size := 0.0, 0.0
	for _, v := range values {
		sum, size = sum+v, size+math.Abs(v)
	}
	far := math.Abs(sum) - 1e-9*size
	count, flipped, signs := 0, sum, uint(0)
	for i := uint(1); ; i++ {
		if math.Abs(flipped) >= far {
			count++
		}
		if i == 1<<len(values) {
			return math.Ldexp(float64(count), -len(values))
		}
		at := bits.TrailingZeros(i) // the one sign that changes
		v := 2 * values[at]
		if signs ^= 1 << at; signs&(1<<at) != 0 {
			v = -v
		}
		flipped += v
	}
}

// most returns how many of n events of probability p occur at most, except in one case of
// a thousand.
func most(n int, p float64) int {
	below := 0.0
	for k := range n {
		below += math.Exp(lgamma(float64(n+1)) - lgamma(float64(k+1)) - lgamma(float64(n-k+1)) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		if below >= 0.999 {
			return k
		}
	}
	return n
}

// Where several programs are compared with one, and none differs, all their verdicts together are as rarely wrong. One that
// is 5 % slower is found.
func TestSimulatedPrograms(t *testing.T) {
	families := familiesOf(t)
	wrong := simulatePrograms(families, 12, 0, -1, func(changes []Change) bool {
		return slices.ContainsFunc(changes, func(c Change) bool { return c.Verdict != Unclear })
	})
	t.Logf("wrong: %.2f %% of %d", 100*float64(wrong)/float64(families), families)
	if wrong > most(families, alpha) {
		t.Errorf("%d of %d families have a wrong verdict", wrong, families)
	}
	missed := families - simulatePrograms(families, 16, 0.05, tolerance, func(changes []Change) bool { return changes[len(changes)-figuresOfPrograms].Verdict == Worse })
	t.Logf("5 %% not found: %.2f %% of %d", 100*float64(missed)/float64(families), families)
	if missed > most(families, 0.01) {
		t.Errorf("in %d of %d families 5 %% was not found", missed, families)
	}
}

const figuresOfPrograms = 6

// simulatePrograms counts the families of four programs, the last one slower by a share in the primary figure, whose verdicts
// against the first one are such.
func simulatePrograms(families, pairs int, slower, tolerance float64, such func([]Change) bool) (count int) {
	const programs = 4
	for family := range families {
		random := rand.New(rand.NewPCG(uint64(family), 26))
		draw := func(p, f int) float64 {
			v := 100 * math.Exp(0.02*random.NormFloat64())
			if p == programs-1 && f == 0 {
				v *= 1 + slower
			}
			return v
		}
		var measured [programs][figuresOfPrograms][]float64
		for p := range measured {
			for f := range measured[p] {
				for range pairs {
					measured[p][f] = append(measured[p][f], draw(p, f))
				}
			}
		}
		var changes []Change
		for _, other := range measured[1:] {
			var all []Figure
			for f := range other {
				one := Figure{Name: strconv.Itoa(f), Primary: f == 0}
				for i := range pairs {
					one.Pairs = append(one.Pairs, Pair{ID: i, A: measured[0][f][i], B: other[f][i]})
				}
				all = append(all, one)
			}
			changes = append(changes, (Rules{Tolerance: tolerance, Comparisons: programs - 1}).Compare(all).Changes...)
		}
		if such(changes) {
			count++
		}
	}
	return count
}
