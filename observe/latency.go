package observe

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
)

// Latency measures handler times by sampling: it times one request in Every, chosen at random
// so that periodic traffic cannot bias the samples. The zero value works. One Latency may wrap
// several handlers; they share one histogram.
//
//	admin.Latency = new(observe.Latency)
//	srv.Handler = admin.Latency.Wrap(handler)
//
// It adds about 15 ns to a request that is not sampled and about 150 ns to one that is
// (BenchmarkLatency). It allocates nothing and takes no lock.
type Latency struct {
	// Every is the sampling interval: one request in Every is timed. Zero: 128; 1: every
	// request.
	Every uint32

	shards [latencyShards]latencyShard
}

const (
	usualEvery    = 128
	latencyShards = 16 // a power of two; two CPUs rarely choose the same
)

// latencyShard is a part of the counters, on cache lines of its own.
type latencyShard struct {
	buckets     [len(latencyBounds) + 1]atomic.Uint64
	nanoseconds atomic.Uint64
	_           [64]byte
}

// latencyBounds are the upper bounds of the buckets: 1, 2 and 5 of each decade, from a
// microsecond, which is less than any socket takes, to the longest that clients wait.
var latencyBounds = [...]time.Duration{
	1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Wrap returns h with timing. It measures the time until the handler returns or panics; the
// time until a reply that was promised for later (Call.Later) is not included.
func (l *Latency) Wrap(h framed.Handler) framed.Handler {
	if h == nil {
		panic("observe: Latency.Wrap: the handler is nil")
	}
	handle, isFunc := h.(framed.HandlerFunc)
	if !isFunc {
		handle = h.Handle
	}
	return framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		s := l.choose()
		if s == nil {
			return handle(c, dst, req)
		}
		return s.time(handle, c, dst, req)
	})
}

// WrapHTTP returns h with timing: for a net/http handler on any server. It measures the time
// until the handler returns or panics, including http.ErrAbortHandler.
func (l *Latency) WrapHTTP(h http.Handler) http.Handler {
	if h == nil {
		panic("observe: Latency.WrapHTTP: the handler is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := l.choose(); s != nil {
			began := time.Now()
			defer func() { s.add(time.Since(began)) }()
		}
		h.ServeHTTP(w, r)
	})
}

// WrapMessages returns a websocket.Upgrader's Message with timing, as Wrap does for handlers.
func (l *Latency) WrapMessages(h func(c websocket.Call, dst, msg []byte) ([]byte, error)) func(c websocket.Call, dst, msg []byte) ([]byte, error) {
	if h == nil {
		panic("observe: Latency.WrapMessages: the function is nil")
	}
	return func(c websocket.Call, dst, msg []byte) ([]byte, error) {
		if s := l.choose(); s != nil {
			began := time.Now()
			defer func() { s.add(time.Since(began)) }()
		}
		return h(c, dst, msg)
	}
}

// choose returns the shard for the request that begins, or nil if it is not sampled.
func (l *Latency) choose() *latencyShard {
	every, chance := uint64(l.Every), rand.Uint64()
	if every == 0 {
		every = usualEvery
	}
	if uint64(uint32(chance))*every>>32 != 0 { // the high half of the product is uniform over 0 to every-1
		return nil
	}
	return &l.shards[chance>>32%latencyShards]
}

// time calls handle and counts how long it took.
func (s *latencyShard) time(handle framed.HandlerFunc, c framed.Call, dst, req []byte) ([]byte, error) {
	began := time.Now()
	defer func() { s.add(time.Since(began)) }()
	return handle(c, dst, req)
}

// add counts one request.
func (s *latencyShard) add(took time.Duration) {
	i := 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	s.nanoseconds.Add(uint64(max(0, took)))
	s.buckets[i].Add(1)
}

// times is a histogram in the form that a scrape needs.
type times struct {
	count   uint64
	seconds float64            // their sum
	buckets map[float64]uint64 // cumulative counts
}

// read sums the shards; a nil Latency returns nil. A sample that is counted meanwhile may be in
// the sum but not yet in the count.
func (l *Latency) read() *times {
	if l == nil {
		return nil
	}
	var counts [len(latencyBounds) + 1]uint64
	var nanoseconds uint64
	for i := range l.shards {
		s := &l.shards[i]
		for j := range counts {
			counts[j] += s.buckets[j].Load()
		}
		nanoseconds += s.nanoseconds.Load()
	}
	t := &times{seconds: float64(nanoseconds) / 1e9, buckets: make(map[float64]uint64, len(latencyBounds))}
	for i, bound := range latencyBounds {
		t.count += counts[i]
		t.buckets[bound.Seconds()] = t.count
	}
	t.count += counts[len(latencyBounds)]
	return t
}

func latencyEntries() []entry {
	return []entry{{
		Metric: Metric{
			Name: "hone_handler_duration_seconds", Kind: Histogram, Unit: "seconds", From: "Latency", Panel: "hone-server/Handler time",
			Help: "Handler time of sampled requests: one in Latency.Every. The wait for a reply promised for later is not included.",
		},
		timed: func(r *reading) *times { return r.latency },
	}}
}
