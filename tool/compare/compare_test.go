package compare

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// inTurn returns alternating pairs in which B is factor times A, with a fixed spread.
func inTurn(n int, factor, spread float64) []Pair {
	pairs := make([]Pair, n)
	for i := range pairs {
		a := 100 + 10*math.Sin(float64(i))
		pairs[i] = Pair{ID: i + 1, A: a, B: a * factor * math.Exp(spread*math.Sin(3.7*float64(i)))}
	}
	return pairs
}

func sidesOf(pairs []Pair) (a, b []float64) {
	for _, p := range pairs {
		a, b = append(a, p.A), append(b, p.B)
	}
	return a, b
}

// sessions returns sessions that differ by the given factors, without spread within.
func sessions(factors ...float64) (all []Session) {
	for day, f := range factors {
		all = append(all, Session{At: time.Date(2026, 1, day+1, 0, 0, 0, 0, time.UTC), Pairs: inTurn(16, f, 0)})
	}
	return all
}

// counts are pairs of the same two values.
func counts(n int, a, b float64) (pairs []Pair) {
	for i := range n {
		pairs = append(pairs, Pair{ID: i + 1, A: a, B: b})
	}
	return pairs
}

func TestVerdicts(t *testing.T) {
	lacking := func(a, b int) []Pair {
		pairs := inTurn(12, 1, 0.01)
		for i := range a {
			pairs[i].A = math.NaN()
		}
		for i := range b {
			pairs[11-i].B = math.NaN()
		}
		return pairs
	}
	a, b := sidesOf(inTurn(12, 1.3, 0.01))
	zero := inTurn(12, 1, 0.01)
	zero[3].A = 0
	zeroAndMissing := lacking(3, 0)
	zeroAndMissing[5].A = 0
	integers := inTurn(12, 1, 0)
	for i := range integers {
		integers[i].A, integers[i].B = 5, 5
	}
	for name, c := range map[string]struct {
		figure  Figure
		verdict Verdict
		limit   Limit
		words   string // empty: any
	}{
		"better":                    {Figure{Pairs: inTurn(12, 0.9, 0.01)}, Better, BySpread, "better: −10.0 % (−10.5 … −9.6), at least 9.6 %; p 0.0006; 12 pairs"},
		"worse":                     {Figure{Pairs: inTurn(12, 0.9, 0.01), Better: record.Higher}, Worse, BySpread, ""},
		"worse by 2 to 4 %":         {Figure{Pairs: inTurn(12, 1.03, 0.01)}, Worse, BySpread, ""},
		"same":                      {Figure{Pairs: inTurn(12, 1.003, 0.01)}, Same, BySpread, "same within 3 %: +0.3 % (−0.3 … +0.8)"},
		"small but certain":         {Figure{Pairs: inTurn(12, 1.01, 0.001)}, Same, BySpread, "same within 3 %: +1.0 % (+0.9 … +1.0), small but certain"},
		"the same values":           {Figure{Pairs: inTurn(12, 1, 0)}, Same, BySpread, "same within 3 %: 0.0 % (0.0 … 0.0)"},
		"unclear":                   {Figure{Pairs: inTurn(12, 1.02, 0.04)}, Unclear, BySpread, "unclear: +1.9 % (−0.4 … +4.0); about 96 pairs in all would settle it"},
		"hopeless":                  {Figure{Pairs: inTurn(12, 1, 0.5)}, Unclear, BySpread, "unclear: −1.4 % (−25.4 … +26.8); it may take more than 96 pairs; make each run longer, or the machine quieter"},
		"four pairs":                {Figure{Pairs: inTurn(4, 2, 0.01)}, Unclear, ByNumber, "unclear: 4 pairs; at least 5 are needed, 12 are usual"},
		"five pairs":                {Figure{Pairs: inTurn(5, 2, 0.01)}, Worse, BySpread, ""},
		"nothing":                   {Figure{}, Unclear, ByNumber, "unclear: 0 and 0 runs; at least 5 are needed, 12 are usual"},
		"two missing":               {Figure{Pairs: lacking(2, 0)}, Same, BySpread, ""},
		"three on one side":         {Figure{Pairs: lacking(3, 0)}, Unclear, ByMissing, "unclear: 9 of 12 pairs have it (A lacks 3, B 0)"},
		"over a quarter":            {Figure{Pairs: lacking(2, 2)}, Unclear, ByMissing, "unclear: 8 of 12 pairs have it (A lacks 2, B 2)"},
		"nearly all":                {Figure{Pairs: lacking(3, 6)}, Unclear, ByMissing, "unclear: 3 of 12 pairs have it (A lacks 3, B 6)"},
		"a zero":                    {Figure{Pairs: zero}, Unclear, ByValues, "unclear: values that are not positive have no ratio"},
		"a zero, and three missing": {Figure{Pairs: zeroAndMissing}, Unclear, ByMissing, "unclear: 9 of 12 pairs have it (A lacks 3, B 0)"},
		"endless":                   {Figure{Pairs: inTurn(12, math.Inf(1), 0)}, Unclear, ByMissing, "unclear: 0 of 12 pairs have it (A lacks 0, B 12)"},
		"whole numbers":             {Figure{Pairs: integers, Unit: "ms"}, Unclear, ByResolution, "unclear: 0.0 % (−16.7 … +20.0); more pairs will not settle it; values come in steps of 1 ms, 20 % of the median"},
		"equal counts":              {Figure{Pairs: integers, Unit: "B/op"}, Same, BySpread, "same: exactly equal"},
		"counts of nothing":         {Figure{Pairs: counts(5, 0, 0), Unit: "allocs/op"}, Same, BySpread, "same: exactly equal"},
		"one more":                  {Figure{Pairs: counts(5, 1, 2), Unit: "allocs/op"}, Worse, BySpread, "worse: +100.0 %, exact; 5 pairs"},
		"one less":                  {Figure{Pairs: counts(5, 3, 2), Unit: "allocs/op"}, Better, BySpread, "better: −33.3 %, exact; 5 pairs"},
		"the first":                 {Figure{Pairs: counts(5, 0, 1), Unit: "allocs/op"}, Worse, BySpread, "worse: from 0 to 1, exact; 5 pairs"},
		"the last":                  {Figure{Pairs: counts(5, 1, 0), Unit: "allocs/op"}, Better, BySpread, "better: −100.0 %, exact; 5 pairs"},
		"one more of forty":         {Figure{Pairs: counts(5, 40, 41), Unit: "allocs/op"}, Same, BySpread, "same within 3 %: +2.5 %, exact"},
		"one more, four pairs":      {Figure{Pairs: counts(4, 1, 2), Unit: "allocs/op"}, Unclear, ByNumber, ""},
		"nothing, but for once":     {Figure{Pairs: append(counts(5, 0, 4096), Pair{ID: 6, A: 3, B: 4097}), Unit: "B/op"}, Worse, BySpread, "worse: from 0 to 4096, with no run in between; 6 pairs"},
		"nothing, and not apart":    {Figure{Pairs: append(counts(5, 0, 1), Pair{ID: 6, A: 1, B: 0}), Unit: "B/op"}, Unclear, ByValues, ""},
		"counts that vary":          {Figure{Pairs: append(counts(11, 40, 44), Pair{ID: 12, A: 41, B: 45}), Unit: "allocs/op"}, Worse, BySpread, ""},
		"builds differ":             {Figure{Pairs: inTurn(12, 1.02, 0.01), Sessions: sessions(0.98, 1.02, 0.98, 1.02)}, Unclear, ByFloor, "unclear: +2.0 % (−4.0 … +8.3); more pairs will not settle it; this machine's rebuilds differ by ±6.2 %; measure in several sessions"},
		"builds hardly differ":      {Figure{Pairs: inTurn(12, 1.05, 0.01), Sessions: sessions(0.999, 1.001, 0.999, 1.001)}, Worse, BySpread, ""},
		"three sessions":            {Figure{Pairs: inTurn(12, 1.05, 0.01), Sessions: sessions(0.9, 1.1, 0.9)}, Worse, BySpread, ""},
		"noise that was given":      {Figure{Pairs: inTurn(12, 1.05, 0.01), Noise: 0.1}, Unclear, ByFloor, ""},
		"not in turn":               {Figure{A: a, B: b}, Unclear, ByNoFloor, "unclear: +30.0 % (+21.7 … +38.9); A and B were not measured alternately, and the difference between sessions on this machine is not known"},
		"not in turn, four":         {Figure{A: a, B: b, Sessions: sessions(1, 1, 1, 1)}, Unclear, ByNoFloor, ""},
		"not in turn, five":         {Figure{A: a, B: b, Sessions: sessions(1, 1, 1, 1, 1)}, Worse, BySpread, "worse: +30.0 % (+21.7 … +38.9), at least 21.7 %; p < 0.0001; 12 and 12 runs"},
		"not in turn, given":        {Figure{A: a, B: b, Noise: 0.02}, Worse, BySpread, ""},
		"not in turn, one misses":   {Figure{A: append([]float64{math.NaN()}, a...), B: b, Noise: 0.02}, Worse, BySpread, ""},
		"not in turn, few":          {Figure{A: a[:4], B: b, Noise: 0.02}, Unclear, ByNumber, ""},
	} {
		got := Rules{}.Compare([]Figure{c.figure}).Changes[0]
		if got.Verdict != c.verdict || got.LimitedBy != c.limit || (got.Advice != nil) != (got.Verdict == Unclear) {
			t.Errorf("%s: %s by %s, want %s by %s: %s", name, got.Verdict, got.LimitedBy, c.verdict, c.limit, got.Words(0.03))
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if words := got.Words(0.03); c.words != "" && words != c.words {
			t.Errorf("%s:\n got %s\nwant %s", name, words, c.words)
		}
	}
}

// With 20 % noise, 8 pairs that do not show an 8 % slowdown are not evidence for "same".
func TestSameNeedsEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		pairs := make([]Pair, 8)
		for i := range pairs {
			pairs[i] = Pair{i + 1, 100 * math.Exp(0.2*r.NormFloat64()), 108 * math.Exp(0.2*r.NormFloat64())}
		}
		c := Rules{}.Compare([]Figure{{Pairs: pairs}}).Changes[0]
		if c.Verdict == Same && (*c.Low <= 1/1.03 || *c.High >= 1.03) {
			t.Fatalf("same, and yet between %v and %v", *c.Low, *c.High)
		}
		if c.Verdict == Same {
			t.Errorf("same: %s", c.Words(0.03))
		}
	}
}

