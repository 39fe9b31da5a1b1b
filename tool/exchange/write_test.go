package exchange_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exchange"
	"github.com/hone-go/hone/tool/record"
)

// encoded is a histogram of these times, as a store keeps it.
func encoded(t *testing.T, times ...time.Duration) []byte {
	t.Helper()
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for _, d := range times {
		if err := h.RecordValue(int64(d)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := h.EncodeV2()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// loaded is a run of an open loop with two seconds of two requests each, and the same again
// as a sample that is not valid.
func loaded(t *testing.T, name string) *record.Run {
	t.Helper()
	const ms = time.Millisecond
	r := &record.Run{
		ID: "3f9c2a71b04e", Name: name, Made: "load", At: time.Date(2026, 11, 21, 22, 56, 3, 500e6, time.UTC),
		Scenario: record.Scenario{Name: `say "x", please`},
	}
	for i := range 2 {
		r.Samples = append(r.Samples, record.Sample{
			At: r.At.Add(time.Duration(i) * time.Minute), Valid: i == 0, Reasons: []string{"busy"}[:i],
			Metrics: []record.Metric{{Name: "p50", Unit: "µs", Better: record.Lower, Value: 1000 + float64(i)}, {Name: "server CPU", Unit: "µs/req", Value: 2.5}, {Name: "none", Unit: "B", Value: math.NaN()}},
			Histograms: []record.Histogram{
				{Name: "latency", Data: encoded(t, ms, 2*ms, 3*ms, 40*ms)},
				{Name: "service", Data: encoded(t, ms, ms, 3*ms, 3*ms)},
				{Name: "latency", Start: time.Second, End: 2 * time.Second, Data: encoded(t, 3*ms, 40*ms)},
				{Name: "latency", End: time.Second, Data: encoded(t, ms, 2*ms)},
				{Name: "service", End: time.Second, Data: encoded(t, ms, ms)},
				{Name: "service", Start: time.Second, End: 2 * time.Second, Data: encoded(t, 3*ms, 3*ms)},
			},
			Series: []record.Series{{Name: "rate", Step: time.Second, Values: []float64{2, math.NaN()}}, {Name: "errors", Step: time.Second, Values: []float64{0, 1}}},
		})
	}
	return r
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteIntervals(t *testing.T) {
	r := loaded(t, "before")
	got := written(t, func(w io.Writer) error { return exchange.WriteIntervals(w, r) })
	want := `run,name,scenario,sample,valid,start_s,end_s,rate,errors,requests,mean_us,p50_us,p90_us,p95_us,p99_us,p999_us,max_us,service_p50_us,service_p99_us,service_max_us
3f9c2a71b04e,before,"say ""x"", please",1,true,0,1,2,0,2,1500.288,1000.447,,,,,2000.895,1000.447,,1000.447
3f9c2a71b04e,before,"say ""x"", please",1,true,1,2,,1,2,21496.32,3000.319,,,,,40009.727,3000.319,,3000.319
`
	if !strings.HasPrefix(got, want) || strings.Count(got, ",2,false,") != 2 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// v2 decodes a histogram by the published format alone: base64 of a cookie, a length and
// deflated bytes; in these a cookie, six fields, and counts as ZigZag numbers of LEB128, where
// a negative one is that many counts of nothing. It returns how many values there are, and
// the highest slot that has some.
func v2(t *testing.T, text string) (values int64, slots int) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < 8 || binary.BigEndian.Uint32(raw) != 0x1c849304|0x10 {
		t.Fatalf("%x, %v", raw[:min(8, len(raw))], err)
	}
	if n := binary.BigEndian.Uint32(raw[4:]); int(n) != len(raw)-8 {
		t.Fatalf("it says %d deflated bytes and has %d", n, len(raw)-8)
	}
	deflated, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(deflated)
	if err != nil || len(plain) < 40 || binary.BigEndian.Uint32(plain) != 0x1c849303|0x10 {
		t.Fatalf("%x, %v", plain, err)
	}
	if digits := binary.BigEndian.Uint32(plain[12:]); digits != 3 {
		t.Errorf("%d digits", digits)
	}
	counts := plain[40:]
	if n := binary.BigEndian.Uint32(plain[4:]); int(n) != len(counts) {
		t.Fatalf("it says %d bytes of counts and has %d", n, len(counts))
	}
	for len(counts) > 0 {
		n, used := binary.Varint(counts) // ZigZag of LEB128, as Go has it
		if used <= 0 {
			t.Fatalf("no number in %x", counts)
		}
		counts = counts[used:]
		if n < 0 {
			slots -= int(n)
			continue
		}
		values, slots = values+n, slots+1
	}
	return values, slots
}

func TestWriteHistogramLog(t *testing.T) {
	r := loaded(t, "before")
	log := written(t, func(w io.Writer) error { return exchange.WriteHistogramLog(w, r) })
	const head = "#[hone run 3f9c2a71b04e, before]\n#[Histogram log format version 1.3]\n" +
		"#[StartTime: 1795301763.500 (seconds since epoch), 2026-11-21T22:56:03Z]\n" +
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"` + "\n"
	lines, ok := strings.CutPrefix(log, head)
	if !ok {
		t.Fatalf("%s", log)
	}
	line := regexp.MustCompile(`^(Tag=[A-Za-z-]+,)?([\d.]+,[\d.]+,[\d.]+),([A-Za-z0-9+/=]+)\n$`)
	var got []string
	for text := range strings.Lines(lines) {
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q is no line of the format", text)
		}
		values, slots := v2(t, m[3])
		got = append(got, fmt.Sprintf("%s%s %d %v", m[1], m[2], values, slots > 1000))
	}
	want := []string{
		"0.000,1.000,2.001 2 true", "1.000,1.000,40.010 2 true",
		"Tag=service,0.000,1.000,1.000 2 true", "Tag=service,1.000,1.000,3.000 2 true",
		"Tag=INVALID-latency,60.000,1.000,2.001 2 true", "Tag=INVALID-latency,61.000,1.000,40.010 2 true",
		"Tag=INVALID-service,60.000,1.000,1.000 2 true", "Tag=INVALID-service,61.000,1.000,3.000 2 true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(log))
	count := 0
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		if count == 1 && (h.Max() != 40009727 || h.StartTimeMs() != r.At.UnixMilli()+1000) {
			t.Errorf("the second has a maximum of %d and begins at %d", h.Max(), h.StartTimeMs())
		}
		count++
	}
	if count != len(want) {
		t.Errorf("a reader finds %d histograms, not %d", count, len(want))
	}
}

func TestWriteOpenMetrics(t *testing.T) {
	r := loaded(t, `be"fore`)
	second := loaded(t, "")
	second.Samples = second.Samples[1:]
	text := written(t, func(w io.Writer) error { return exchange.WriteOpenMetrics(w, r, second) })
	for _, want := range []string{
		"# TYPE hone_p50_seconds gauge\nhone_p50_seconds{run=\"be\\\"fore\"} 0.001\n# HELP",
		"hone_server_cpu_seconds_per_request{run=\"be\\\"fore\"} 0.0000025\n",
		`hone_response_time_seconds_bucket{run="be\"fore",le="0.001"} 1` + "\n",
		`hone_response_time_seconds_bucket{run="be\"fore",le="0.005"} 3` + "\n",
		`hone_response_time_seconds_bucket{run="be\"fore",le="+Inf"} 4` + "\n",
		`hone_response_time_seconds_count{run="be\"fore"} 4` + "\n",
		`hone_run_samples{run="3f9c2a71b04e",valid="false"} 1` + "\n",
		`hone_run_start_time_seconds{run="be\"fore"} 1795301763.5` + "\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, `p50_seconds{run="3f9`) || !strings.HasSuffix(text, "\n# EOF\n") || strings.Contains(text, "NaN") {
		t.Errorf("a figure of no valid sample, no end, or no number:\n%s", text)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		testrun.Lacks(t, "no promtool; make deps installs it")
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("promtool: %v\n%s", err, said)
	}
}

// Names have base units, and no letter that Prometheus refuses, whatever figures are called.
func TestMetricNames(t *testing.T) {
	r := &record.Run{Name: "x", Samples: []record.Sample{{Valid: true, Metrics: []record.Metric{
		{Name: "sec/op", Unit: "sec/op", Value: 2}, {Name: "widgets/s", Unit: "widgets/s", Value: 3},
		{Name: "rate", Unit: "req/s", Value: 4}, {Name: "längste Zeit", Unit: "µs", Value: 5}, {Name: "Rate!", Unit: "req/s", Value: 6},
	}}}}
	text := written(t, func(w io.Writer) error { return exchange.WriteOpenMetrics(w, r) })
	got := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9_]+)\{run="x"\} `).FindAllStringSubmatch(text, -1) {
		got[m[1]] = true
	}
	want := map[string]bool{
		"hone_benchmark_seconds_per_operation": true, "hone_benchmark_widgets_per_s": true, "hone_rate_requests_per_second": true,
		"hone_l_ngste_zeit_seconds": true, "hone_run_start_time_seconds": true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v:\n%s", got, want, text)
	}
}

func TestNothingToWrite(t *testing.T) {
	bare := &record.Run{ID: "x", Samples: []record.Sample{{Valid: true}}}
	damaged := &record.Run{ID: "x", Samples: []record.Sample{{Valid: true, Histograms: []record.Histogram{{Name: "latency", Data: []byte("?")}}}}}
	for what, write := range map[string]func(io.Writer, *record.Run) error{
		"intervals": func(w io.Writer, r *record.Run) error { return exchange.WriteIntervals(w, r) },
		"hdr":       exchange.WriteHistogramLog,
	} {
		if said := fmt.Sprint(write(io.Discard, bare)); !strings.Contains(said, "use --format csv") {
			t.Errorf("%s of a run without histograms: %s", what, said)
		}
		if said := fmt.Sprint(write(io.Discard, damaged)); !strings.Contains(said, "cannot be read") {
			t.Errorf("%s of a damaged histogram: %s", what, said)
		}
	}
	if err := exchange.WriteOpenMetrics(io.Discard, damaged); err == nil {
		t.Error("OpenMetrics of a damaged histogram")
	}
}

// benchstat itself reads what is exported for it.
func TestBenchstatReadsExport(t *testing.T) {
	if !testrun.All() {
		t.Skip("builds benchstat; HONE_TEST_ALL=1 runs it")
	}
	file := t.TempDir() + "/runs.txt"
	r := loaded(t, "x")
	r.Scenario.Name = "echo"
	text := written(t, func(w io.Writer) error { return record.WriteBenchmarks(w, r) })
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "go", "run", "golang.org/x/perf/cmd/benchstat", file).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "p50-") || !strings.Contains(string(said), "echo") {
		t.Errorf("%v\n%s", err, said)
	}
}
