package record

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The distributions of a load's samples.
const (
	latencyName = "latency"
	serviceName = "service"
)

// piece is the distribution of an interval, or of a whole sample.
type piece struct {
	start, end time.Duration // both 0: the whole sample
	times      *hdrhistogram.Histogram
}

func (p piece) whole() bool { return p.start == 0 && p.end == 0 }

// piecesOf decodes the distributions with that name: the intervals in order, or the whole if the
// sample has no intervals.
func piecesOf(s *Sample, name string) ([]piece, error) {
	var intervals, whole []piece
	for _, h := range s.Histograms {
		if h.Name != name {
			continue
		}
		times, err := hdrhistogram.Decode(h.Data)
		if err != nil {
			return nil, fmt.Errorf("a stored histogram cannot be read: %w", err)
		}
		if p := (piece{h.Start, h.End, times}); p.whole() {
			whole = append(whole, p)
		} else {
			intervals = append(intervals, p)
		}
	}
	if len(intervals) == 0 {
		return whole, nil
	}
	slices.SortStableFunc(intervals, func(a, b piece) int { return int(a.start - b.start) })
	return intervals, nil
}

// invalidTag begins the tag of histograms of invalid samples.
const invalidTag = "INVALID-"

// WriteHistogramLog writes a run's histograms in HdrHistogram's log format 1.3, in nanoseconds, a
// line for each interval, V2 compressed. Response times have no tag, so that tools read them by
// default; service times of open loops have the tag service. Histograms of invalid samples have a
// tag that begins with INVALID-. Samples are placed at the times at which they were taken. A run
// without histograms is an error.
func WriteHistogramLog(w io.Writer, r *Run) error {
	out := &hdrLog{to: bufio.NewWriter(w), began: r.At}
	fmt.Fprintf(out.to, "#[hone run %s, %s]\n#[Histogram log format version 1.3]\n", oneLine(r.ID), oneLine(cmp.Or(r.Name, r.ID)))
	fmt.Fprintf(out.to, "#[StartTime: %.3f (seconds since epoch), %s]\n", float64(r.At.UnixMilli())/1e3, r.At.UTC().Format(time.RFC3339))
	fmt.Fprintf(out.to, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
	for i := range r.Samples {
		if err := out.sample(&r.Samples[i]); err != nil {
			return fmt.Errorf("record: run %s, sample %d: %w", cmp.Or(r.Name, r.ID), i+1, err)
		}
	}
	if err := out.to.Flush(); err != nil {
		return fmt.Errorf("record: writing the histogram log: %w", err)
	}
	if out.lines == 0 {
		return fmt.Errorf("record: run %s has no histograms: the program that measured it wrote percentiles only; use --format csv", cmp.Or(r.Name, r.ID))
	}
	return nil
}

// hdrLog is the state of writing a log.
type hdrLog struct {
	to    *bufio.Writer // it keeps the first error until Flush
	began time.Time
	lines int
}

func (l *hdrLog) sample(s *Sample) error {
	for _, name := range []string{latencyName, serviceName} {
		pieces, err := piecesOf(s, name)
		if err != nil {
			return err
		}
		for _, p := range pieces {
			data, err := p.times.EncodeV2()
			if err != nil {
				return err
			}
			const milli = 1e6 // the format's maximum is in units of 10⁶ ns
			l.lines++
			fmt.Fprintf(l.to, "%s%.3f,%.3f,%.3f,%s\n", tagOf(name, s.Valid), (s.At.Sub(l.began) + p.start).Seconds(), (p.end - p.start).Seconds(), float64(p.times.Max())/milli, data)
		}
	}
	return nil
}

func tagOf(name string, valid bool) string {
	switch {
	case !valid:
		return "Tag=" + invalidTag + name + ","
	case name == latencyName:
		return ""
	}
	return "Tag=" + name + ","
}
