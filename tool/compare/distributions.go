package compare

import "math"

// tBeyond returns P(|T| > t) for Student's t with df degrees of freedom and t ≥ 0.
func tBeyond(t, df float64) float64 {
	if math.IsInf(t, 1) {
		return 0
	}
	return betaPart(df/(df+t*t), t*t/(df+t*t), df/2, 0.5)
}

// tBound returns the t for which tBeyond is p.
func tBound(p, df float64) float64 {
	// Newton's method on the logarithm of the tail, which is nearly straight, starting
	// from the first terms of the Cornish–Fisher series.
	z := math.Sqrt2 * math.Erfcinv(p)
	t := z + (z*z*z+z)/(4*df)
	logScale := lgamma((df+1)/2) - lgamma(df/2) - math.Log(df*math.Pi)/2
	for range 100 {
		beyond := tBeyond(t, df)
		density := 2 * math.Exp(logScale-(df+1)/2*math.Log1p(t*t/df))
		step := beyond * math.Log(beyond/p) / density
		next := max(t+step, t/2)
		if math.Abs(next-t) <= 1e-13*t {
			return next
		}
		t = next
	}
	return t
}

// chiSquaredBound returns the x that chi² with df degrees of freedom stays below with
// probability p.
func chiSquaredBound(p, df float64) float64 {
	x := df // Newton's method, starting from the mean
	for range 100 {
		density := math.Exp((df/2-1)*math.Log(x/2)-x/2-lgamma(df/2)) / 2
		next := max(x-(gammaPart(df/2, x/2)-p)/density, x/4)
		if math.Abs(next-x) <= 1e-12*x {
			return next
		}
		x = next
	}
	return x
}

// betaPart returns the regularized incomplete beta function of x; y is 1-x, passed
// separately because subtracting from an x close to 1 loses precision.
func betaPart(x, y, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case y <= 0:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - betaPart(y, x, b, a)
	}
	front := math.Exp(lgamma(a+b)-lgamma(a)-lgamma(b)+a*math.Log(x)+b*math.Log(y)) / a
	// The function's continued fraction, by Lentz's method.
	c, d := 1.0, 1/notZero(1-(a+b)*x/(a+1))
	sum := d
	for m := 1.0; m < 500; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / notZero(1+even*d)
		c = notZero(1 + even/c)
		sum *= c * d
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / notZero(1+odd*d)
		c = notZero(1 + odd/c)
		sum *= c * d
		if math.Abs(c*d-1) < 1e-15 {
			break
		}
	}
	return front * sum
}

func notZero(v float64) float64 {
	if math.Abs(v) < 1e-300 {
		return 1e-300
	}
	return v
}

// gammaPart returns the regularized lower incomplete gamma function, by its series.
func gammaPart(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	term := 1 / a
	sum := term
	for n := 1.0; n < 10_000 && term > 1e-16*sum; n++ {
		term *= x / (a + n)
		sum += term
	}
	return sum * math.Exp(a*math.Log(x)-x-lgamma(a))
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
