// Package exchange exports stored runs to other programs' formats.
//
// [WriteIntervals] is for spreadsheets, [WriteHistogramLog] for HdrHistogram's tools,
// [WriteOpenMetrics] for Prometheus.
package exchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/record"
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
func piecesOf(s *record.Sample, name string) ([]piece, error) {
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

// seriesOf returns the sample's series with that name; nil: none.
func seriesOf(s *record.Sample, name string) *record.Series {
	for i := range s.Series {
		if s.Series[i].Name == name {
			return &s.Series[i]
		}
	}
	return nil
}

// title returns a run's display name: its name, or else its ID.
func title(r *record.Run) string { return cmp.Or(r.Name, r.ID) }

// oneLine joins a text's lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
