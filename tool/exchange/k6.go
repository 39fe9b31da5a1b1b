package exchange

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// k6Metric is a metric of k6's summary. Its values are either in the metric itself, as
// --summary-export writes them, or under "values", as handleSummary receives them.
type k6Metric struct{ values map[string]float64 }

// UnmarshalJSON reads either form and ignores anything but numbers.
func (m *k6Metric) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if nested, ok := all["values"]; ok {
		all = nil
		if err := json.Unmarshal(nested, &all); err != nil {
			return err
		}
	}
	m.values = map[string]float64{}
	for key, raw := range all {
		var value float64
		if json.Unmarshal(raw, &value) == nil {
			m.values[key] = value
		}
	}
	return nil
}

// readK6 reads k6's summary in JSON.
func readK6(in *bufio.Reader) (*reading, error) {
	data, err := text(in)
	if err != nil {
		return nil, err
	}
	var summary struct {
		Metrics map[string]k6Metric `json:"metrics"`
	}
	if err := json.Unmarshal(data, &summary); err != nil {
		return nil, fmt.Errorf("%w; give what k6 run --summary-export FILE wrote", err)
	}
	times, counts := summary.Metrics["http_req_duration"].values, summary.Metrics["http_reqs"].values
	if times == nil || counts == nil {
		return nil, errors.New("it has no http_req_duration and http_reqs; give what k6 run --summary-export FILE wrote for an HTTP test")
	}
	r := &reading{Measured: Measured{Generator: "k6"}, requests: int64(counts["count"])}
	if most, ok := summary.Metrics["vus_max"].values["value"]; ok {
		r.Scenario = fmt.Sprintf("vus=%.0f\n", most)
	}
	failed := summary.Metrics["http_req_failed"].values
	share, ok := failed["value"]
	if !ok {
		share = failed["rate"]
	}
	r.failed = int64(math.Round(share * counts["count"]))
	r.add("rate", "req/s", record.Higher, counts["rate"])
	for _, q := range []struct{ key, name string }{{"med", "p50"}, {"p(99)", "p99"}, {"p(99.9)", "p999"}} {
		if value, ok := times[q.key]; ok {
			r.addTime(q.name, time.Duration(value*1e6))
		} else {
			r.Lacks = append(r.Lacks, fmt.Sprintf("%s: run k6 with --summary-trend-stats 'med,p(99),p(99.9),max'", q.name))
		}
	}
	if dropped := summary.Metrics["dropped_iterations"].values["count"]; dropped > 0 {
		r.doubts = append(r.doubts, fmt.Sprintf("k6 did not start %.0f iterations when they were due; give it more VUs", dropped))
	}
	r.Lacks = append(r.Lacks, "a distribution, and intervals",
		"the target, and the schedule: compare only runs of one script",
		"the wait for a free VU or a connection: times are from the moment a request was sent")
	return r, nil
}
