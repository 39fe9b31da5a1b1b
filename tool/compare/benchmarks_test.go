package compare

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"

	"github.com/hone-go/hone/tool/figure"
)

// recorded returns ns/op of six benchmarks of package wire in 192 pairs of hone bench --go-test, A and B
// from the same source, on a machine with two CPUs that much else used.
func recorded(t *testing.T) map[string][][2]float64 {
	t.Helper()
	text, err := os.ReadFile("testdata/benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][][2]float64
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 6 {
		t.Fatalf("%d benchmarks: %v", len(all), err)
	}
	return all
}

// family draws 16 pairs in a row, and for each pair which of its two is A. The same pairs are drawn of all
// benchmarks, with their allocs/op.
func family(r *rand.Rand, all map[string][][2]float64) (figures []Figure) {
	const pairs = 16
	from := r.IntN(192 - pairs + 1)
	var swapped [pairs]bool
	for i := range swapped {
		swapped[i] = r.IntN(2) == 0
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		time, count := Figure{Name: name, Unit: "ns/op"}, Figure{Name: name, Unit: "allocs/op"}
		for i := range pairs {
			a, b := all[name][from+i][0], all[name][from+i][1]
			if swapped[i] {
				a, b = b, a
			}
			time.Pairs = append(time.Pairs, Pair{i + 1, a, b})
			count.Pairs = append(count.Pairs, Pair{i + 1, 2, 2})
		}
		figures = append(figures, time, count)
	}
	figures[0].Primary = true
	return figures
}

// TestBenchmarksWithoutADifference judges 100 families of recorded noise. At most 5 are expected to have a
// verdict that a difference exists, and more than 10 are rarer than 1 in 100. benchstat, which judges each
// figure by itself and not in pairs, is beside.
func TestBenchmarksWithoutADifference(t *testing.T) {
	t.Parallel()
	all, r := recorded(t), rand.New(rand.NewPCG(6, 6))
	wrong, others := 0, 0
	for range 100 {
		figures := family(r, all)
		c := Rules{}.Compare(figures)
		if slices.ContainsFunc(c.Changes, func(c Change) bool { return c.Verdict == Better || c.Verdict == Worse }) {
			wrong++
		}
		if slices.ContainsFunc(figures, func(f Figure) bool { return f.Unit == "ns/op" && benchstatDiffers(&f) }) {
			others++
		}
	}
	if wrong > 10 {
		t.Errorf("%d of 100 families without a difference have one", wrong)
	}
	t.Logf("%d of 100 families without a difference have one; by benchstat %d", wrong, others)
}

// TestBenchmarkThatIsSlower plants 5 % into one of the benchmarks, whose recorded noise is scaled to 2 % per
// pair.
func TestBenchmarkThatIsSlower(t *testing.T) {
	t.Parallel()
	all, r := recorded(t), rand.New(rand.NewPCG(7, 7))
	const families = 200
	found, others, elsewhere := 0, 0, 0
	for range families {
		figures := family(r, all)
		for i := range figures {
			if figures[i].Unit == "ns/op" {
				quieten(&figures[i])
			}
		}
		slower := &figures[2*r.IntN(6)]
		for i := range slower.Pairs {
			slower.Pairs[i].B *= 1.05
		}
		for i, c := range (Rules{}).Compare(figures).Changes {
			switch {
			case &figures[i] == slower && c.Verdict == Worse:
				found++
			case &figures[i] != slower && (c.Verdict == Better || c.Verdict == Worse):
				elsewhere++
			}
		}
		if benchstatDiffers(slower) {
			others++
		}
	}
	if found < families*19/20 || elsewhere > families/10 {
		t.Errorf("found in %d of %d, and %d differences elsewhere", found, families, elsewhere)
	}
	t.Logf("found in %d of %d, by benchstat %d; %d differences elsewhere", found, families, others, elsewhere)
}

// quieten scales the logarithms of the pairs' ratios to a deviation of 2 %. Pairs share what disturbs both: its
// spread from pair to pair is scaled alike.
func quieten(f *Figure) {
	ratios, levels := make([]float64, len(f.Pairs)), make([]float64, len(f.Pairs))
	for i, p := range f.Pairs {
		ratios[i], levels[i] = math.Log(p.B/p.A), math.Log(p.A*p.B)/2
	}
	middle := figure.Median(levels)
	squares := 0.0
	for _, v := range ratios {
		squares += v * v / float64(len(ratios))
	}
	scale := 0.02 / math.Sqrt(squares) // about 0, the true difference, and not about their mean
	for i := range f.Pairs {
		level, ratio := middle+scale*(levels[i]-middle), scale*ratios[i]
		f.Pairs[i].A, f.Pairs[i].B = math.Exp(level-ratio/2), math.Exp(level+ratio/2)
	}
}

func benchstatDiffers(f *Figure) bool {
	var a, b []float64
	for _, p := range f.Pairs {
		a, b = append(a, p.A), append(b, p.B)
	}
	th := &benchmath.DefaultThresholds
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, th), benchmath.NewSample(b, th))
	return c.P <= c.Alpha
}

// A count that every run agrees on is judged only if so many runs cannot agree by chance, among so many figures.
func TestCountsOfManyFigures(t *testing.T) {
	for n, want := range map[int]Verdict{5: Unclear, 6: Worse} {
		figures := make([]Figure, 40)
		for i := range figures {
			figures[i] = Figure{Name: "A", Unit: "B/op", Pairs: counts(n, 16, 32)}
		}
		if c := (Rules{}).Compare(figures).Changes[3]; c.Verdict != want || want == Worse && *c.P != 2*math.Pow(0.25, 6) {
			t.Errorf("%d pairs: %+v", n, c)
		}
	}
}
