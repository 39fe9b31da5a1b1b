package observe

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
)

// Latency times handlers by samples: one request in Every, chosen by chance, so
// that no rhythm of the requests can hide from it or fill it. The zero value
// works; the same Latency may wrap several handlers, which are then counted
// together.
//
//	admin.Latency = new(observe.Latency)
//	srv.Handler = admin.Latency.Wrap(handler)
//
// A request that is not chosen costs some 15 ns more than without, one that is
// some 150 (BenchmarkLatency). Nothing is allocated and nothing is locked.
type Latency struct {
	// Every is how many requests there are for one that is timed. Zero: 128; 1:
	// all are timed.
	Every uint32

	shards [latencyShards]latencyShard
}

const (
	usualEvery    = 128
	latencyShards = 16 // a power of two; two processors seldom choose the same
)

// latencyShard is a part of the counts, away from the others' cache lines.
type latencyShard struct {
	buckets     [len(latencyBounds) + 1]atomic.Uint64
	nanoseconds atomic.Uint64
	_           [64]byte
}

// latencyBounds are the buckets' upper ends: 1, 2 and 5 of each decade from a
// microsecond, which is less than a socket takes, to the longest that a client
// waits.
var latencyBounds = [...]time.Duration{
	1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Wrap is h, timed. What is timed is the handler: the time until a reply that
// it promises for later (Call.Later) is not in it. A panic ends it as a return
// does.
func (l *Latency) Wrap(h framed.Handler) framed.Handler {
	if h == nil {
		panic("observe: Latency.Wrap of no handler")
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

// WrapHTTP is h, timed: for a handler of net/http's, on any server. A panic ends it as a
// return does, and so does http.ErrAbortHandler.
func (l *Latency) WrapHTTP(h http.Handler) http.Handler {
	if h == nil {
		panic("observe: Latency.WrapHTTP of no handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := l.choose(); s != nil {
			began := time.Now()
			defer func() { s.add(time.Since(began)) }()
		}
		h.ServeHTTP(w, r)
	})
}

// WrapMessages is the Message of a websocket.Upgrader, timed as Wrap times a handler.
func (l *Latency) WrapMessages(h func(c websocket.Call, dst, msg []byte) ([]byte, error)) func(c websocket.Call, dst, msg []byte) ([]byte, error) {
	if h == nil {
		panic("observe: Latency.WrapMessages of no function")
	}
	return func(c websocket.Call, dst, msg []byte) ([]byte, error) {
		if s := l.choose(); s != nil {
			began := time.Now()
			defer func() { s.add(time.Since(began)) }()
		}
		return h(c, dst, msg)
	}
}

// choose is where to count the request that begins; nil: it is not timed.
func (l *Latency) choose() *latencyShard {
	every, chance := uint64(l.Every), rand.Uint64()
	if every == 0 {
		every = usualEvery
	}
	if uint64(uint32(chance))*every>>32 != 0 { // the high half of the product is evenly 0 to every-1
		return nil
	}
	return &l.shards[chance>>32%latencyShards]
}

// time calls handle and counts how long that took.
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

// times is a histogram as a scrape wants it.
type times struct {
	count   uint64
	seconds float64            // their sum
	buckets map[float64]uint64 // each with all below it
}

// read adds the shards up; nil for nil. What is counted meanwhile may be in the
// sum and not yet in the count.
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
			Help: "Time in handlers, of samples: one request in Latency.Every. A reply promised for later is not waited for.",
		},
		timed: func(r *reading) *times { return r.latency },
	}}
}
