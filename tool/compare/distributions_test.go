package compare

import (
	"math"
	"testing"
)

// The values match printed tables.
func TestStudentsT(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.1, 1, 6.314}, {0.05, 1, 12.706}, {0.01, 1, 63.657},
		{0.05, 2, 4.303}, {0.05, 5, 2.571}, {0.01, 5, 4.032}, {0.002, 5, 5.893}, {0.001, 5, 6.869},
		{0.05, 7, 2.365}, {0.01, 7, 3.499}, {0.005, 7, 4.029}, {0.05, 10, 2.228}, {0.001, 10, 4.587},
		{0.05, 30, 2.042}, {0.01, 30, 2.750}, {0.05, 120, 1.980}, {0.05, 1e5, 1.960}, {0.5, 4, 0.741}, {0.9, 4, 0.134},
	} {
		got := tBound(c.p, c.df)
		if math.Abs(got-c.want) > 0.0006 {
			t.Errorf("tBound(%v, %v) = %.4f, want %.3f", c.p, c.df, got, c.want)
		}
		if back := tBeyond(got, c.df); math.Abs(back-c.p) > 1e-10*c.p {
			t.Errorf("tBeyond(%v, %v) = %v, want %v", got, c.df, back, c.p)
		}
	}
	// With 1 degree of freedom it is the Cauchy distribution; with 2 it has a closed
	// form.
	for _, x := range []float64{0, 1e-9, 0.3, 1, 7, 1e4} {
		if got, want := tBeyond(x, 1), 1-2/math.Pi*math.Atan(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("tBeyond(%v, 1) = %v, want %v", x, got, want)
		}
		if got, want := tBeyond(x, 2), 1-x/math.Sqrt(2+x*x); math.Abs(got-want) > 1e-12 {
			t.Errorf("tBeyond(%v, 2) = %v, want %v", x, got, want)
		}
	}
	if got := tBeyond(math.Inf(1), 5); got != 0 {
		t.Errorf("beyond everything: %v", got)
	}
	for _, p := range []float64{1e-15, 1e-9, 1e-5, 0.3, 0.999} {
		for _, df := range []float64{1, 1.5, 3, 11, 95, 1000} {
			if back := tBeyond(tBound(p, df), df); math.Abs(back-p) > 1e-9*p {
				t.Errorf("p %v, df %v: back comes %v", p, df, back)
			}
		}
	}
}

func TestChiSquared(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.05, 1, 0.00393}, {0.95, 1, 3.841}, {0.3, 1, 0.148}, {0.3, 4, 2.195}, {0.3, 7, 4.671}, {0.3, 11, 8.148},
		{0.3, 15, 11.721}, {0.3, 30, 25.508}, {0.95, 30, 43.773}, {0.99, 100, 135.807},
	} {
		if got := chiSquaredBound(c.p, c.df); math.Abs(got-c.want) > 0.0006 {
			t.Errorf("chiSquaredBound(%v, %v) = %.4f, want %v", c.p, c.df, got, c.want)
		}
	}
}
