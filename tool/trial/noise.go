package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Floors are by how much comparisons of a program with itself come out different
// by nothing but the machine: 95 of 100 differ by less.
type Floors struct {
	Pairs float64 // of as many pairs
	Apart float64 // of two runs with half of all the samples each
}

// rounds is how many comparisons are drawn.
const rounds = 2000

// FloorsOf draws them from pairs of the same program: in pairs who was first is
// arbitrary, so any choice of signs is as good a comparison as the one that was
// made; and so is any division of all samples into two halves. Values must be
// positive, a[i] and b[i] taken in turn.
func FloorsOf(a, b []float64, seed uint64) Floors {
	random := rand.New(rand.NewPCG(seed, 2))
	pairs, apart := make([]float64, rounds), make([]float64, rounds)
	signed := make([]float64, len(a))
	all := slices.Concat(a, b)
	for r := range rounds {
		for i := range signed {
			signed[i] = math.Log(b[i] / a[i])
			if random.Uint64()&1 != 0 {
				signed[i] = -signed[i]
			}
		}
		pairs[r] = math.Abs(math.Expm1(median(signed)))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		apart[r] = math.Abs(median(all[:len(a)])/median(all[len(a):]) - 1)
	}
	return Floors{Pairs: p95(pairs), Apart: p95(apart)}
}

func p95(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)*95/100]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
