package history

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// noise returns runs with a relative deviation.
func noise(r *rand.Rand, n int, deviation float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = 100 * math.Exp(deviation*r.NormFloat64())
	}
	return values
}

func scale(values []float64, factor float64) {
	for i := range values {
		values[i] *= factor
	}
}

// times is how much larger simulations are with HONE_TEST_ALL.
func times(n int) int {
	if os.Getenv("HONE_TEST_ALL") != "" {
		return 5 * n
	}
	return n
}

// TestFalseAlarms draws histories of 100 runs without a change, with five kinds of noise.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	histories := times(100)
	found := 0
	for range histories {
		for _, values := range [][]float64{
			noise(r, 100, 0.02), noise(r, 100, 0.3), outliers(r, 100), whole(r, 100), skewed(r, 100),
		} {
			found += min(1, len(Changes(values, Level, false)))
		}
	}
	// Up to 5 % were allowed. Six deviations of what Level promises are fewer.
	if most := Level*float64(5*histories) + 6*math.Sqrt(Level*float64(5*histories)); float64(found) > most {
		t.Errorf("%d of %d histories without a change have one, want %.0f at most", found, 5*histories, most)
	}
	t.Logf("%d of %d histories without a change have one", found, 5*histories)
}

func outliers(r *rand.Rand, n int) []float64 {
	values := noise(r, n, 0.02)
	for i := range values {
		if r.IntN(10) == 0 {
			values[i] *= 3
		}
	}
	return values
}

// whole returns counts of which few differ.
func whole(r *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = 40 + float64(r.IntN(10)/9)
	}
	return values
}

func skewed(r *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = 100 * (1 + r.ExpFloat64())
	}
	return values
}

// TestFalseAlarmsOfWhoeverLooksAfterEachRun draws histories that are looked at after each of their
// first 100 runs.
func TestFalseAlarmsOfWhoeverLooksAfterEachRun(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	histories, found := testrun.Sized(40, 500), 0 // each is looked at 90 times
	for range histories {
		values := noise(r, 100, 0.02)
		for n := 2 * fewest; n <= len(values); n++ {
			if len(Changes(values[:n], Level, false)) > 0 {
				found++
				break
			}
		}
	}
	if most := 0.05*float64(histories) + 2*math.Sqrt(0.05*float64(histories)); float64(found) > most {
		t.Errorf("%d of %d, want 5 %% at most", found, histories)
	}
	t.Logf("%d of %d", found, histories)
}

// TestStepIsFound plants a step of 5 % into noise of 2 %, after 50 runs.
func TestStepIsFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	for _, c := range []struct {
		after int
		least float64
	}{{5, 0.75}, {8, 0.95}} {
		histories, found, near := times(100), 0, 0
		for range histories {
			values := noise(r, 50+c.after, 0.02)
			scale(values[50:], 1.05)
			if cuts := Changes(values, Level, false); len(cuts) > 0 {
				found++
				if last := cuts[len(cuts)-1]; last >= 49 && last <= 51 {
					near++
				}
			}
		}
		if float64(found) < c.least*float64(histories) || 10*near < 8*found {
			t.Errorf("%d runs after the step it is found in %d of %d histories, within a run in %d", c.after, found, histories, near)
		}
		t.Logf("%d runs after the step it is found in %d of %d histories, within a run in %d", c.after, found, histories, near)
	}
}

// TestPlainStepIsFound plants a step of 50 % into noise of 2 %, of which only three runs are known, or one of
// 50 % into noise of a half percent with two, in histories of six figures.
func TestPlainStepIsFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	for _, runs := range []int{16, 20, 30, 40} {
		for after, deviation := range map[int]float64{3: 0.02, 2: 0.005} {
			if runs < plainly[1].longer+after && after < 3 {
				continue
			}
			for _, factor := range []float64{1.5, 1 / 1.5} {
				for range 12 {
					values := noise(r, runs, deviation)
					scale(values[runs-after:], factor)
					if cuts := Changes(values, Level/6, false); !slices.Equal(cuts, []int{runs - after}) {
						t.Errorf("of %d runs, %d are × %.2f: found %v", runs, after, factor, cuts)
					}
				}
			}
		}
	}
}

