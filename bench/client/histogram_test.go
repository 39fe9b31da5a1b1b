package client

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQuantiles compares with the sorted values.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 20_000; n = n*3/2 + 1 {
		var h, half histogram
		var values []float64
		for i := range n {
			ns := int64(math.Exp(random.Float64() * 25)) // up to 72 s
			values = append(values, float64(ns)/1e3)
			if i%2 == 0 {
				h.add(ns)
			} else {
				half.add(ns)
			}
		}
		h.merge(&half)
		slices.Sort(values)
		for _, q := range []struct{ parts, whole uint64 }{{1, 2}, {99, 100}, {999, 1000}} {
			got := h.quantile(q.parts, q.whole)
			if few := uint64(n)*(q.whole-q.parts) < q.whole; few || got == nil {
				if few != (got == nil) {
					t.Errorf("%d of %d in %d values: %v", q.parts, q.whole, n, got)
				}
				continue
			}
			want := values[(uint64(n)*q.parts+q.whole-1)/q.whole-1]
			if math.Abs(*got-want) > 0.008*want+1e-9 {
				t.Errorf("%d of %d in %d values: %v, not %v", q.parts, q.whole, n, *got, want)
			}
		}
	}
}

func TestEdgesOfAHistogram(t *testing.T) {
	for _, ns := range []int64{math.MinInt64, -1, 0, 1, 127, 128, 129, math.MaxInt64} {
		var h histogram
		h.add(ns)
		h.add(ns)
		got, want := h.quantile(1, 2), max(0, float64(ns))/1e3
		if got == nil || math.Abs(*got-want) > 0.008*want {
			t.Errorf("%d ns: %v, not %v µs", ns, got, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	var h histogram
	ns := int64(1)
	for b.Loop() {
		h.add(ns)
		ns = ns*5%1_000_003 + 1
	}
}
