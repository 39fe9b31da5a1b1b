package compare

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// mostExact is up to how many pairs all ways to exchange A and B are tried; of
// more, as many at random.
const mostExact = 20

// signFlip is how often the sum of the values, each with its sign or the other one,
// is at least as far from zero as it is. If A and B are the same thing, each sign
// could as well have been the other: that is all it assumes.
func signFlip(values []float64) float64 {
	sum, size := 0.0, 0.0
	for _, v := range values {
		sum += v
		size += math.Abs(v)
	}
	far := math.Abs(sum) - 1e-9*size // the same sum in another order is not less
	if n := len(values); n > mostExact {
		return sampledFlips(values, far)
	}
	count, flipped := 0, sum
	signs := uint(0)
	for i := uint(0); ; {
		if math.Abs(flipped) >= far {
			count++
		}
		if i++; i == 1<<len(values) {
			break
		}
		at := bits.TrailingZeros(i) // the only sign that changes, in the order of Gray
		v := 2 * values[at]
		if signs ^= 1 << at; signs&(1<<at) != 0 {
			v = -v
		}
		flipped += v
	}
	return math.Ldexp(float64(count), -len(values))
}

// sampledFlips is signFlip by a sample that is the same every time.
func sampledFlips(values []float64, far float64) float64 {
	const flips = 1 << 16
	r := rand.New(rand.NewPCG(1, uint64(len(values))))
	count := 1
	for range flips {
		sum := 0.0
		for i := 0; i < len(values); i += 64 {
			coins := r.Uint64()
			for _, v := range values[i:min(i+64, len(values))] {
				if coins&1 != 0 {
					v = -v
				}
				coins >>= 1
				sum += v
			}
		}
		if math.Abs(sum) >= far {
			count++
		}
	}
	return float64(count) / (flips + 1)
}

// hodgesLehmann is the median of the means of all two values, and the interval of
// those means that a signed-rank test at alpha does not rule out; of too few values
// there is none.
func hodgesLehmann(values []float64, alpha float64) (center, low, high float64, bounded bool) {
	var means []float64
	for i, v := range values {
		for _, w := range values[i:] {
			means = append(means, (v+w)/2)
		}
	}
	slices.Sort(means)
	out := signedRankBelow(len(values), alpha/2)
	if out < 0 {
		return median(means), 0, 0, false
	}
	return median(means), means[out], means[len(means)-1-out], true
}

// signedRankBelow is the largest w with P(W <= w) <= p, for the sum W of the
// positive ranks of n values; -1: there is none.
func signedRankBelow(n int, p float64) int {
	ways := make([]float64, n*(n+1)/2+1) // that so many of all subsets of ranks sum up to
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := len(ways) - 1; sum >= 0; sum-- {
			ways[sum] /= 2
			if sum >= rank {
				ways[sum] += ways[sum-rank] / 2
			}
		}
	}
	below := 0.0
	for w, part := range ways {
		if below += part; below > p {
			return w - 1
		}
	}
	return len(ways) - 1
}

// choose is the number of ways to choose k of n.
func choose(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways = ways * float64(n-i) / float64(i+1)
	}
	return math.Round(ways)
}

// median does not change values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
