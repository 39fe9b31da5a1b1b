package compare

import (
	"math"
	"slices"
	"sort"
)

// An estimate is the result of a test, at some level, of a difference of logarithms. The
// interval contains exactly those values that the test does not reject, so the two cannot
// disagree: low <= mu <= high where p(mu) > level, and nowhere else.
type estimate struct {
	center, low, high float64
	p                 func(mu float64) float64 // of the hypothesis that the true difference is mu
	method            Method
}

// Method is the statistical method of an interval.
type Method string

// The methods.
const (
	signedRank Method = "signed-rank" // Hodges–Lehmann estimate, Wilcoxon test
	studentT   Method = "t"           // mean, Student's test
	welch      Method = "welch"       // means of unpaired runs
)

// ranked reports whether n pairs are enough for the signed-rank test at level. The choice
// does not depend on measured values.
func ranked(n int, level float64) bool {
	return math.Ldexp(2, -n) <= level/4
}

// ofPairs estimates from the differences of at least two pairs.
func ofPairs(differences []float64, level float64) estimate {
	if ranked(len(differences), level) {
		return bySignedRank(differences, level)
	}
	n := float64(len(differences))
	mean, variance := moments(differences)
	return byStudent(mean, math.Sqrt(variance/n), n-1, level, studentT)
}

// center returns only the point estimate.
func center(differences []float64, method Method) float64 {
	if method == signedRank {
		return middle(walsh(differences))
	}
	mean, _ := moments(differences)
	return mean
}

// ofRuns estimates from the logarithms of unpaired runs, at least two per side.
func ofRuns(a, b []float64, level float64) estimate {
	na, nb := float64(len(a)), float64(len(b))
	meanA, varA := moments(a)
	meanB, varB := moments(b)
	ea, eb := varA/na, varB/nb
	df := na + nb - 2
	if ea+eb > 0 {
		df = (ea + eb) * (ea + eb) / (ea*ea/(na-1) + eb*eb/(nb-1))
	}
	return byStudent(meanB-meanA, math.Sqrt(ea+eb), df, level, welch)
}

// byStudent is an estimate whose error divided by deviation has Student's distribution.
func byStudent(center, deviation, df, level float64, method Method) estimate {
	half := tBound(level, df) * deviation
	return estimate{center, center - half, center + half, func(mu float64) float64 {
		if mu == center {
			return 1
		}
		return tBeyond(math.Abs(center-mu)/deviation, df)
	}, method}
}

// bySignedRank needs enough differences to reject anything at that level.
func bySignedRank(differences []float64, level float64) estimate {
	averages := walsh(differences)
	below := signedRankTable(len(differences))
	out := sort.Search(len(below), func(w int) bool { return 2*below[w] > level }) - 1
	return estimate{middle(averages), averages[out], averages[len(averages)-1-out], func(mu float64) float64 {
		first := sort.SearchFloat64s(averages, mu)
		past := sort.Search(len(averages), func(i int) bool { return averages[i] > mu })
		return min(1, 2*below[min(past, len(averages)-first)])
	}, signedRank}
}

// walsh returns the averages of all pairs of differences, including each with itself,
// sorted.
func walsh(differences []float64) []float64 {
	averages := make([]float64, 0, len(differences)*(len(differences)+1)/2)
	for i, v := range differences {
		for _, w := range differences[i:] {
			averages = append(averages, (v+w)/2)
		}
	}
	slices.Sort(averages)
	return averages
}

// signedRankTable returns P(W <= w) for each w, where W is the sum of the positive ranks
// of n differences with random signs.
func signedRankTable(n int) []float64 {
	below := make([]float64, n*(n+1)/2+1)
	below[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := rank * (rank + 1) / 2; sum >= 0; sum-- {
			below[sum] /= 2
			if sum >= rank {
				below[sum] += below[sum-rank] / 2
			}
		}
	}
	for w := 1; w < len(below); w++ {
		below[w] += below[w-1]
	}
	return below
}

// hull is the smallest interval that contains both: it rejects what both reject.
func (e estimate) hull(o estimate) estimate {
	p := e.p
	e.p = func(mu float64) float64 { return max(p(mu), o.p(mu)) }
	e.low, e.high = min(e.low, o.low), max(e.high, o.high)
	return e
}

// widened extends the interval by that much on both sides.
func (e estimate) widened(by float64) estimate {
	p, center := e.p, e.center
	e.p = func(mu float64) float64 { return p(min(max(center, mu-by), mu+by)) }
	e.low, e.high = e.low-by, e.high+by
	return e
}

// holds reports whether the interval contains mu.
func (e estimate) holds(mu float64) bool { return e.low <= mu && mu <= e.high }

// moments returns the mean and the variance.
func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean, variance
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
