package race

import (
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// A missing figure has no ratio, and its cell in the tables is empty.
func TestReportRatios(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	inline, parked := engine.Events(engine.Inline).Name(), engine.Parked(0).Name()
	r := &Report{
		Valid: true,
		Engines: []*Entry{
			{Engine: "direct", PingPong: Lap{Rate: of(1000)}, Pipelined: Lap{Rate: of(4000)}, IdleBytes: of(12_345)},
			{Engine: "events", PingPong: Lap{Rate: of(2500)}},
		},
		Beside: []*Beside{{Engine: parked, P99: of(200)}, {Engine: engine.Events(engine.Auto).Name(), P99: of(300)}, {Engine: inline, P99: of(50_000)}},
	}
	r.compare()
	if got := r.Engines[1]; *got.PingPong.Ratio != 2.5 || got.Pipelined.Ratio != nil {
		t.Errorf("ratios to direct: %v, %v", *got.PingPong.Ratio, got.Pipelined.Ratio)
	}
	if got := *r.beside(engine.Events(engine.Inline)).ToParked; got != 250 {
		t.Errorf("ratio to parked: %v", got)
	}
	text := r.Text()
	for _, want := range []string{"2.50 ×", "12,345 bytes", "– ", "p99 300 µs = 1.50 × parked", "50.0 ms = 250 × parked"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}