// TestExactCountChangesAtOnce checks that one run is enough where all before agree, and not where they do not.
func TestExactCountChangesAtOnce(t *testing.T) {
	t.Parallel()
	values := slices.Repeat([]float64{12}, 20)
	for n := plainly[0].longer + 1; n <= 20; n++ {
		values[n-1] = 13
		if got := Changes(values[:n], Level, true); !slices.Equal(got, []int{n - 1}) {
			t.Errorf("after %d runs: %v", n-1, got)
		}
		if got := Changes(values[:n], Level, false); got != nil {
			t.Errorf("of a time, after %d runs: %v", n-1, got)
		}
		values[n-1] = 12
	}
	values[3], values[19] = 11, 13
	if got := Changes(values, Level, true); got != nil {
		t.Errorf("of counts that vary: %v", got)
	}
}

// TestPlainAlarms draws short histories without a change that are looked at after each run, where one run in
// ten or twenty takes three times as long, or times have two levels.
func TestPlainAlarms(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(r *rand.Rand) []float64{
		"noise": func(r *rand.Rand) []float64 { return noise(r, 60, 0.02) }, "much noise": func(r *rand.Rand) []float64 { return noise(r, 60, 0.2) },
		"outliers": func(r *rand.Rand) []float64 { return outliers(r, 60) }, "counts": func(r *rand.Rand) []float64 { return whole(r, 60) }, "skewed": func(r *rand.Rand) []float64 { return skewed(r, 60) },
		"two levels": func(r *rand.Rand) []float64 {
			values := noise(r, 60, 0.01)
			for i := range values {
				if r.IntN(3) == 0 {
					values[i] *= 1.3
				}
			}
			return values
		},
	} {
		histories, found, r := times(400), 0, rand.New(rand.NewPCG(10, 10)) // each its own, whatever the order is
		for range histories {
			s := &search{raw: logs(draw(r))}
			for n := 4; n <= len(s.raw); n++ {
				if s.plain(0, n) > 0 {
					found++
					break
				}
			}
		}
		if found > histories/30 {
			t.Errorf("%s: %d of %d", name, found, histories)
		}
		t.Logf("%s: %d of %d", name, found, histories)
	}
}

// TestStepAmongOutliers plants a step of 10 % where one run in ten takes three times as long.
func TestStepAmongOutliers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 8))
	found := 0
	for range 50 {
		values := outliers(r, 70)
		scale(values[50:], 1.1)
		if cuts := Changes(values, Level, false); len(cuts) > 0 && cuts[0] >= 45 && cuts[0] <= 55 {
			found++
		}
	}
	if found < 25 { // without clipping in none
		t.Errorf("found in %d of 50 histories", found)
	}
	t.Logf("found in %d of 50 histories", found)
}

// Several changes are all found, and nothing beside them.
func TestSeveralChanges(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 4))
	for name, c := range map[string]struct {
		levels []float64 // of 20 runs each
		want   []int
	}{
		"up and down":     {[]float64{1, 1.1, 1}, []int{20, 40}},
		"stairs":          {[]float64{1, 1.1, 1.2, 1.3}, []int{20, 40, 60}},
		"never":           {[]float64{1, 1, 1}, nil},
		"far down and up": {[]float64{1, 0.5, 1, 1.1}, []int{20, 40, 60}},
	} {
		var values []float64
		for _, level := range c.levels {
			part := noise(r, 20, 0.01)
			scale(part, level)
			values = append(values, part...)
		}
		if got := Changes(values, Level, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Counts without noise change where they change, zeros included, and short histories never.
func TestCounts(t *testing.T) {
	t.Parallel()
	values := make([]float64, 30)
	for i := 22; i < 30; i++ {
		values[i] = 1
	}
	if got := Changes(values, Level, false); !slices.Equal(got, []int{22}) {
		t.Errorf("%v", got)
	}
	for n := range plainly[0].longer + plainly[0].shorter {
		half := make([]float64, n)
		for i := range n / 2 {
			half[i] = 1
		}
		if got := Changes(half, Level, false); got != nil {
			t.Errorf("%d runs: %v", n, got)
		}
	}
	if got := Changes([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, Level, false); got != nil {
		t.Errorf("constant: %v", got)
	}
}
