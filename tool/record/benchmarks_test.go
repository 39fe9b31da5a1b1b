package record

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
	"pgregory.net/rapid"
)

func TestWriteBenchmarks(t *testing.T) {
	r := sampleRun("before")
	r.ID = "3f9c2a71b04e"
	r.Environment.Soft["Load Average: 1m"] = " 0.5\n0.4 "
	r.Environment.Soft["valid"] = "x"
	r.Environment.Soft["none"] = ""
	var b bytes.Buffer
	if err := WriteBenchmarks(&b, r); err != nil {
		t.Fatal(err)
	}
	want := `Unit rate-req/s better=higher
Unit p99-µs better=lower
Unit none-B better=lower
# run 3f9c2a71b04e, made by bench at 2026-11-21T22:56:03Z
cpu: Xeon <8>
goos: linux
load-average--1m: 0.5 0.4
governor: schedutil
key-valid: x
scenario: echo 100 × 16
scenario-hash: HASH
scenario-text: target=tcp conns=100 depth=16

Benchmarkecho_100_×_16 1 292000 rate-req/s 0.1 p99-µs
# sample 2 is not valid: the generator was the bottleneck: 97 % of its CPU

valid: false

Benchmarkecho_100_×_16 1 292001 rate-req/s 1.1 p99-µs
`
	want = strings.Replace(want, "HASH", r.Scenario.Hash(), 1)
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	other := sampleRun("after")
	other.ID = "0123456789ab"
	b.Reset()
	if err := WriteBenchmarks(&b, r, other); err != nil {
		t.Fatal(err)
	}
	for line, n := range map[string]int{"side: before\n": 1, "side: after\n": 1, "cpu: ": 1, "scenario": 0, "governor": 0} {
		if got := strings.Count(b.String(), line); got != n {
			t.Errorf("of two runs: %d times %q in\n%s", got, line, b.String())
		}
	}
	other.Name = r.Name
	if sides := sidesOf([]*Run{r, other}); sides[r] != "before 3f9c2a71b04e" || sides[other] != "before 0123456789ab" {
		t.Errorf("of one name: %q, %q", sides[r], sides[other])
	}
}

// Whatever a run is called, readers of the format recover its figures exactly.
func TestBenchmarksAreRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := runs().Draw(rt, "run")
		var b bytes.Buffer
		if err := WriteBenchmarks(&b, r); err != nil {
			rt.Fatal(err)
		}
		var got, want [][]float64
		reader := benchfmt.NewReader(&b, "run")
		for reader.Scan() {
			switch line := reader.Result().(type) {
			case *benchfmt.SyntaxError:
				rt.Fatal(line)
			case *benchfmt.Result:
				units, values := map[string]bool{}, []float64{}
				for _, v := range line.Values {
					if v.OrigUnit == "" {
						v.OrigValue, v.OrigUnit = v.Value, v.Unit
					}
					units[v.OrigUnit] = true
					values = append(values, v.OrigValue)
				}
				got = append(got, values)
				if len(units) != len(values) {
					rt.Errorf("two figures have the same unit: %v", line.Values)
				}
				if strict := r.Environment.Strict["cpu"]; strict != "" && line.GetConfig("cpu") != oneLine(strict) {
					rt.Errorf("cpu %q, want %q", line.GetConfig("cpu"), strict)
				}
				if hash := line.GetConfig("scenario-hash"); hash != r.Scenario.Hash() {
					rt.Errorf("scenario %q, want %q", hash, r.Scenario.Hash())
				}
			}
		}
		if err := reader.Err(); err != nil {
			rt.Fatal(err)
		}
		for _, s := range r.Samples {
			values := []float64{}
			for _, m := range s.Metrics {
				if !math.IsNaN(m.Value) {
					values = append(values, m.Value)
				}
			}
			if len(values) > 0 {
				want = append(want, values)
			}
		}
		if !reflect.DeepEqual(got, want) {
			rt.Errorf("%v, want %v", got, want)
		}
	})
}

func TestWriteCSV(t *testing.T) {
	r := sampleRun(`say "x", please`)
	r.ID = "3f9c2a71b04e"
	var b bytes.Buffer
	if err := WriteCSV(&b, r, &Run{}); err != nil {
		t.Fatal(err)
	}
	want := `run,name,scenario,sample,pair,valid,metric,unit,value
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,1,1,true,rate,req/s,292000
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,1,1,true,p99,µs,0.1
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,1,1,true,none,B,
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,2,2,false,rate,req/s,292001
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,2,2,false,p99,µs,1.1
3f9c2a71b04e,"say ""x"", please",echo 100 × 16,2,2,false,none,B,
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
