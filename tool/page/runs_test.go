package page_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/record"
)

// runOf returns a stored run of an open loop with samples of ten seconds.
func runOf(t testing.TB, name string, micros int64, samples int) *record.Run {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := &record.Run{
		ID: fmt.Sprintf("%012x", micros), Name: name, Made: "bench", At: at,
		Scenario:    record.Scenario{Name: "hello", Settings: map[string]string{"conns": "50", "rate": "20000", "target": "http /"}},
		Environment: record.Environment{Strict: map[string]string{"cpu": "a test's", "goos": "linux"}, Soft: map[string]string{"revision": name}},
	}
	for n := range samples {
		run.Samples = append(run.Samples, sampleOf(t, at.Add(time.Duration(n)*time.Minute), micros+int64(n%3), n+1))
	}
	return run
}

func sampleOf(t testing.TB, at time.Time, micros int64, order int) record.Sample {
	t.Helper()
	s := record.Sample{Order: order, At: at, Valid: true, Reasons: []string{}}
	encoded := func(h *hdrhistogram.Histogram) []byte {
		b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := map[string]*hdrhistogram.Histogram{"latency": hdrhistogram.New(1, time.Hour.Nanoseconds(), 3), "service": hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)}
	rates := record.Series{Name: "rate", Unit: "req/s", Step: time.Second}
	for second := range int64(10) {
		for k, name := range []string{"latency", "service"} {
			h := histogram(micros+int64(10*math.Sin(float64(second)))-int64(30*k), 500)
			whole[name].Merge(h)
			s.Histograms = append(s.Histograms, record.Histogram{Name: name, Start: time.Duration(second) * time.Second, End: time.Duration(second+1) * time.Second, Data: encoded(h)})
		}
		rates.Values = append(rates.Values, 20_000+100*float64(second%3))
	}
	for _, name := range []string{"latency", "service"} {
		s.Histograms = append(s.Histograms, record.Histogram{Name: name, Data: encoded(whole[name])})
	}
	s.Series = []record.Series{rates}
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", 50}, {"p99", 99}, {"p999", 99.9}} {
		s.Metrics = append(s.Metrics, record.Metric{Name: q.name, Unit: "µs", Better: record.Lower, Value: float64(whole["latency"].ValueAtQuantile(q.part)) / 1e3})
	}
	s.Metrics = append(s.Metrics, record.Metric{Name: "server CPU", Unit: "µs/req", Better: record.Lower, Value: float64(micros) / 30})
	s.Rate, s.Errors = new(20000.5), new(int64)
	return s
}
