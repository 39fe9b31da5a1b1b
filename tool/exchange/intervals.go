package exchange

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// intervalColumns is the first line that WriteIntervals writes.
var intervalColumns = []string{
	"run", "name", "scenario", "sample", "valid", "start_s", "end_s", "rate", "errors", "requests",
	"mean_us", "p50_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us",
	"service_p50_us", "service_p99_us", "service_max_us",
}

// WriteIntervals writes a line of CSV for every interval of every sample, valid or not, after a
// line of column names. Times are relative to the beginning of the sample's measured time. A
// request counts in the interval in which it was answered or given up. A field is empty if the
// interval is too short for a percentile, and for service times of closed loops. A run without
// intervals is an error.
func WriteIntervals(w io.Writer, runs ...*record.Run) error {
	out := csv.NewWriter(w)
	_ = out.Write(intervalColumns) // out.Error reports the error
	for _, r := range runs {
		lines := 0
		for i := range r.Samples {
			rows, err := intervalRows(&r.Samples[i])
			if err != nil {
				return fmt.Errorf("exchange: run %s, sample %d: %w", title(r), i+1, err)
			}
			lines += len(rows)
			for _, row := range rows {
				head := []string{r.ID, r.Name, r.Scenario.Name, strconv.Itoa(i + 1), strconv.FormatBool(r.Samples[i].Valid)}
				_ = out.Write(append(head, row...))
			}
		}
		if lines == 0 {
			return fmt.Errorf("exchange: run %s has no intervals: only loads have them; use --format csv for its metrics", title(r))
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("exchange: writing CSV: %w", err)
	}
	return nil
}

// intervalRows returns the lines of one sample, from the column start_s on.
func intervalRows(s *record.Sample) (rows [][]string, err error) {
	latency, err := piecesOf(s, latencyName)
	if err != nil || len(latency) == 0 || latency[0].whole() {
		return nil, err
	}
	service, err := piecesOf(s, serviceName)
	if err != nil {
		return nil, err
	}
	rate, errors := seriesOf(s, "rate"), seriesOf(s, "errors")
	for i, p := range latency {
		times := load.QuantilesOf(p.times)
		row := []string{
			decimal(p.start.Seconds()), decimal(p.end.Seconds()), at(rate, i), at(errors, i), strconv.FormatInt(p.times.TotalCount(), 10),
			micros(times.Mean), micros(times.P50), micros(times.P90), micros(times.P95), micros(times.P99), micros(times.P999), micros(times.Max),
		}
		var waited load.Quantiles
		if i < len(service) && service[i].start == p.start {
			waited = load.QuantilesOf(service[i].times)
		}
		rows = append(rows, append(row, micros(waited.P50), micros(waited.P99), micros(waited.Max)))
	}
	return rows, nil
}

// at returns value number i of a series, empty if there is none.
func at(s *record.Series, i int) string {
	if s == nil || i >= len(s.Values) || math.IsNaN(s.Values[i]) {
		return ""
	}
	return decimal(s.Values[i])
}

func micros(value *float64) string {
	if value == nil {
		return ""
	}
	return decimal(*value)
}

// decimal formats a value so that it parses to the same value.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
