package figure

import (
	"strings"
	"testing"
	"time"
)

// Figures have three significant digits and the largest unit with some before the point.
func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Micros(0.1234), "0.12 µs"}, {Micros(999), "999 µs"}, {Micros(1000), "1.00 ms"}, {Micros(71_000), "71.0 ms"}, {Micros(2.5e6), "2.50 s"},
		{Grouped(0), "0"}, {Grouped(999), "999"}, {Grouped(1000), "1,000"}, {Grouped(1234567), "1,234,567"},
		{Rate(0.25), "0.25"}, {Rate(1500), "1,500"}, {Number(12.3456), "12.35"}, {Number(-12345), "-12,345"},
		{Digits(0.00123), "0.0012"}, {Digits(12.345), "12.3"}, {Times(1.5), "1.50 ×"}, {Times(1234), "1,234 ×"},
		{Counted(1, "sample"), "1 sample"}, {Counted(0, "sample"), "0 samples"},
		{Lasting(59600 * time.Millisecond), "1 min 00 s"}, {Lasting(-time.Second), "0 s"}, {Lasting(2*time.Hour + 5*time.Minute), "2 h 05 min"},
		{OrNone(nil, Micros), "–"}, {Size(64 << 10), "64KiB"}, {Size(65), "65B"},
		{In(34.04, "µs/req"), "34.0 µs/req"}, {In(1500, "µs"), "1.50 ms"}, {In(232<<20, "B"), "232 MiB"}, {In(1536, "B"), "1.50 KiB"}, {In(12, "B"), "12.0 B"},
		{In(14790, "req/s"), "14,790/s"}, {In(1.234e-6, "sec/op"), "1.23 µs/op"}, {In(12.3e-9, "sec/op"), "12.3 ns/op"}, {In(12_595, "ns/op"), "12.6 µs/op"}, {In(1234567, "B/op"), "1,234,567 B/op"}, {In(2, ""), "2"}, {Name("p999"), "p99.9"}, {Name("p99"), "p99"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// ParseSize reads what Size writes, and refuses what would overflow.
func TestSizes(t *testing.T) {
	for _, n := range []int{0, 1, 512, 64 << 10, 3 << 20, 1 << 30} {
		if got, err := ParseSize(Size(n)); err != nil || got != n {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "-1", "2GiB", "64 KiB", "1e3", "99999999999"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, n)
		}
	}
}

// The first line gives the validity.
func TestWriteValidity(t *testing.T) {
	var b strings.Builder
	WriteValidity(&b, false, []string{"one", "two"})
	if b.String() != "INVALID: one\n         two\n" {
		t.Errorf("%q", b.String())
	}
}
