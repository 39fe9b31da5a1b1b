package page

import (
	"math"
	"strconv"
)

// number is a figure on its way to the page: five digits that matter, and null
// where there is none.
type number float64

// MarshalJSON writes it.
func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return []byte("null"), nil
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(nil, v, 'f', 0, 64), nil
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // it was written by us
	return strconv.AppendFloat(nil, rounded, 'f', -1, 64), nil
}

// numbers leaves out everything but figures.
func numbers(of map[string]float64) map[string]number {
	all := make(map[string]number, len(of))
	for key, v := range of {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			all[key] = number(v)
		}
	}
	return all
}
