package load

import (
	"math"
	"time"

	"github.com/hone-go/hone/tool/load/offer"
)

// schedule is the intended moments of an open loop's requests, as a pure
// function of their number: at(n) is the same whatever was asked before, on any
// machine. What it remembers only makes ascending numbers cheap. It belongs to
// one goroutine.
type schedule struct {
	arrivals Arrivals
	rate     float64
	seed     uint64
	course   *offer.Course // of a rate that changes; nil: it is rate

	n   int64   // the number that sum is of
	sum float64 // the moment of request n, in mean gaps
}

// at is the intended moment of request n ≥ 0, since the schedule began.
//
// Constant: n/rate to the nanosecond. Poisson: the sum of the gaps up to n, paid
// for every number that n is beyond the last one asked for, or for every number
// from 0 when n is below it. BenchmarkSchedule: about 3 ns, 15 ns a number.
//
// A rate that changes bends the time: the moments are those in which n, or so many
// mean gaps, are the integral of the rate.
func (s *schedule) at(n int64) time.Duration {
	if s.arrivals == Constant && s.course == nil {
		return time.Duration(math.Round(float64(n) * 1e9 / s.rate))
	}
	if s.arrivals == Constant {
		return s.course.Moment(float64(n))
	}
	if s.sum == 0 || n < s.n {
		s.n, s.sum = 0, gap(s.seed, 0)
	}
	for s.n < n {
		s.n++
		s.sum += gap(s.seed, s.n)
	}
	if s.course != nil {
		return s.course.Moment(s.sum)
	}
	return time.Duration(s.sum * 1e9 / s.rate)
}

// gap is the time from request n−1 to request n, exponentially distributed with
// mean 1: minus the logarithm of a number in (0, 1].
func gap(seed uint64, n int64) float64 {
	return -math.Log(float64(offer.Scramble(seed, uint64(n))>>11+1) / (1 << 53))
}
