package history

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hone-go/hone/tool/figure"
)

const (
	// Level is the probability that one look at a history without a change shows one, over all its
	// figures. Whoever looks after each of its first 100 runs sees one in fewer than 5 of 100 such
	// histories.
	Level = 0.002

	fewest    = 3   // runs on either side of a change
	beyond    = 10  // permutations that may reach the statistic: their number is beyond/level
	loneShare = 0.8 // of the level, for single changes
	clipped   = 4   // deviations from the median beyond which a run counts no more
)

// Changes returns the index of the first run after each change of the level of values, which are in
// the order of time. In a series whose values could have come in any order it finds one with at most
// the probability level.
//
// The statistic is the largest difference between the mean of neighbouring runs and the mean of all
// others (as in circular binary segmentation, Olshen and others, 2004), and its distribution is that
// of random orders of the same values. So the rate of false alarms needs no assumption about the
// noise except that runs are independent. A run far outside counts only a little. A search for one
// change among n runs takes 10 n/level operations, one for two changes n times as many.
//
// Random orders cannot tell a change with few runs after it from chance, however large it is: plain can.
// Exact values are counts, which noise does not change.
func Changes(values []float64, level float64, exact bool) []int {
	s := &search{values: scaled(values), raw: logs(values), exact: exact, level: level, random: rand.New(rand.NewPCG(1, uint64(len(values))))}
	s.split(0, len(values))
	slices.Sort(s.cuts)
	return s.cuts
}

// scaled returns logarithms, if all values have one, with those far outside pulled in.
func scaled(values []float64) []float64 {
	out := logs(values)
	middle := figure.Median(out)
	off := make([]float64, len(out))
	for i, v := range out {
		off[i] = math.Abs(v - middle)
	}
	if far := clipped * 1.4826 * figure.Median(off); far > 0 { // 0: most are equal, and a difference is rare
		for i, v := range out {
			out[i] = min(max(v, middle-far), middle+far)
		}
	}
	return out
}

// logs returns logarithms, if all values have one.
func logs(values []float64) []float64 {
	out := slices.Clone(values)
	if !slices.ContainsFunc(out, func(v float64) bool { return v <= 0 }) {
		for i, v := range out {
			out[i] = math.Log(v)
		}
	}
	return out
}

// search looks for changes.
type search struct {
	values []float64
	raw    []float64 // not pulled in
	exact  bool
	level  float64
	random *rand.Rand
	cuts   []int
}

// split looks for changes from one index up to another, and then between those found: for one change,
// or else for an arc, whose runs differ from those before and after it.
func (s *search) split(from, to int) {
	if cut := s.plain(from, to); cut > 0 {
		s.split(from, cut)
		s.cuts = append(s.cuts, cut)
		s.split(cut, to)
		return
	}
	part := centred(s.values[from:to])
	found := lone(part)
	if !s.rare(part, found, lone, loneShare*s.level) {
		if found = arced(part); !s.rare(part, found, arced, (1-loneShare)*s.level) {
			return
		}
	}
	at := from
	for _, cut := range []int{found.from, found.to, len(part)} {
		if cut += from; cut > at {
			s.split(at, cut)
			if cut < to {
				s.cuts = append(s.cuts, cut)
			}
			at = cut
		}
	}
}

// Runs on the longer side of a plain change, on its shorter side, and how many times what the longer
// side's runs differ by, but at least by a hundredth, lies between the sides. Three runs in a row that are so
// far away from all others are no chance, even if one run in ten takes three times as long.
var plainly = []struct {
	longer, shorter int
	times           float64
}{{8, 3, 2}, {20, 2, 5}}

// plain returns the index of a change that needs no statistics; 0: there is none. Of exact values that were
// all equal a single other one is a change.
func (s *search) plain(from, to int) (cut int) {
	largest := 0.0
	for at := from + 1; at < to; at++ {
		a, b := s.raw[from:at], s.raw[at:to]
		if len(a) < len(b) {
			a, b = b, a
		}
		gap := max(slices.Min(b)-slices.Max(a), slices.Min(a)-slices.Max(b))
		spread := slices.Max(a) - slices.Min(a)
		found := s.exact && len(a) >= plainly[0].longer && spread == 0
		for _, p := range plainly {
			found = found || len(a) >= p.longer && len(b) >= p.shorter && gap >= p.times*max(spread, 0.01)
		}
		if found && gap > largest {
			cut, largest = at, gap
		}
	}
	return cut
}

// rare reports whether random orders of the values have an arc as large with at most the probability
// level.
func (s *search) rare(part []float64, found arc, largest func([]float64) arc, level float64) bool {
	if found.size == 0 {
		return false
	}
	shuffled, reached := slices.Clone(part), 0
	for range int(math.Ceil(beyond/level)) - 1 {
		s.random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if largest(shuffled).size >= found.size*(1-1e-12) {
			if reached++; reached == beyond {
				return false
			}
		}
	}
	return true
}

// arc is a range of runs and by how much their mean differs from that of all others, squared, in units
// of its variance. A size of 0 means that there is none.
type arc struct {
	from, to int
	size     float64
}

func centred(values []float64) []float64 {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v - mean
	}
	return out
}

// lone returns the largest arc that begins with the first of values, whose mean is 0.
func lone(values []float64) (largest arc) {
	n, sum := len(values), 0.0
	for i, v := range values {
		sum += v
		if to := i + 1; to >= fewest && to <= n-fewest {
			if size := sum * sum * float64(n) / float64(to*(n-to)); size > largest.size {
				largest = arc{0, to, size}
			}
		}
	}
	return largest
}

// arced returns the largest arc with at least the fewest runs before and after it.
func arced(values []float64) (largest arc) {
	n := len(values)
	sums := make([]float64, n+1)
	for i, v := range values {
		sums[i+1] = sums[i] + v
	}
	for length := fewest; length <= n-2*fewest; length++ {
		weight := float64(n) / float64(length*(n-length))
		for from := fewest; from+length <= n-fewest; from++ {
			difference := sums[from+length] - sums[from]
			if size := difference * difference * weight; size > largest.size {
				largest = arc{from, from + length, size}
			}
		}
	}
	return largest
}
