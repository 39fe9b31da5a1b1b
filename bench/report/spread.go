package report

import (
	"fmt"
	"slices"
	"strconv"
)

// Spread is the distribution of one metric over several rounds.
type Spread struct {
	N                int // rounds; 0: no data
	Median, Min, Max float64
}

// SpreadOf returns the spread of values. The median of an even number of them is the mean of
// the two middle ones.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{len(sorted), median, sorted[0], sorted[len(sorted)-1]}
}

// Ratios returns ratios paired by round, so that noise that hits both sides of a round
// cancels out. It skips rounds that one side lacks.
func Ratios(of, to map[int]float64) Spread {
	var ratios []float64
	for round, v := range of {
		if base := to[round]; base > 0 {
			ratios = append(ratios, v/base)
		}
	}
	return SpreadOf(ratios)
}

// String formats the median and, in parentheses, the range, with three significant digits; a
// dash if there is no data.
func (s Spread) String() string {
	switch {
	case s.N == 0:
		return none
	case s.N == 1:
		return digits(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", digits(s.Median), digits(s.Min), digits(s.Max))
}

// digits formats a value with three significant digits, and no more decimals than that
// needs.
func digits(v float64) string {
	places := 0
	for limit := 100.0; places < 4 && v < limit && v != 0; limit /= 10 {
		places++
	}
	return strconv.FormatFloat(v, 'f', min(places, 3), 64)
}
