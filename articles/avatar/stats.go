package avatar

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Stats are the counters of a Service since its start. Each of its limits that refuse requests has
// a counter here.
type Stats struct {
	Requests    uint64 // answered, with any status
	NotModified uint64 // answered with 304
	Refused     uint64 // answered with another 4xx
	Busy        uint64 // answered with 503: not drawn within Limits.RenderWait
	Failed      uint64 // answered with another 5xx, or a panic
	NameTooLong uint64 // refused or cut because of Limits.NameBytes or NameGraphemes
	SizeClamped uint64 // refused or clamped because of Limits.Size

	Pictures CacheStats
	Masks    CacheStats // pictures without their colours; a miss is a drawing

	// Took counts answers by the time since the end of the request's head: Took[i] those below 2^i
	// µs and not below half of that; the last one all others.
	Took [tookBuckets]uint64
}

// CacheStats are the counters and the content of one cache.
type CacheStats struct {
	Hits, Misses, Evicted uint64
	Entries               int
	Bytes                 int64
}

const tookBuckets = 24

// counters are the live counters of Stats.
type counters struct {
	requests, notModified, refused, busy, failed atomic.Uint64
	nameTooLong, sizeClamped                     atomic.Uint64
	took                                         [tookBuckets]atomic.Uint64
}

// answered counts one answer.
func (c *counters) answered(status int, took time.Duration) {
	c.requests.Add(1)
	switch {
	case status == 304:
		c.notModified.Add(1)
	case status == 503:
		c.busy.Add(1)
	case status >= 500:
		c.failed.Add(1)
	case status >= 400:
		c.refused.Add(1)
	}
	c.took[min(bits.Len64(uint64(took/time.Microsecond)), tookBuckets-1)].Add(1)
}

// Stats returns the current values.
func (s *Service) Stats() Stats {
	s.prepare()
	c := &s.counters
	st := Stats{
		Requests: c.requests.Load(), NotModified: c.notModified.Load(), Refused: c.refused.Load(),
		Busy: c.busy.Load(), Failed: c.failed.Load(),
		NameTooLong: c.nameTooLong.Load(), SizeClamped: c.sizeClamped.Load(),
	}
	st.Pictures, st.Masks = s.store.counted()
	for i := range c.took {
		st.Took[i] = c.took[i].Load()
	}
	return st
}
