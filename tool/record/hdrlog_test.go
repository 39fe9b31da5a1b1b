package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/internal/testrun"
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
func loaded(t *testing.T, name string) *Run {
	t.Helper()
	const ms = time.Millisecond
	r := &Run{
		ID: "3f9c2a71b04e", Name: name, Made: "load", At: time.Date(2026, 11, 21, 22, 56, 3, 500e6, time.UTC),
		Scenario: Scenario{Name: `say "x", please`},
	}
	for i := range 2 {
		r.Samples = append(r.Samples, Sample{
			At: r.At.Add(time.Duration(i) * time.Minute), Valid: i == 0, Reasons: []string{"busy"}[:i],
			Metrics: []Metric{{Name: "p50", Unit: "µs", Better: Lower, Value: 1000 + float64(i)}, {Name: "server CPU", Unit: "µs/req", Value: 2.5}, {Name: "none", Unit: "B", Value: math.NaN()}},
			Histograms: []Histogram{
				{Name: "latency", Data: encoded(t, ms, 2*ms, 3*ms, 40*ms)},
				{Name: "service", Data: encoded(t, ms, ms, 3*ms, 3*ms)},
				{Name: "latency", Start: time.Second, End: 2 * time.Second, Data: encoded(t, 3*ms, 40*ms)},
				{Name: "latency", End: time.Second, Data: encoded(t, ms, 2*ms)},
				{Name: "service", End: time.Second, Data: encoded(t, ms, ms)},
				{Name: "service", Start: time.Second, End: 2 * time.Second, Data: encoded(t, 3*ms, 3*ms)},
			},
			Series: []Series{{Name: "rate", Step: time.Second, Values: []float64{2, math.NaN()}}, {Name: "errors", Step: time.Second, Values: []float64{0, 1}}},
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
	log := written(t, func(w io.Writer) error { return WriteHistogramLog(w, r) })
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

func TestNothingToWrite(t *testing.T) {
	bare := &Run{ID: "x", Samples: []Sample{{Valid: true}}}
	damaged := &Run{ID: "x", Samples: []Sample{{Valid: true, Histograms: []Histogram{{Name: "latency", Data: []byte("?")}}}}}
	for r, says := range map[*Run]string{bare: "use --format csv", damaged: "cannot be read"} {
		if said := fmt.Sprint(WriteHistogramLog(io.Discard, r)); !strings.Contains(said, says) {
			t.Errorf("%s, want %s", said, says)
		}
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
	text := written(t, func(w io.Writer) error { return WriteBenchmarks(w, r) })
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "go", "run", "golang.org/x/perf/cmd/benchstat", file).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "p50-") || !strings.Contains(string(said), "echo") {
		t.Errorf("%v\n%s", err, said)
	}
}
