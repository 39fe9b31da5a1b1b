// Package figure writes numbers for people: three digits that matter, with their unit.
package figure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Counted counts things whose plural takes an s.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// sizeUnits are the units of sizes, the largest first.
func sizeUnits() []struct {
	name  string
	bytes int
} {
	return []struct {
		name  string
		bytes int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// ParseSize reads a whole number of bytes, KiB, MiB or GiB.
func ParseSize(text string) (int, error) {
	number, factor := text, 1
	for _, unit := range sizeUnits() {
		if bare, ok := strings.CutSuffix(text, unit.name); ok {
			number, factor = bare, unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n > uint64(math.MaxInt32/factor) {
		return 0, fmt.Errorf("%q is no size; write it as in 512, 64KiB or 1MiB", text)
	}
	return int(n) * factor, nil
}

// Size writes n in the largest unit that leaves it whole.
func Size(n int) string {
	for _, unit := range sizeUnits() {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.Itoa(n/unit.bytes) + unit.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// Rate writes a number a second with the digits that it has, two at most behind
// the point.
func Rate(rate float64) string {
	if rate >= 100 || rate == math.Trunc(rate) {
		return Grouped(rate)
	}
	return strconv.FormatFloat(rate, 'g', 2, 64)
}

// WriteValidity says first what the figures are worth.
func WriteValidity(w io.Writer, valid bool, reasons []string) {
	if valid {
		fmt.Fprintln(w, "VALID: the figures are the server's, not the generator's")
		return
	}
	for i, reason := range reasons {
		if i == 0 {
			fmt.Fprintln(w, "INVALID:", reason)
			continue
		}
		fmt.Fprintln(w, "         "+reason)
	}
}

// OrNone writes a figure, or that there is none.
func OrNone(v *float64, format func(float64) string) string {
	if v == nil {
		return "–"
	}
	return format(*v)
}

// Micros writes microseconds with three digits that matter.
func Micros(us float64) string {
	unit := "µs"
	switch {
	case us >= 1e6:
		us, unit = us/1e6, "s"
	case us >= 1e3:
		us, unit = us/1e3, "ms"
	}
	return strconv.FormatFloat(us, 'f', decimals(us), 64) + " " + unit
}

// decimals is how many digits behind the point make three.
func decimals(v float64) int {
	switch {
	case v < 10:
		return 2
	case v < 100:
		return 1
	}
	return 0
}

// Grouped writes a whole number with commas between the thousands.
func Grouped(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Digits writes a number with three digits that matter.
func Digits(v float64) string {
	if math.Abs(v) < 0.01 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals(math.Abs(v)), 64)
}

// Times writes a ratio with three digits that matter.
func Times(ratio float64) string {
	if ratio >= 100 {
		return Grouped(ratio) + " ×"
	}
	return strconv.FormatFloat(ratio, 'f', decimals(ratio), 64) + " ×"
}

// Median is the middle one of values, or between the two in the middle; NaN: there are none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Number is a figure with four digits at least.
func Number(v float64) string {
	if math.Abs(v) >= 1000 {
		return Grouped(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Lasting writes a time for people, in whole seconds.
func Lasting(d time.Duration) string {
	seconds := int64(max(d, 0).Round(time.Second) / time.Second)
	two := func(v int64) string {
		if v < 10 {
			return "0" + strconv.FormatInt(v, 10)
		}
		return strconv.FormatInt(v, 10)
	}
	switch {
	case seconds < 60:
		return strconv.FormatInt(seconds, 10) + " s"
	case seconds < 3600:
		return strconv.FormatInt(seconds/60, 10) + " min " + two(seconds%60) + " s"
	}
	return strconv.FormatInt(seconds/3600, 10) + " h " + two(seconds/60%60) + " min"
}
