package spec

import (
	"errors"
	"strconv"
	"strings"
)

// Percent is a part of 1, given as 2% or 0.02.
type Percent float64

// Set takes the part.
func (f *Percent) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 10) {
		return errors.New("no part of the whole; write it as in 2% or 0.02")
	}
	*f = Percent(v)
	return nil
}

// String returns it in percent.
func (f *Percent) String() string {
	return strconv.FormatFloat(100*float64(*f), 'g', -1, 64) + "%"
}

// Type is how help names the value.
func (f *Percent) Type() string { return "PERCENT" }
