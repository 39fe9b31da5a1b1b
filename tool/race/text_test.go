package race

import (
	"io"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load"
)

// A missing figure has no ratio, and its cell in the tables is empty.
func TestReportRatios(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	inline := engine.Events(engine.Inline).Name()
	r := &Report{
		Valid: true,
		Engines: []*Entry{
			{Engine: "net-direct", PingPong: Lap{Rate: of(1000)}, Pipelined: Lap{Rate: of(4000)}, IdleBytes: of(12_345)},
			{Engine: "events", PingPong: Lap{Rate: of(2500)}},
		},
		Beside: []*Beside{{Engine: withBuffers, P99: of(200)}, {Engine: engine.Events(engine.Auto).Name(), P99: of(300)}, {Engine: inline, P99: of(50_000)}},
	}
	r.compare()
	if got := r.Engines[1]; *got.PingPong.Ratio != 2.5 || got.Pipelined.Ratio != nil {
		t.Errorf("ratios to direct: %v, %v", *got.PingPong.Ratio, got.Pipelined.Ratio)
	}
	if got := *r.beside(inline).ToNet; got != 250 {
		t.Errorf("ratio to buffers on net: %v", got)
	}
	text := written(r.Text)
	if strings.Index(text, "memory per") > strings.Index(text, "requests/s") {
		t.Errorf("memory, which holds on a busy machine, comes after rates:\n%s", text)
	}
	for _, want := range []string{"2.50 ×", "12.1 KiB", "– ", "p99 300 µs = 1.50 × net-buffered", "50.0 ms = 250 × net-buffered"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// The figures of a load that is not valid do not count, nor do ratios to them.
func TestInvalidLapsHaveNoFigures(t *testing.T) {
	r := &load.Result{Valid: true, Rate: new(1000.0)}
	r.Latency.P99, r.Service.P99 = new(5.0), new(4.0)
	used := &load.Server{CPUPerRequest: new(3.0)}
	if l, b := lapOf(r, used), besideOf(withBuffers, r); *l.Rate != 1000 || *l.P99 != 5 || *l.ServerCPU != 3 || *b.P99 != 4 {
		t.Errorf("a valid one has %+v, %+v", l, b)
	}
	r.Valid = false
	report := &Report{InvalidReasons: []string{"late; wait"}, Engines: []*Entry{{Engine: "net-direct", PingPong: lapOf(r, used)}, {Engine: "events", PingPong: Lap{Rate: new(2000.0)}}}, Beside: []*Beside{besideOf(withBuffers, r)}}
	report.compare()
	if l := report.Engines[0].PingPong; l != (Lap{}) || *report.Beside[0] != (Beside{Engine: withBuffers}) || report.Engines[1].PingPong.Ratio != nil {
		t.Errorf("one that is not valid has %+v, %+v", l, report.Beside[0])
	}
	if text := written(report.Text); strings.Contains(text, "1,000") || !strings.Contains(text, "2,000") {
		t.Errorf("shown as\n%s", text)
	}
}

// A lap without a time has its other figures, and the table says why.
func TestWithheldTimesAreExplained(t *testing.T) {
	lap := Lap{Rate: new(1000.0), P50: new(5.0), P99: new(9.0)}
	r := &Report{Valid: true, Engines: []*Entry{{Engine: "net-direct", PingPong: lap, Pipelined: lap}}}
	if why := r.Withheld(); why != "" {
		t.Errorf("nothing is missing, and it says %q", why)
	}
	r.Engines[0].Pipelined.P99 = nil
	if why := r.Withheld(); why == "" || !strings.Contains(written(r.Text), why) {
		t.Errorf("a time is missing, and it says %q", why)
	}
}

// written returns what a function writes.
func written(write func(io.Writer)) string {
	var b strings.Builder
	write(&b)
	return b.String()
}
