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
	part     part          // of all that is offered

	n   int64   // the number that sum is of
	sum float64 // the moment of request n, in mean gaps
}

// part is what a schedule has of a rate: weight in the sum of all weights. The zero part
// is all of it.
type part struct{ weight, sum, phase float64 }

// of is the part of a rate.
func (p part) of(rate float64) float64 {
	if p.sum == 0 {
		return rate
	}
	return rate * p.weight / p.sum
}

// whole is how many requests of all there are for n of the part.
func (p part) whole(n float64) float64 {
	if p.sum == 0 {
		return n
	}
	return n * p.sum / p.weight
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
		return time.Duration(math.Round((float64(n) + s.part.phase) * 1e9 / s.part.of(s.rate)))
	}
	if s.arrivals == Constant {
		return s.course.Moment(s.part.whole(float64(n) + s.part.phase))
	}
	if s.sum == 0 || n < s.n {
		s.n, s.sum = 0, gap(s.seed, 0)
	}
	for s.n < n {
		s.n++
		s.sum += gap(s.seed, s.n)
	}
	if s.course != nil {
		return s.course.Moment(s.part.whole(s.sum))
	}
	return time.Duration(s.sum * 1e9 / s.part.of(s.rate))
}

// gap is the time from request n−1 to request n, exponentially distributed with
// mean 1: minus the logarithm of a number in (0, 1].
func gap(seed uint64, n int64) float64 {
	return -math.Log(float64(offer.Scramble(seed, uint64(n))>>11+1) / (1 << 53))
}

// arrival is a request of an open loop, or the session that begins with it.
type arrival struct {
	moment int64  // since Run began
	number uint64 // in its flow
	flow   int32
}

// offering is all that an open loop offers: one schedule, or that of every flow. Each flow
// has a schedule of its own, which no other flow's weight changes as long as its own part of
// the rate is the same. It belongs to one goroutine.
type offering struct {
	streams []stream
	n       int64 // arrivals that were taken from the streams
	last    arrival
}

// stream is a flow's schedule, and its next arrival.
type stream struct {
	schedule
	number int64
	moment time.Duration
	limit  int64 // arrivals that there are; 0: no limit
}

// newOffering lays out what a plan offers.
func newOffering(p Plan, course *offer.Course) *offering {
	plain := schedule{arrivals: p.Arrivals, rate: p.Rate, seed: p.Seed, course: course}
	o := &offering{}
	if p.Traffic == nil {
		o.streams = []stream{{schedule: plain}}
	} else {
		for _, share := range p.Traffic.Shares() {
			s := stream{schedule: plain, limit: share.Limit}
			s.seed ^= share.Key
			s.part = part{share.Weight, share.Sum, float64(share.Key>>11) / (1 << 53)}
			o.streams = append(o.streams, s)
		}
	}
	o.rewind()
	return o
}

func (o *offering) rewind() {
	o.n = 0
	for i := range o.streams {
		s := &o.streams[i]
		s.number, s.moment = 0, s.at(0)
	}
}

// at is arrival n ≥ 0 of all, with its moment since the schedule began, and whether there
// is one: none comes after one for which a flow has no row of data. It is paid for
// every number that n is beyond the last one asked for.
func (o *offering) at(n int64) (a arrival, ok bool) {
	if len(o.streams) == 1 && o.streams[0].limit == 0 {
		return arrival{int64(o.streams[0].at(n)), uint64(n), 0}, true
	}
	if n < o.n {
		o.rewind()
	}
	for o.n <= n {
		next := 0
		for i := range o.streams {
			if o.streams[i].moment < o.streams[next].moment {
				next = i
			}
		}
		s := &o.streams[next]
		if s.limit > 0 && s.number >= s.limit {
			return arrival{}, false
		}
		o.last = arrival{int64(s.moment), uint64(s.number), int32(next)}
		s.number++
		s.moment = s.at(s.number)
		o.n++
	}
	return o.last, true
}
