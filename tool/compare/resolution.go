package compare

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// hiddenStep returns the step of the values if a side varies by less than that, so that
// rounding may hide a difference; else 0. The step is the largest power of ten, at most
// 1, of which all values are multiples in decimal notation, with 12 digits: further
// digits come from unit conversion.
func hiddenStep(a, b []float64) float64 {
	_, varA := moments(a)
	_, varB := moments(b)
	step := 1.0
	for _, v := range slices.Concat(a, b) {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
		_, after, _ := strings.Cut(strconv.FormatFloat(rounded, 'f', -1, 64), ".")
		if step = min(step, math.Pow10(-len(after))); min(varA, varB) >= step*step {
			return 0
		}
	}
	return step
}
