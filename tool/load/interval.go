package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Interval is a piece of the measured time, for what is drawn or stored. A
// request belongs to the one in which its answer came, or in which it was given
// up; the last one also has those that were so after the measured time. So the
// sum of all Latency is Histograms.Latency, and that of all Errors the total.
type Interval struct {
	Start, End time.Duration // since the measured time began; the next one starts at this one's End
	Answered   int64         // answers that came in it, whatever they answer
	Errors     int64
	Times      Quantiles // of Latency
	// Latency and Service are what hdrhistogram.Decode reads, or another reader of
	// HdrHistogram's V2 compressed encoding in base64. In a closed loop they are
	// one slice.
	Latency, Service []byte
}

// What a long run keeps is bounded: it has no more than mostIntervals, and their
// length doubles with every so many bytes.
const (
	mostIntervals = 3600
	doublingStore = 16 << 20
)

// intervalLength is a second, or more so that mostIntervals are enough.
func (p Plan) intervalLength() time.Duration {
	seconds := (p.For + mostIntervals*time.Second - 1) / (mostIntervals * time.Second)
	return max(seconds, 1) * time.Second
}

// newInterval is what t has counted between two moments of the measured time. It
// costs a millisecond or some (BenchmarkInterval), for which nobody waits but the
// supervisor.
func newInterval(t *tally, start, end int64) Interval {
	i := Interval{
		Start: time.Duration(start), End: time.Duration(end),
		Answered: t.during, Errors: t.failures(), Times: QuantilesOf(t.latency), Latency: encoded(t.latency),
	}
	if i.Service = i.Latency; t.service != nil {
		i.Service = encoded(t.service)
	}
	return i
}

// size is the memory of the histograms.
func (i Interval) size() int {
	if len(i.Latency) > 0 && len(i.Service) > 0 && &i.Latency[0] == &i.Service[0] {
		return len(i.Latency)
	}
	return len(i.Latency) + len(i.Service)
}

// encoded is a histogram as bytes.
func encoded(h *hdrhistogram.Histogram) []byte {
	// The error is for other versions of the encoding than there are.
	b, _ := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return b
}