func TestFamily(t *testing.T) {
	one := Figure{Pairs: inTurn(12, 1.1, 0.01)}
	primary := one
	primary.Primary = true
	lost := Figure{Pairs: slices.Repeat([]Pair{{1, math.NaN(), math.NaN()}}, 12)}
	c := Rules{}.Compare([]Figure{primary, one, one, one, one, lost})
	if want := (Family{6, 0.05, 1, []int{12, 24, 48, 96}, 0.04}); !equalFamilies(c.Family, want) {
		t.Errorf("%+v, want %+v", c.Family, want)
	}
	if a, b := c.Changes[0].Level, c.Changes[1].Level; math.Abs(a-0.015) > 1e-15 || math.Abs(b-0.005) > 1e-15 {
		t.Errorf("levels %v and %v: a figure without values counts, and the primary one three times", a, b)
	}
	if got, want := *c.Changes[1].PFamily, *c.Changes[1].P*10; math.Abs(got-want) > 1e-15 {
		t.Errorf("p is %v in the family, want %v", got, want)
	}
	if c.Scope != ThisSession {
		t.Errorf("without a floor it holds for %s", c.Scope)
	}
	c = Rules{Look: 3, Tolerance: 0.01}.Compare([]Figure{one})
	if want := (Family{1, 0.05, 3, []int{3, 6, 12, 24, 48, 96}, 0.0025}); !equalFamilies(c.Family, want) || c.Tolerance != 0.01 {
		t.Errorf("%+v, want %+v", c.Family, want)
	}
	sum := 0.0
	for look := 1; look < 60; look++ {
		sum += alphaOf(look)
	}
	if math.Abs(sum-alpha) > 1e-12 {
		t.Errorf("all looks together allow %v", sum)
	}
	one.Sessions = sessions(1, 1, 1, 1)
	if c := (Rules{Tolerance: -1}).Compare([]Figure{one}); c.Scope != ThisMachine || c.Tolerance != 0 {
		t.Errorf("with a floor it holds for %s, with a tolerance of %v", c.Scope, c.Tolerance)
	}
}

