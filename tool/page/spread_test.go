package page

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestSpread compares spread with HdrHistogram over its whole range.
func TestSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, h := range []*hdrhistogram.Histogram{
		hdrhistogram.New(1, time.Hour.Nanoseconds(), 3), hdrhistogram.New(1, time.Hour.Nanoseconds(), 2), hdrhistogram.New(1000, time.Hour.Nanoseconds(), 3),
	} {
		for range 20_000 {
			h.RecordValue(int64(math.Exp2(random.Float64() * 41)))
		}
		var s spread
		s.take(h)
		if s.total != h.TotalCount() {
			t.Errorf("%d values, want %d", s.total, h.TotalCount())
		}
		for _, part := range []float64{0.2, 0.5, 0.9, 0.99, 0.999, 1} {
			got, want := s.quantile(part), float64(h.ValueAtQuantile(100*part))/1e3
			if want > 100 && math.Abs(got/want-1) > 0.02 { // below that, HdrHistogram's own steps are wide
				t.Errorf("quantile %v is %v µs, want %v", part, got, want)
			}
		}
		if curve := s.curve(); float64(curve[len(curve)-1][1]) != s.quantile(1) || len(curve) < 40 {
			t.Errorf("the curve ends at %v, want %v", curve[len(curve)-1], s.quantile(1))
		}
		n := int64(0)
		for i, wide := 1, s.wide(); i < len(wide); i += 2 {
			n += wide[i]
		}
		if n != s.total {
			t.Errorf("the heat map has %d values of %d", n, s.total)
		}
	}
	var none, one spread
	if curve := none.curve(); len(curve) != 0 || !math.IsNaN(none.quantile(0.5)) || len(none.wide()) != 0 {
		t.Errorf("nothing has the curve %v", curve)
	}
	h := hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)
	h.RecordValue(1000)
	one.take(h)
	if curve := one.curve(); len(curve) != 1 || !math.IsNaN(one.quantile(0.5)) {
		t.Errorf("one value has the curve %v", curve)
	}
}
