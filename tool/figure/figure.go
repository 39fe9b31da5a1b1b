// Package figure formats numbers for people: three significant digits, with their unit.
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

// Name returns the name under which people know a figure that is stored as name.
func Name(name string) string {
	if name == "p999" {
		return "p99.9"
	}
	return name
}

// Of returns the name with the unit where one benchmark has several figures: Join ns/op.
func Of(name, unit string) string {
	if strings.HasSuffix(unit, "/op") && !strings.HasSuffix(name, unit) {
		return name + " " + unit
	}
	return Name(name)
}

// Counted formats a count of things whose plural ends in s.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Quoted quotes a word for a shell where it needs it.
func Quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-,:@%+="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// sizeUnits lists the units of sizes, the largest first.
func sizeUnits() []struct {
	name  string
	bytes int
} {
	return []struct {
		name  string
		bytes int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// ParseSize parses a whole number of bytes, KiB, MiB or GiB.
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
		return 0, fmt.Errorf("%q is not a size; write it as in 512, 64KiB or 1MiB", text)
	}
	return int(n) * factor, nil
}

// Size formats n in the largest unit that divides it.
func Size(n int) string {
	for _, unit := range sizeUnits() {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.Itoa(n/unit.bytes) + unit.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// Rate formats a number per second with at most two decimals.
func Rate(rate float64) string {
	if rate >= 100 || rate == math.Trunc(rate) {
		return Grouped(rate)
	}
	return strconv.FormatFloat(rate, 'g', 2, 64)
}

// WriteValidity writes the line that begins a result: VALID, with what says how far, or INVALID with
// the reasons.
func WriteValidity(w io.Writer, valid bool, reasons []string, bounds ...string) {
	if valid {
		line := "VALID: the figures are the server's, not the generator's"
		if bound := strings.Join(bounds, "; "); bound != "" {
			line += " (" + bound + ")"
		}
		fmt.Fprintln(w, line)
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

// OrNone formats a figure, or a dash for a missing one.
func OrNone(v *float64, format func(float64) string) string {
	if v == nil {
		return "–"
	}
	return format(*v)
}

// Micros formats microseconds with three significant digits.
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

// decimals returns how many decimals make three significant digits.
func decimals(v float64) int {
	switch {
	case v < 10:
		return 2
	case v < 100:
		return 1
	}
	return 0
}

// Grouped formats a whole number with commas between the thousands.
func Grouped(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Digits formats a number with three significant digits.
func Digits(v float64) string {
	if math.Abs(v) < 0.01 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals(math.Abs(v)), 64)
}

// Times formats a ratio with three significant digits.
func Times(ratio float64) string {
	if ratio >= 100 {
		return Grouped(ratio) + " ×"
	}
	return strconv.FormatFloat(ratio, 'f', decimals(ratio), 64) + " ×"
}

// Median returns the median; NaN if there are no values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Bytes formats a size with three significant digits.
func Bytes(n float64) string {
	for _, unit := range sizeUnits() {
		if size := float64(unit.bytes); math.Abs(n) >= size {
			return Digits(n/size) + " " + unit.name
		}
	}
	return Digits(n) + " B"
}

// In formats a value with its unit: times, sizes and rates as everywhere, others with at least
// four digits.
func In(v float64, unit string) string {
	switch time, per, found := strings.Cut(unit, "/"); {
	case time == "µs" && found:
		return Micros(v) + "/" + per
	case time == "µs":
		return Micros(v)
	case unit == "sec/op":
		return In(1e9*v, "ns/op")
	case unit == "ns/op" && v >= 1000:
		return Micros(v/1e3) + "/op"
	case unit == "ns/op":
		return Digits(v) + " ns/op"
	case unit == "req/s":
		return Number(v) + "/s"
	case unit == "B":
		return Bytes(v)
	}
	return strings.TrimSuffix(Number(v)+" "+unit, " ")
}

// Number formats a figure with at least four digits.
func Number(v float64) string {
	if math.Abs(v) >= 1000 {
		return Grouped(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Time formats a duration with three significant digits.
func Time(d time.Duration) string { return Micros(float64(d) / 1e3) }

// Lasting formats a duration in whole seconds.
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