func equalFamilies(a, b Family) bool {
	return a.Figures == b.Figures && a.Alpha == b.Alpha && a.Look == b.Look && slices.Equal(a.Schedule, b.Schedule) && math.Abs(a.AlphaLook-b.AlphaLook) < 1e-15
}

// Whatever contributes to the interval, it contains exactly the values that p does not
// reject.
func TestIntervalIsTheTestInverted(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	draw := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = r.NormFloat64()
			if r.IntN(4) == 0 {
				values[i] = math.Round(values[i]) // ties, and zeros
			}
		}
		return values
	}
	for range 3000 {
		level := []float64{0.05, 0.0067, 0.005, 0.0006}[r.IntN(4)]
		e := ofPairs(draw(2+r.IntN(25)), level)
		if r.IntN(3) == 0 {
			e = ofRuns(draw(2+r.IntN(10)), draw(2+r.IntN(10)), level)
		}
		if r.IntN(2) == 0 {
			e = e.hull((&Floor{deviation: 0.3 * r.Float64(), df: float64(4 + r.IntN(8))}).around(e.center, level))
		}
		if r.IntN(2) == 0 {
			e = e.hull((&Floor{Given: r.Float64()}).around(e.center, level))
		}
		if r.IntN(2) == 0 {
			e = e.widened(0.1 * r.Float64())
		}
		if !e.holds(e.center) {
			t.Fatalf("%v is not between %v and %v", e.center, e.low, e.high)
		}
		for range 20 {
			mu := e.center + 2*(e.high-e.low)*(r.Float64()-0.5)
			if r.IntN(4) == 0 {
				mu = []float64{e.low - 1e-6, e.low + 1e-6, e.high - 1e-6, e.high + 1e-6}[r.IntN(4)]
			}
			if p := e.p(mu); e.holds(mu) != (p > level) {
				t.Fatalf("%s: p of %v is %v at level %v, and the interval is %v to %v", e.method, mu, p, level, e.low, e.high)
			}
		}
	}
}

