package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
)

// machine draws what runs measure: a true value, times what the machine does for a
// while (to both of a pair), times what happens to this run alone.
type machine struct{ *rand.Rand }

func (m machine) pairs(n int, a, b, noise float64) (as, bs []float64) {
	for range n {
		weather := math.Exp(0.1 * m.NormFloat64())
		as = append(as, a*weather*math.Exp(noise*m.NormFloat64()))
		bs = append(bs, b*weather*math.Exp(noise*m.NormFloat64()))
	}
	return as, bs
}

func verdicts(t *testing.T, r Rules, n int, b float64, metrics int) map[Verdict]int {
	m := machine{rand.New(rand.NewPCG(7, uint64(n)))}
	found := map[Verdict]int{}
	for range 400 {
		var all []Metric
		for range metrics {
			as, bs := m.pairs(n, 100, b, 0.02)
			all = append(all, Metric{Better: Higher, A: as, B: bs, Noise: 0.01})
		}
		changes := r.Compare(all)
		found[changes[0].Verdict]++
		if metrics > 1 && slices.ContainsFunc(changes[1:], func(c Change) bool { return c.Verdict != Same }) {
			found["any other"]++
		}
	}
	return found
}

// Of two runs of the same thing one in twenty may look different, and no more.
func TestSameThingsAreTheSame(t *testing.T) {
	for name, r := range map[string]Rules{"pairs": {Paired: true, Tolerance: -1}, "apart": {Tolerance: -1}} {
		found := verdicts(t, r, 8, 100, 1)
		t.Logf("%s: %v", name, found)
		if wrong := 400 - found[Same]; wrong > 400*7/100 {
			t.Errorf("%s: %d of 400 comparisons find what is not there", name, wrong)
		}
	}
	found := verdicts(t, Rules{Paired: true, Tolerance: -1}, 10, 100, 6)
	if wrong := found["any other"]; wrong > 400*7/100 {
		t.Errorf("%d of 400 comparisons of five metrics beside the first find what is not there", wrong)
	}
}

// A shift of 5 % is found in eight pairs of runs that differ by 2 % among
// themselves, whatever the weather is; runs that are no pairs have the weather in
// them, and seldom show it.
func TestAShiftIsFound(t *testing.T) {
	paired := verdicts(t, Rules{Paired: true}, 8, 95, 1)
	apart := verdicts(t, Rules{}, 8, 95, 1)
	t.Logf("pairs: %v, apart: %v", paired, apart)
	if paired[Worse] < 400*95/100 || paired[Better] > 0 {
		t.Errorf("pairs: %v", paired)
	}
	if apart[Worse] > paired[Worse]/2 {
		t.Errorf("pairs are for nothing: %v", apart)
	}
}

func TestVerdicts(t *testing.T) {
	ten := []float64{10, 11, 10.5, 10.2, 10.7, 10.1, 10.9, 10.4}
	times := func(f float64) (out []float64) {
		for i, v := range ten {
			out = append(out, v*f*(1+0.001*float64(i%3)))
		}
		return out
	}
	for name, c := range map[string]struct {
		rules   Rules
		metric  Metric
		verdict Verdict
		warning Kind // the first one; empty: none
	}{
		"lower is better":         {Rules{Paired: true}, Metric{A: ten, B: times(0.9), Noise: 0.01}, Better, ""},
		"lower is better, apart":  {Rules{}, Metric{A: ten, B: times(0.8), Noise: 0.01}, Better, ""},
		"higher is better":        {Rules{Paired: true}, Metric{A: ten, B: times(0.9), Better: Higher, Noise: 0.01}, Worse, ""},
		"within the tolerance":    {Rules{Paired: true, Tolerance: 0.2}, Metric{A: ten, B: times(0.9), Noise: 0.01}, Same, ""},
		"within the noise":        {Rules{Paired: true}, Metric{A: ten, B: times(0.9), Noise: 0.15}, Same, ""},
		"noise that is not known": {Rules{Paired: true}, Metric{A: ten, B: times(1.3)}, Worse, NoNoise},
		"five pairs":              {Rules{Paired: true}, Metric{A: ten[:5], B: times(2)[:5], Noise: 0.01}, Unclear, TooFew},
		"three and three":         {Rules{}, Metric{A: ten[:3], B: times(2)[:3], Noise: 0.01}, Unclear, TooFew},
		"one too many":            {Rules{Paired: true}, Metric{A: ten, B: times(2)[:7], Noise: 0.01}, Unclear, NoPairs},
		"a zero":                  {Rules{Paired: true}, Metric{A: ten, B: append(times(2)[:7], 0), Noise: 0.01}, Unclear, NotPositive},
		"not a number":            {Rules{}, Metric{A: append(ten[:7:7], math.NaN()), B: ten, Noise: 0.01}, Unclear, NotPositive},
		"nothing":                 {Rules{}, Metric{B: ten, Noise: 0.01}, Unclear, NotPositive},
		"the same values":         {Rules{Paired: true}, Metric{A: ten, B: ten, Noise: 0.01}, Same, ""},
	} {
		got := c.rules.Compare([]Metric{c.metric})[0]
		if got.Verdict != c.verdict {
			t.Errorf("%s: %q, want %q: %+v", name, got.Verdict, c.verdict, got)
		}
		if warned := len(got.Warnings) > 0; warned != (c.warning != "") || warned && got.Warnings[0].Kind != c.warning {
			t.Errorf("%s: warnings %+v, want %q", name, got.Warnings, c.warning)
		}
	}
}

