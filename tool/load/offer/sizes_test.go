package offer

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// momentsSum and sizesSum are of what the tests have asked for.
const (
	momentsSum = 0xa261cdbc8c900605
	sizesSum   = 0x39c28cc3a69434f4
)

func readSizes(tb testing.TB, text string) Sizes {
	tb.Helper()
	var s Sizes
	if err := s.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return s
}

// drawn are the sizes of the first n requests.
func drawn(s Sizes, seed uint64, n int) []float64 {
	sizes := make([]float64, n)
	for i := range sizes {
		sizes[i] = float64(s.At(seed, uint64(i)))
	}
	return sizes
}

func meanOf(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}

func TestSizesAreSpreadAsSaid(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		text            string
		least, most     int
		mean, deviation float64 // 0: not looked at
		median          float64
	}{
		{"uniform:16..1024", 16, 1024, 520, 291.3, 520},
		{"uniform:7..7", 7, 7, 7, 0, 7},
		{"lognormal:300,0.5", 41, 2217, 300 * math.Exp(0.125), 0, 300},
		{"lognormal:300,1.2", 2, 36453, 0, 0, 300},
	} {
		s := readSizes(t, c.text)
		if s.String() != c.text || s.None() {
			t.Errorf("%q is written as %q", c.text, s)
		}
		if least, most := s.Bounds(); least != c.least || most != c.most {
			t.Errorf("%s: %d to %d, want %d to %d", c.text, least, most, c.least, c.most)
		}
		sizes := drawn(s, 1, n)
		slices.Sort(sizes)
		if sizes[0] < float64(c.least) || sizes[n-1] > float64(c.most) {
			t.Errorf("%s: from %v to %v", c.text, sizes[0], sizes[n-1])
		}
		mean, deviation := meanOf(sizes)
		if c.mean > 0 && math.Abs(mean-c.mean) > 0.02*c.mean || c.deviation > 0 && math.Abs(deviation-c.deviation) > 0.02*c.deviation {
			t.Errorf("%s: mean %.2f, deviation %.2f, want %.2f and %.2f", c.text, mean, deviation, c.mean, c.deviation)
		}
		if math.Abs(sizes[n/2]-c.median) > max(1, 0.02*c.median) {
			t.Errorf("%s: median %v, want %v", c.text, sizes[n/2], c.median)
		}
	}
}

func TestSizesFromAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sizes.txt")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("100\n\n 200 \r\n4000")
	s := readSizes(t, "file:@"+name)
	if least, most := s.Bounds(); least != 100 || most != 4000 {
		t.Errorf("%d to %d", least, most)
	}
	counts := map[float64]int{}
	for _, size := range drawn(s, 3, 30_000) {
		counts[size]++
	}
	if len(counts) != 3 || counts[100] < 9700 || counts[200] < 9700 || counts[4000] < 9700 {
		t.Errorf("drew %v", counts)
	}
	for text, says := range map[string]string{"": "is empty", "1\ntwo\n": "line 2", "99999999999\n": "line 1", "-1": "line 1"} {
		write(text)
		refused(t, "file:@"+name, says)
	}
	refused(t, "file:@"+name+".none", "cannot be read")
	refused(t, "file:"+name, "file:@sizes.txt")
}

func refused(t *testing.T, text, says string) {
	t.Helper()
	var s Sizes
	err := s.UnmarshalText([]byte(text))
	if err == nil {
		t.Errorf("%q was taken", text)
	} else if line := err.Error(); !strings.Contains(line, says) || !strings.HasPrefix(line, "load: there are no sizes ") || !s.None() {
		t.Errorf("%q: %q, want %q in it", text, line, says)
	}
}

func TestSizesRefused(t *testing.T) {
	for text, says := range map[string]string{
		"": "write them as", "32": "write them as", "gamma:1,2": "write them as", "uniform:5": "LOW..HIGH", "uniform:5..x": "in digits",
		"uniform:9..5": "smaller one first", "uniform:0..99999999": "at most 16777216", "uniform:-5..5": "in digits", "lognormal:5": "two numbers",
		"lognormal:5,-1": "two numbers", "lognormal:NaN,1": "two numbers", "lognormal:1e300,1": "two numbers", "lognormal:5,99": "sigma of 20",
		"normal:512,128": "write them as", "zipf:1.1,9": "write them as",
	} {
		refused(t, text, says)
	}
}

// The same for the same seed on any machine, another for another seed; and nothing is
// allocated.
func TestSizesAreTheSameEverywhere(t *testing.T) {
	hash := fnv.New64a()
	for _, text := range []string{"uniform:16..1024", "lognormal:300,1.2"} {
		s := readSizes(t, text)
		differ := 0
		for n := range uint64(5000) {
			size := s.At(1, n)
			fmt.Fprintln(hash, size)
			if size != s.At(2, n) {
				differ++
			}
		}
		if differ < 2000 {
			t.Errorf("%s: of 5000 sizes %d differ with another seed", text, differ)
		}
		n := uint64(0)
		if allocated := testing.AllocsPerRun(1000, func() { n++; s.At(1, n) }); allocated != 0 {
			t.Errorf("%s: %v allocations for a size", text, allocated)
		}
	}
	if got, want := hash.Sum64(), uint64(sizesSum); got != want {
		t.Errorf("the sizes' sum is %#x, want %#x", got, want)
	}
}

func FuzzSizes(f *testing.F) {
	for _, text := range []string{"uniform:16..1024", "lognormal:300,1.2", "lognormal:0,20"} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if strings.HasPrefix(text, "file:") {
			return
		}
		var s Sizes
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		least, most := s.Bounds()
		for n := range uint64(50) {
			if size := s.At(seed, n); size < least || size > most || size < 0 || size > mostSize {
				t.Fatalf("%q: request %d has %d bytes, not %d to %d", text, n, size, least, most)
			}
		}
	})
}

func BenchmarkSizes(b *testing.B) {
	for _, text := range []string{"uniform:16..1024", "lognormal:300,1.2"} {
		s := readSizes(b, text)
		kind, _, _ := strings.Cut(text, ":")
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for n := uint64(0); b.Loop(); n++ {
				s.At(1, n)
			}
		})
	}
}