// The method depends only on the number of pairs and the level.
func TestMethodIsChosenBeforehand(t *testing.T) {
	for _, c := range []struct {
		n     int
		level float64
		want  bool
	}{{10, 0.04 / 6, false}, {11, 0.04 / 6, true}, {10, 0.005, false}, {11, 0.005, true}, {7, 0.05, false}, {8, 0.05, true}} {
		if got := ranked(c.n, c.level); got != c.want {
			t.Errorf("%d pairs at %v: %v", c.n, c.level, got)
		}
	}
}

// The critical values of the signed-rank test match printed tables, two-sided 5 % and 1
// %.
func TestSignedRankTable(t *testing.T) {
	for n, want := range map[int][2]int{6: {0, -1}, 7: {2, -1}, 8: {3, 0}, 9: {5, 1}, 10: {8, 3}, 12: {13, 7}, 15: {25, 15}, 20: {52, 37}, 25: {89, 68}} {
		below := signedRankTable(n)
		for i, level := range []float64{0.05, 0.01} {
			got := -1
			for w, p := range below {
				if 2*p <= level {
					got = w
				}
			}
			if got != want[i] {
				t.Errorf("%d pairs at %v: %d, want %d", n, level, got, want[i])
			}
		}
		if last := below[len(below)-1]; math.Abs(last-1) > 1e-12 {
			t.Errorf("%d pairs: all is %v", n, last)
		}
	}
}

func TestFloorOf(t *testing.T) {
	all := sessions(1.02, 0.98, 1.02, 0.98)
	all[2].Pairs = append(all[2].Pairs[:9:9], Pair{10, 5, math.NaN()}) // estimated from nine
	all = append(all, Session{Pairs: inTurn(4, 2, 0)})                 // too few
	f := Figure{Pairs: inTurn(12, 1, 0), Sessions: all}
	floor := floorOf(&f, signedRank)
	if floor == nil || floor.Sessions != 4 || floor.Pairs != 9 || math.Abs(floor.RMS-0.0202) > 1e-4 || !floor.Oldest.Equal(all[0].At) {
		t.Errorf("%+v", floor)
	}
	f.Sessions = all[1:]
	if floor := floorOf(&f, signedRank); floor != nil {
		t.Errorf("three sessions: %+v", floor)
	}
	// With occasional slow runs the mean and the signed rank differ; the floor uses the
	// verdict's method.
	for i := range f.Sessions {
		f.Sessions[i].Pairs = inTurn(16, 1, 0)
		f.Sessions[i].Pairs[0].B *= 5
	}
	f.Sessions = slices.Concat(f.Sessions[:3], f.Sessions[:3])
	byRank, byMean := floorOf(&f, signedRank), floorOf(&f, studentT)
	if byRank.RMS > 1e-9 || math.Abs(math.Log1p(byMean.RMS)-math.Log(5)/16) > 1e-9 {
		t.Errorf("by rank %v, by mean %v", byRank.RMS, byMean.RMS)
	}
}

