package compare

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// hiddenStep is the step of values of which a side varies by less than that, so that
// a difference may hide in what was rounded off; 0: there is none. The step is the
// largest power of ten, at most 1, of which all values are multiples as they are
// written in decimals, with 12 digits: what a change of units adds to the others was
// not measured.
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
