package page

import (
	"math"
	"strconv"
)

// number is a figure for the page: five significant digits, and null for NaN.
type number float64

// MarshalJSON rounds and encodes it.
func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return []byte("null"), nil
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(nil, v, 'f', 0, 64), nil
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // cannot fail: FormatFloat wrote it
	return strconv.AppendFloat(nil, rounded, 'f', -1, 64), nil
}

// numbers drops values that are not finite.
func numbers(of map[string]float64) map[string]number {
	all := make(map[string]number, len(of))
	for key, v := range of {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			all[key] = number(v)
		}
	}
	return all
}