func TestWords(t *testing.T) {
	sevenfold := Figure{Pairs: inTurn(6, 7, 0.2)}
	words := Rules{}.Compare([]Figure{sevenfold, sevenfold, sevenfold, sevenfold, sevenfold, sevenfold}).Changes[5].Words(0.03)
	if !strings.HasPrefix(words, "worse: +") || !strings.HasSuffix(words, "; 6 pairs") {
		t.Errorf("a sevenfold figure of six pairs is %s", words)
	}
	for part, want := range map[float64]string{0: "0.0", 1e-9: "0.0", 0.0004: "+0.04", -0.081: "−8.1", 6.5: "+650.0"} {
		if got := signed(part); got != want {
			t.Errorf("signed(%v) = %s, want %s", part, got, want)
		}
	}
	for part, want := range map[float64]string{0.03: "3 %", 0.049: "4.9 %", 0.0005: "0.05 %", 0: "0 %"} {
		if got := percent(part); got != want {
			t.Errorf("percent(%v) = %s, want %s", part, got, want)
		}
	}
	for p, want := range map[float64]string{0.00042: "0.0004", 1e-9: "< 0.0001", 0.31: "0.3"} {
		if got := probability(p); got != want {
			t.Errorf("probability(%v) = %s, want %s", p, got, want)
		}
	}
}