// More questions need more runs before one of them can be answered.
func TestManyMetricsNeedManyRuns(t *testing.T) {
	as, bs := machine{rand.New(rand.NewPCG(1, 1))}.pairs(8, 100, 150, 0.01)
	one := Metric{A: as, B: bs, Noise: 0.01}
	few := Rules{Paired: true}.Compare([]Metric{one, one, one, one})
	many := Rules{Paired: true}.Compare([]Metric{one, one, one, one, one, one, one, one, one})
	if few[0].Verdict != Worse || few[3].Verdict != Worse {
		t.Errorf("%+v", few[3])
	}
	if many[0].Verdict != Worse || many[8].Verdict != Unclear || many[8].Warnings[0].Kind != TooFew {
		t.Errorf("%+v", many[8])
	}
}

func TestUnpairedIsWhatBenchstatSays(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(3, 3))}
	for n := 4; n <= 12; n++ {
		as, bs := m.pairs(n, 100, 103, 0.02)
		got := Rules{}.Compare([]Metric{{A: as, B: bs}})[0]
		a := benchmath.NewSample(slices.Clone(as), &benchmath.DefaultThresholds)
		b := benchmath.NewSample(slices.Clone(bs), &benchmath.DefaultThresholds)
		none := benchmath.AssumeNothing
		if want := none.Compare(a, b).P; *got.P != want {
			t.Errorf("%d runs: P is %v, benchstat's %v", n, *got.P, want)
		}
		if want := none.Summary(b, 0.95).Center / none.Summary(a, 0.95).Center; math.Abs(*got.Ratio-want) > 1e-12 {
			t.Errorf("%d runs: ratio %v, benchstat's %v", n, *got.Ratio, want)
		}
	}
}

// signFlip turns one sign at a time; here all of them are tried from scratch.
func TestSignFlip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for n := 1; n <= 10; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = r.NormFloat64() + 0.5
		}
		if n == 7 {
			values[3] = -values[2] // ties
		}
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		count := 0
		for signs := range 1 << n {
			s := 0.0
			for i, v := range values {
				if signs>>i&1 != 0 {
					v = -v
				}
				s += v
			}
			if math.Abs(s) >= math.Abs(sum)-1e-12 {
				count++
			}
		}
		if got, want := signFlip(values), float64(count)/float64(int(1)<<n); got != want {
			t.Errorf("%d values: %v, want %v", n, got, want)
		}
	}
	if got := signFlip([]float64{0, 0, 0}); got != 1 {
		t.Errorf("nothing but zeros: %v", got)
	}
	same := make([]float64, mostExact+1)
	for i := range same {
		same[i] = 1
	}
	if got := signFlip(same); got > 1e-3 || got != signFlip(same) {
		t.Errorf("a sample of the ways: %v, then %v", got, signFlip(same))
	}
}

// The critical values of the signed-rank test as printed in tables, two-sided 5 %.
func TestSignedRankTable(t *testing.T) {
	for n, want := range map[int]int{5: -1, 6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 12: 13, 15: 25, 20: 52, 25: 89} {
		if got := signedRankBelow(n, 0.025); got != want {
			t.Errorf("%d pairs: %d, want %d", n, got, want)
		}
	}
}

// The interval holds the true ratio 19 times in 20.
func TestIntervalHoldsTheTruth(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(9, 9))}
	held := 0
	for range 400 {
		as, bs := m.pairs(8, 100, 105, 0.02)
		c := Rules{Paired: true}.Compare([]Metric{{A: as, B: bs}})[0]
		if *c.Low <= 1.05 && 1.05 <= *c.High && *c.Low <= *c.Ratio && *c.Ratio <= *c.High {
			held++
		}
	}
	if held < 400*93/100 {
		t.Errorf("%d of 400 intervals hold the true ratio", held)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		n, k int
		want float64
	}{{6, 3, 20}, {16, 8, 12870}, {4, 0, 1}} {
		if got := choose(c.n, c.k); got != c.want {
			t.Errorf("%d of %d: %v, want %v", c.k, c.n, got, c.want)
		}
	}
}
