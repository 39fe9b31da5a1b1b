package report

import (
	"fmt"
	"slices"
	"strconv"
)

// Spread is what several rounds have shown of one figure.
type Spread struct {
	N                int // rounds; 0: nothing is known
	Median, Min, Max float64
}

// SpreadOf orders the values. The median of an even number of them is the middle
// of the two in the middle.
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

// Ratios compares round by round, so that a slow spell of the machine that met
// both sides of a round cancels out. A round that one side lacks is left out.
func Ratios(of, to map[int]float64) Spread {
	var ratios []float64
	for round, v := range of {
		if base := to[round]; base > 0 {
			ratios = append(ratios, v/base)
		}
	}
	return SpreadOf(ratios)
}

// String is the median with its range behind it, with three digits; a dash when
// nothing is known.
func (s Spread) String() string {
	switch {
	case s.N == 0:
		return "–"
	case s.N == 1:
		return digits(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", digits(s.Median), digits(s.Min), digits(s.Max))
}

// digits writes a figure with three digits that count, and no more behind the
// point than that takes.
func digits(v float64) string {
	places := 0
	for limit := 100.0; places < 4 && v < limit && v != 0; limit /= 10 {
		places++
	}
	return strconv.FormatFloat(v, 'f', min(places, 3), 64)
}