func TestHiddenStep(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{5, 5, 5}, []float64{5, 5, 5}, 1},
		{[]float64{5, 7, 9}, []float64{5, 5, 5}, 1},
		{[]float64{5, 7, 9}, []float64{3, 5, 8}, 0},
		{[]float64{1.25, 1.25}, []float64{1.25, 1.26}, 0.01},
		{[]float64{1.251234567, 1.26}, []float64{1.25, 1.26}, 0},
		{[]float64{5.000000000004, 6}, []float64{5, 5}, 1},
		{[]float64{1e22, 1e22}, []float64{1e22, 1e22}, 1},
		{[]float64{6.000000000000001e-09, 6e-9}, []float64{5e-9, 5e-9}, 1e-9},
	} {
		if got := hiddenStep(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// The table does not contradict itself: B is shown as far from A as the verdict says, and a reason
// that several figures share is said once.
func TestTable(t *testing.T) {
	var pairs []Pair
	for i := range 12 { // the pairs' ratio is 1.2; one pair in another order moves the median of B below that of A
		pairs = append(pairs, Pair{ID: i + 1, A: 100 + 100*float64(i), B: 1.2 * (100 + 100*float64(i))})
	}
	pairs[5].B, pairs[6].B, pairs[7].B, pairs[8].B, pairs[9].B, pairs[10].B = 500, 600, 600, 600, 600, 600
	r := &Report{Comparison: Rules{}.Compare([]Figure{{Name: "rate", Pairs: pairs}})}
	c := r.Changes[0]
	if *c.MedianB >= *c.MedianA || c.Ratio == nil {
		t.Fatalf("the medians are %v and %v", *c.MedianA, *c.MedianB)
	}
	want := figure.Number(*c.MedianA * *c.Ratio)
	if row := r.table().Rows[0]; row[2] != want {
		t.Errorf("%q, want %s where B is %.2f times %v", row, want, *c.Ratio, *c.MedianA)
	}
	few := inTurn(3, 1, 0.01)
	r = &Report{Comparison: Rules{}.Compare([]Figure{{Name: "rate", Pairs: few}, {Name: "p50", Pairs: few}, {Name: "p99", Pairs: few[:2]}})}
	if text := written(r.Text); strings.Count(text, "as above") != 1 || !strings.Contains(text, "unclear: as above") || strings.Count(text, "2 pairs; at least 5") != 1 {
		t.Errorf("the reasons are\n%s", text)
	}
}

// The advice is the smallest number of pairs, doubled each time, whose interval at its look would be
// narrow enough.
func TestAdviceIsTheSmallestNumber(t *testing.T) {
	const n, share, tau = int(8), 0.25, 0.03
	for i := 0; i <= looksAhead; i++ {
		pairs := float64(n << i)
		enough := tau / 2 * math.Sqrt(pairs/float64(n)) / tBound(share*alphaOf(1+i), pairs-1) // the largest deviation of n pairs
		for by, want := range map[float64]int{0.999: n << max(i, 1), 1.001: n << (i + 1) % (n << (looksAhead + 1))} {
			j := &judgement{Figure: &Figure{Pairs: make([]Pair, n)}, rules: Rules{Look: 1}, share: share, tau: tau, df: float64(n - 1)}
			half := by * enough * tBound(j.level(), j.df) * math.Sqrt(chiSquaredBound(unlucky, j.df)/j.df)
			j.sampled = estimate{low: -half, high: half}
			if a := j.advise(); a.Pairs != want {
				t.Errorf("%v times the deviation that %v pairs allow: %+v, want %d", by, pairs, a, want)
			}
		}
	}
}

// The note names the look at which the advised number of pairs is due.
func TestNoteOfTheNextLook(t *testing.T) {
	for look, want := range map[int]string{
		1: "to settle what is unclear, measure again with 96 pairs and --look 4, which says that it is another look",
		2: "to settle what is unclear, measure again with 96 pairs and --look 5, which says that it is another look",
	} {
		r := &Report{Comparison: Rules{Look: look}.Compare([]Figure{{Name: "p99", Pairs: inTurn(12, 1.02, 0.04)}})}
		if notes := r.advice(true); !slices.Contains(notes, want) {
			t.Errorf("look %d: %q", look, notes)
		}
	}
}

func TestTextAndMarkdown(t *testing.T) {
	r := &Report{Notes: []string{"one", "two"}, Comparison: Rules{}.Compare([]Figure{
		{Name: "rate|x", Unit: "req/s", Pairs: inTurn(12, 0.9, 0.01)}, {Name: "p50", Unit: "µs", Pairs: inTurn(12, 1, 0.001)},
	})}
	const text = `VALID: of 2 figures, 0 worse, 1 better, 1 the same, 0 unclear
figure        A        B  B against A
rate|x  100.7/s  90.61/s  better: −10.0 % (−10.6 … −9.4), at least 9.4 %; p 0.001; 12 pairs
p50      101 µs   101 µs  same within 3 %: 0.0 % (−0.06 … +0.07)
note: one
note: two
`
	const markdown = `**VALID: of 2 figures, 0 worse, 1 better, 1 the same, 0 unclear**

| figure | A | B | B against A |
|---|--:|--:|---|
| CODErate\|xCODE | 100.7/s | 90.61/s | better: −10.0 % (−10.6 … −9.4), at least 9.4 %; p 0.001; 12 pairs |
| p50 | 101 µs | 101 µs | same within 3 %: 0.0 % (−0.06 … +0.07) |

- one

- two
`
	if got := written(r.Text); got != text {
		t.Errorf("it is\n%swant\n%s", got, text)
	}
	if got, want := written(r.Markdown), strings.ReplaceAll(markdown, "CODE", "`"); got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

// A side without values has no median, and one value is its own.
func TestMedians(t *testing.T) {
	for values, want := range map[[2]int][2]float64{{0, 0}: {0, 0}, {1, 1}: {1, 10}, {2, 3}: {1.5, 20}, {0, 1}: {0, 10}} {
		f := Figure{A: []float64{1, 2, 3}[:values[0]], B: []float64{10, 20, 30}[:values[1]]}
		c := Rules{}.Compare([]Figure{f}).Changes[0]
		for i, got := range []*float64{c.MedianA, c.MedianB} {
			if (got != nil) != (values[i] > 0) || got != nil && *got != want[i] {
				t.Errorf("%v values: side %d has the median %v, want %v", values, i, got, want[i])
			}
		}
	}
}

// written returns what a function writes.
func written(write func(io.Writer)) string {
	var b strings.Builder
	write(&b)
	return b.String()
}
