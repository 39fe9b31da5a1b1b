package record

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
)

// WriteCSV writes one line per figure and sample, valid or not, after a header line: run,
// name, scenario, sample (from 1), pair (0: none), valid, metric, unit, value (empty: no
// figure).
func WriteCSV(w io.Writer, runs ...*Run) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"run", "name", "scenario", "sample", "pair", "valid", "metric", "unit", "value"}) // checked by Error below
	for _, r := range runs {
		for i, s := range r.Samples {
			for _, m := range s.Metrics {
				_ = out.Write([]string{
					r.ID, r.Name, r.Scenario.Name, strconv.Itoa(i + 1), strconv.Itoa(s.Pair), strconv.FormatBool(s.Valid),
					m.Name, m.Unit, number(m.Value),
				})
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("record: writing CSV: %w", err)
	}
	return nil
}

// number formats a value so that it parses back exactly; empty for none.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
