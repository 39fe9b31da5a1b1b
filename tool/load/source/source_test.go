package source

import (
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"127.0.0.1":                       {"127.0.0.1"},
		"127.0.0.1-127.0.0.3":             {"127.0.0.1", "127.0.0.2", "127.0.0.3"},
		"127.0.0.254-127.0.1.1":           {"127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"},
		"10.0.0.0/30":                     {"10.0.0.1", "10.0.0.2"},
		"10.0.0.3/30":                     {"10.0.0.1", "10.0.0.2"},
		"10.0.0.4/31":                     {"10.0.0.4", "10.0.0.5"},
		"10.0.0.4/32":                     {"10.0.0.4"},
		"::1":                             {"::1"},
		"fe80::ffff-fe80::1:1":            {"fe80::ffff", "fe80::1:0", "fe80::1:1"},
		"2001:db8::/127":                  {"2001:db8::", "2001:db8::1"},
		"10.0.0.9,10.0.0.5-10.0.0.6, ::1": {"10.0.0.9", "10.0.0.5", "10.0.0.6", "::1"},
		"255.255.255.254-255.255.255.255": {"255.255.255.254", "255.255.255.255"},
	} {
		var a Addresses
		if err := a.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for n := range uint64(2 * len(want)) {
			got = append(got, a.At(n).String())
		}
		if a.Len() != len(want) || !slices.Equal(got, slices.Concat(want, want)) {
			t.Errorf("%q: %d, %q, want %q twice", text, a.Len(), got, want)
		}
		if a.String() != text {
			t.Errorf("%q is written as %q", text, a)
		}
	}
	var none Addresses
	if none.Len() != 0 || none.String() != "" {
		t.Errorf("the zero addresses are %d: %q", none.Len(), none)
	}
}

func TestAddressesRefused(t *testing.T) {
	for text, says := range map[string]string{
		"": "127.0.0.1-127.0.0.20", "here": "127.0.0.1-127.0.0.20", "127.0.0.1,": "127.0.0.1-127.0.0.20",
		"127.0.0.3-127.0.0.1": "a higher address", "127.0.0.3-::1": "a higher address", "127.0.0.1-": "a higher address",
		"10.0.0.0/33": "10.0.0.0/28", "10.0.0.0/7": "16777216 at most", "::/64": "16777216 at most", "::-ffff::": "16777216 at most",
		"10.0.0.0/8,11.0.0.0/8": "16777216 at most",
	} {
		var a Addresses
		err := a.UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%q was taken", text)
		} else if line := err.Error(); !strings.Contains(line, says) || !strings.HasPrefix(line, "load: there are no source addresses ") || a.Len() != 0 {
			t.Errorf("%q: %q, want %q in it", text, line, says)
		}
	}
}

func FuzzAddresses(f *testing.F) {
	for _, text := range []string{"127.0.0.1-127.0.0.20", "10.0.0.0/28", "::1,fe80::1%eth0-fe80::5%eth0", "::ffff:1.2.3.4-::ffff:1.2.4.4"} {
		f.Add(text, uint64(3))
	}
	f.Fuzz(func(t *testing.T, text string, n uint64) {
		var a Addresses
		if a.UnmarshalText([]byte(text)) != nil {
			return
		}
		if a.Len() < 1 || a.Len() > most || !a.At(n).IsValid() || a.At(n) != a.At(n%uint64(a.Len())) {
			t.Fatalf("%q: %d addresses, the %d-th is %v", text, a.Len(), n, a.At(n))
		}
		if next := a.At(n + 1); a.Len() > 1 && next == a.At(n) && !strings.Contains(text, ",") {
			t.Fatalf("%q: %v twice", text, next)
		}
	})
}
