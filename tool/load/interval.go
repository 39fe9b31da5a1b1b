package load

import "time"

// Interval is a slice of the measured time, for charts and storing. A request belongs to the
// interval in which it was answered or given up; the last interval also has those that ended after
// the measured time. So the sum of all Latency is Histograms.Latency, and that of all Errors the
// total.
type Interval struct {
	Start, End time.Duration // since the measured time began; End is the next one's Start
	Answered   int64         // answers in the interval, good or not
	Errors     int64
	Times      Quantiles // of Latency
	// Latency and Service are in HdrHistogram's V2 compressed encoding, in base64, as
	// hdrhistogram.Decode reads it. In a closed loop they are one slice.
	Latency, Service []byte
}

// A long run keeps at most mostIntervals, and their length doubles after every doublingStore
// bytes.
const (
	mostIntervals = 3600
	doublingStore = 16 << 20
)

// intervalLength is a second, or more if there would be more than mostIntervals.
func (p Plan) intervalLength() time.Duration {
	seconds := (p.For + mostIntervals*time.Second - 1) / (mostIntervals * time.Second)
	return max(seconds, 1) * time.Second
}

// newInterval returns what t has counted between two moments of the measured time. It costs about
// a millisecond (BenchmarkInterval), which delays only the supervisor.
func newInterval(t *tally, start, end int64) Interval {
	i := Interval{
		Start: time.Duration(start), End: time.Duration(end),
		Answered: t.During, Errors: t.failures(), Times: QuantilesOf(t.Latency.Histogram), Latency: t.Latency.encoded(),
	}
	if i.Service = i.Latency; t.Service.Histogram != nil {
		i.Service = t.Service.encoded()
	}
	return i
}

// size returns the memory of the histograms.
func (i Interval) size() int {
	if len(i.Latency) > 0 && len(i.Service) > 0 && &i.Latency[0] == &i.Service[0] {
		return len(i.Latency)
	}
	return len(i.Latency) + len(i.Service)
}
