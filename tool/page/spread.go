package page

import (
	"math"
	"math/bits"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// spread is a histogram with 64 steps per doubling: its quantiles are within 1.1 %. It is
// small enough to have one per segment.
type spread struct {
	counts [octaves * fineSteps]int64
	total  int64
}

const (
	octaves   = 42 // from 1 ns to more than an hour
	fineSteps = 64
	wideSteps = 8 // of the heat map, per doubling
)

// take adds a histogram of nanoseconds. Its cost grows with the histogram's width: see
// BenchmarkSecond.
func (s *spread) take(h *hdrhistogram.Histogram) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	// The counts have HdrHistogram's layout: half a row of equal steps, then upper halves
	// of rows whose steps double in width. HdrHistogram's own iterators take ten times as
	// long.
	all := h.Export()
	half := 1 << (bits.Len64(uint64(2*math.Pow10(int(all.SignificantFigures))-1)) - 1)
	unit := uint(bits.Len64(uint64(max(1, all.LowestTrackableValue))) - 1)
	for i, n := range all.Counts {
		if n == 0 {
			continue
		}
		row, column := i/half-1, i%half+half
		if row < 0 {
			row, column = 0, i
		}
		s.counts[fineStep((float64(column)+0.5)*float64(uint64(1)<<(uint(row)+unit)))] += n
		s.total += n
	}
}

func (s *spread) add(other *spread) {
	for i, n := range other.counts {
		s.counts[i] += n
	}
	s.total += other.total
}

func fineStep(nanos float64) int {
	return min(max(0, int(math.Log2(max(1, nanos))*fineSteps)), octaves*fineSteps-1)
}

// micros returns the middle of a fine step.
func micros(step int) float64 { return math.Exp2((float64(step)+0.5)/fineSteps) / 1e3 }

// quantile returns the time that this share does not exceed, in microseconds; NaN if
// there are too few observations.
func (s *spread) quantile(part float64) float64 {
	if float64(s.total)*(1-part) < 1 && part < 1 || s.total == 0 {
		return math.NaN()
	}
	wanted := max(1, int64(math.Ceil(part*float64(s.total))))
	seen, last := int64(0), 0
	for step, n := range s.counts {
		if n > 0 {
			last = step
		}
		if seen += n; seen >= wanted {
			break
		}
	}
	return micros(last)
}

// wide returns the heat map's data: step, count, step, count…, without empty steps. Step
// n begins at 2^(n/8) ns.
func (s *spread) wide() []int64 {
	var pairs []int64
	const fold = fineSteps / wideSteps
	for step := range octaves * wideSteps {
		n := int64(0)
		for _, m := range s.counts[step*fold : (step+1)*fold] {
			n += m
		}
		if n > 0 {
			pairs = append(pairs, int64(step), n)
		}
	}
	return pairs
}

// curve returns times by quantile, with equal steps between 0.9, 0.99, 0.999…: pairs of
// 1/(1-quantile) and microseconds.
func (s *spread) curve() [][2]number {
	var points [][2]number
	if s.total == 0 {
		return points
	}
	step, seen := 0, s.counts[0]
	for i := 0; ; i++ {
		rarity := min(math.Pow(10, float64(i)/16), float64(s.total))
		wanted := s.total - int64(float64(s.total)/rarity)
		if rarity == float64(s.total) {
			wanted = s.total
		}
		for seen < max(1, wanted) {
			step++
			seen += s.counts[step]
		}
		points = append(points, [2]number{number(rarity), number(micros(step))})
		if wanted == s.total {
			return points
		}
	}
}
