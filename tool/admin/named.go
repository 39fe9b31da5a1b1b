package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/hone-go/hone/tool/exit"
)

// Named reads chosen metrics of any server that has them in Prometheus' text format.
type Named struct {
	// Titles name the metrics for charts: counters are drawn per second.
	Titles []string
	names  []string
	url    string
	client http.Client
	before map[string]float64 // the counters, at the last reading
	at     time.Time
}

// OpenNamed takes "URL NAME,NAME…". It fails if a metric is not there.
func OpenNamed(ctx context.Context, text string) (*Named, error) {
	where, names, _ := strings.Cut(strings.TrimSpace(text), " ")
	n := &Named{url: where, names: strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }), client: http.Client{Timeout: pollTime}}
	if !strings.Contains(where, "://") || len(n.names) == 0 {
		return nil, exit.Usagef("load: --server-metrics %q: give a URL and names, as in 'http://127.0.0.1:8889/metrics http_requests_total,go_goroutines'", text)
	}
	families, err := n.read(ctx)
	if err != nil {
		return nil, exit.Failedf("load: --server-metrics: %w", err)
	}
	for _, name := range n.names {
		title := name
		switch _, counts, known := valueOf(families[name]); {
		case !known:
			return nil, exit.Failedf("load: --server-metrics: %s has no counter or gauge %s; curl lists what it has", where, name)
		case counts:
			title += " per second"
		}
		n.Titles = append(n.Titles, title)
	}
	return n, nil
}

// Read implements page.Source, under the keys m.0, m.1…: each is the sum over all labels.
func (n *Named) Read(ctx context.Context) map[string]float64 {
	families, err := n.read(ctx)
	if err != nil {
		return nil
	}
	now := time.Now()
	values, counted := map[string]float64{}, map[string]float64{}
	for i, name := range n.names {
		key := fmt.Sprint("m.", i)
		switch value, counts, known := valueOf(families[name]); {
		case !known:
		case !counts:
			values[key] = value
		default:
			if before, ok := n.before[name]; ok && value >= before { // else the server has started again
				values[key] = (value - before) / now.Sub(n.at).Seconds()
			}
			counted[name] = value
		}
	}
	n.before, n.at = counted, now
	return values
}

func (n *Named) read(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := n.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, statsSize))
	if response.StatusCode != http.StatusOK || err != nil {
		return nil, fmt.Errorf("%s (%s) is no Prometheus text endpoint", n.url, response.Status)
	}
	return families, nil
}

// valueOf returns the sum of a family over its labels, and whether it only grows.
func valueOf(family *dto.MetricFamily) (sum float64, counts, known bool) {
	for _, m := range family.GetMetric() {
		switch {
		case m.Counter != nil:
			sum, counts, known = sum+m.Counter.GetValue(), true, true
		case m.Gauge != nil:
			sum, known = sum+m.Gauge.GetValue(), true
		case m.Untyped != nil:
			sum, counts, known = sum+m.Untyped.GetValue(), strings.HasSuffix(family.GetName(), "_total"), true
		}
	}
	return sum, counts, known
}
