package number

import "testing"

func TestNumber(t *testing.T) {
	for text, want := range map[string]uint64{"0.0": 0, "1.0": 1 << 16, "12.7": 12<<16 | 7, "281474976710655.65535": 1<<64 - 1} {
		got, err := Parse(text)
		if err != nil || got != want || Format(want) != text {
			t.Errorf("%s: %d, %v, written as %s; want %d", text, got, err, Format(want), want)
		}
	}
	if got, err := Parse("12"); err != nil || got != 12<<16 {
		t.Errorf("12: %d, %v", got, err)
	}
	for _, text := range []string{"", ".1", "-1.0", "1.65536", "281474976710656.0", "1.0.0", "first"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
