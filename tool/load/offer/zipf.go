package offer

import (
	"errors"
	"math"
)

// zipf draws whole numbers from 1 to most with probabilities proportional to 1/n to a power, by
// rejection-inversion (Hörmann and Derflinger, 1996): it draws uniformly from the area under the
// curve x to −power, inverts it, and draws again if the point is outside of the number's own bar.
// It needs no table, and about 1.1 draws per number.
type zipf struct {
	power       float64
	most        float64
	first, last float64 // area from 1 to the edges of the range
}

func zipfian(text string) (*drawing, error) {
	power, most, err := parsePair(text, "zipf:1.1,65536")
	switch {
	case err != nil:
		return nil, err
	case power > mostPower:
		return nil, errors.New("use a power of 20 at most")
	case most < 1 || most != math.Trunc(most):
		return nil, errors.New("the largest must be a whole number, 1 or more")
	}
	z := zipf{power: power, most: most}
	z.first, z.last = z.area(1.5)-1, z.area(most+0.5)
	return &drawing{1, int(most), z.draw}, nil
}

// area returns the area under the curve from 1 to x.
func (z zipf) area(x float64) float64 {
	log := math.Log(x)
	return log * overOne((1-z.power)*log)
}

// reach is the inverse of area.
func (z zipf) reach(area float64) float64 {
	return math.Exp(area * logOverOne(max((1-z.power)*area, -1)))
}

// overOne returns (eᵗ−1)/t, also for t = 0.
func overOne(t float64) float64 {
	if math.Abs(t) < 1e-8 {
		return 1 + t/2
	}
	return math.Expm1(t) / t
}

// logOverOne returns log(1+t)/t, also for t = 0.
func logOverOne(t float64) float64 {
	if math.Abs(t) < 1e-8 {
		return 1 - t/2
	}
	return math.Log1p(t) / t
}

// mostDraws bounds the number of draws; a billion requests do not reach it.
const mostDraws = 64

func (z zipf) draw(seed, n uint64) float64 {
	k := 1.0
	for i := range uint64(mostDraws) {
		area := z.last + part(seed, n, i)*(z.first-z.last)
		k = min(max(math.Round(z.reach(area)), 1), z.most)
		if area >= z.area(k+0.5)-math.Exp(-z.power*math.Log(k)) {
			break
		}
	}
	return k
}
