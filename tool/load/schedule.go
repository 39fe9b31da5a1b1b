package load

import (
	"math"
	"time"

	"github.com/hone-go/hone/tool/load/offer"
)

// schedule computes the intended moments of an open loop's requests. at(n) is a pure function of
// n: the same on any machine, whatever was asked before. It caches the last number so that
// ascending numbers are cheap. It belongs to one goroutine.
type schedule struct {
	arrivals Arrivals
	rate     float64
	seed     uint64
	timeline *offer.Timeline // a changing rate; nil: constant
	part     part            // the fraction of the rate

	n   int64   // the number that sum belongs to
	sum float64 // the moment of request n, in units of the mean gap
}

// part is a fraction of a rate: weight divided by the sum of all weights. The zero part is all of
// it.
type part struct{ weight, sum, phase float64 }

// of returns the part of a rate.
func (p part) of(rate float64) float64 {
	if p.sum == 0 {
		return rate
	}
	return rate * p.weight / p.sum
}

// whole returns how many requests of all streams correspond to n of the part.
func (p part) whole(n float64) float64 {
	if p.sum == 0 {
		return n
	}
	return n * p.sum / p.weight
}

// at returns the intended moment of request n ≥ 0, since the schedule began.
//
// Constant: n/rate to the nanosecond. Poisson: the sum of the gaps up to n; the cost grows with
// the distance from the last n asked for, or from 0 when n is below it. BenchmarkSchedule: about 3
// ns, 15 ns a number.
//
// With a changing rate the moments are those at which the integral of the rate reaches n, or the
// sum of the gaps.
func (s *schedule) at(n int64) time.Duration {
	if s.arrivals == Constant && s.timeline == nil {
		return time.Duration(math.Round((float64(n) + s.part.phase) * 1e9 / s.part.of(s.rate)))
	}
	if s.arrivals == Constant {
		return s.timeline.Moment(s.part.whole(float64(n) + s.part.phase))
	}
	if s.sum == 0 || n < s.n {
		s.n, s.sum = 0, gap(s.seed, 0)
	}
	for s.n < n {
		s.n++
		s.sum += gap(s.seed, s.n)
	}
	if s.timeline != nil {
		return s.timeline.Moment(s.part.whole(s.sum))
	}
	return time.Duration(s.sum * 1e9 / s.part.of(s.rate))
}

// gap returns the time from request n−1 to request n, exponentially distributed with mean 1: minus
// the logarithm of a number in (0, 1].
func gap(seed uint64, n int64) float64 {
	return -math.Log(float64(offer.Scramble(seed, uint64(n))>>11+1) / (1 << 53))
}

// arrival is a request of an open loop, or the session that begins with it.
type arrival struct {
	moment int64  // since Run began
	number uint64 // in its flow
	flow   int32
}

// offering is all that an open loop sends: one schedule, or one for every flow. Flows have
// schedules of their own, so that another flow's weight does not change them as long as their own
// share of the rate stays the same. It belongs to one goroutine.
type offering struct {
	streams []stream
	n       int64 // arrivals taken from the streams
	last    arrival
}

// stream is a flow's schedule, and its next arrival.
type stream struct {
	schedule
	number int64
	moment time.Duration
	limit  int64 // number of arrivals; 0: unlimited
}

// newOffering returns the offering of a plan.
func newOffering(p Plan, timeline *offer.Timeline) *offering {
	plain := schedule{arrivals: p.Arrivals, rate: p.Rate, seed: p.Seed, timeline: timeline}
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

// at returns arrival n ≥ 0 of all flows, with its moment since the schedule began. ok is false
// after the first arrival whose flow has no more data. The cost grows with the distance from the
// last n asked for.
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
