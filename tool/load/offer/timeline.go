package offer

import (
	"cmp"
	"math"
	"sort"
	"time"
)

// Timeline is a schedule laid out over a run's time: the first rate for the warm-up, then the
// schedule. It is immutable, and so safe for concurrent use.
//
// The rate is piecewise linear, so that computing it at run time needs only additions,
// multiplications and square roots, which every machine rounds in the same way; the conversions
// force products to be rounded before they are added (no fused multiply-add).
type Timeline struct {
	pieces []piece
	warmup float64 // seconds
	first  float64 // requests a second in the warm-up
	peak   float64
}

// piece is a part of the time in which the rate is linear.
type piece struct {
	from, length float64 // in seconds; the last piece is infinitely long
	before       float64 // requests due before it
	rate, slope  float64 // at its beginning, and its growth per second
}

const never = time.Duration(math.MaxInt64 / 4) // leaves room for adding

// Over lays the schedule out over a warm-up and a measured time; a ramp takes all of the measured
// time.
func (s Schedule) Over(warmup, measured time.Duration) *Timeline {
	c := &Timeline{warmup: warmup.Seconds()}
	for _, each := range s.stages {
		c.add(each.from, each.to, cmp.Or(each.length, measured).Seconds())
	}
	if n := len(s.stages); n > 0 {
		c.add(s.stages[n-1].to, s.stages[n-1].to, math.Inf(1))
		c.first = c.pieces[0].rate
	}
	return c
}

// add appends a piece.
func (c *Timeline) add(from, to, length float64) {
	p := piece{length: length, rate: from}
	if from != to {
		p.slope = (to - from) / length
	}
	if n := len(c.pieces); n > 0 {
		last := c.pieces[n-1]
		p.from, p.before = last.from+last.length, last.before+last.requests(last.length)
	}
	c.pieces = append(c.pieces, p)
	c.peak = max(c.peak, from, to)
}

// requests returns how many requests are due in the first seconds of the piece.
func (p piece) requests(seconds float64) float64 {
	return float64(p.rate*seconds) + float64(float64(p.slope*seconds)*seconds)/2
}

// seconds is the inverse of requests: when that many are due, since the piece began.
func (p piece) seconds(requests float64) float64 {
	if requests <= 0 {
		return 0
	}
	// This form of the quadratic formula avoids cancellation.
	root := math.Sqrt(max(0, float64(p.rate*p.rate)+float64(2*p.slope*requests)))
	return min(2*requests/(p.rate+root), p.length)
}

// Moment returns when x requests have become due, since the warm-up began: for whole numbers, the
// moments of constant arrivals. It is monotonic in x. If no more requests come, it is in the far
// future. BenchmarkMoment: about 50 ns.
func (c *Timeline) Moment(x float64) time.Duration {
	if warm := float64(c.first * c.warmup); x < warm {
		return nanoseconds(x / c.first)
	} else {
		return nanoseconds(c.warmup + c.within(x-warm))
	}
}

// within returns when x requests of the pieces have become due.
func (c *Timeline) within(x float64) float64 {
	i := sort.Search(len(c.pieces), func(i int) bool { return c.pieces[i].before > x })
	p := c.pieces[max(i-1, 0)]
	return p.from + p.seconds(x-p.before)
}

func nanoseconds(seconds float64) time.Duration {
	if ns := math.Round(seconds * 1e9); ns < float64(never) {
		return time.Duration(ns)
	}
	return never
}

// Due returns how many requests have become due by t, since the warm-up began: the integral of the
// rate, and the inverse of Moment.
func (c *Timeline) Due(t time.Duration) float64 {
	seconds := max(t.Seconds(), 0)
	if seconds < c.warmup {
		return c.first * seconds
	}
	p, into := c.at(seconds - c.warmup)
	return float64(c.first*c.warmup) + p.before + p.requests(into)
}

// Rate returns the requests a second at t, since the warm-up began.
func (c *Timeline) Rate(t time.Duration) float64 {
	seconds := max(t.Seconds(), 0)
	if seconds < c.warmup {
		return c.first
	}
	p, into := c.at(seconds - c.warmup)
	return p.rate + float64(p.slope*into)
}

// at returns the piece of a moment after the warm-up, and how far it is into the piece.
func (c *Timeline) at(seconds float64) (p piece, into float64) {
	i := sort.Search(len(c.pieces), func(i int) bool { return c.pieces[i].from > seconds })
	p = c.pieces[max(i-1, 0)]
	return p, min(seconds-p.from, p.length)
}

// Peak returns the highest rate.
func (c *Timeline) Peak() float64 { return c.peak }
