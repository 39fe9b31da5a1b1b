package spec

import (
	"errors"
	"strconv"
	"strings"
)

// Percent is a fraction, written as 2% or 0.02.
type Percent float64

// Set parses the fraction.
func (f *Percent) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 10) {
		return errors.New("not a percentage; write it as in 2% or 0.02")
	}
	*f = Percent(v)
	return nil
}

// String formats the fraction in percent.
func (f *Percent) String() string {
	return strconv.FormatFloat(100*float64(*f), 'g', -1, 64) + "%"
}

// Type returns the value's name in help texts.
func (f *Percent) Type() string { return "PERCENT" }
