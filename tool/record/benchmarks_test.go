package record

import (
	"bytes"
	"fmt"
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

const goTest = `goos: linux
goarch: amd64
pkg: example.com/a
cpu: Xeon
commit: abc
BenchmarkEcho/depth=16-2         	 1000	      1200 ns/op	  3.50 MB/s	       7 widgets/s	       0 B/op
BenchmarkOther-2   	 1000	      5 ns/op
BenchmarkEcho/depth=16-2         	 1000	      1300 ns/op	  3.40 MB/s	       8 widgets/s	       0 B/op
PASS
pkg: example.com/b
BenchmarkOther-2   	 1000	      6 ns/op
ok  	example.com/b	1.2s
`

func TestReadBenchmarks(t *testing.T) {
	all, err := ReadBenchmarks("old.txt", strings.NewReader(goTest))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		for _, s := range r.Samples {
			got = append(got, fmt.Sprintf("%s %s %d %v %v", r.Scenario.Name, r.Environment.Strict["pkg"], s.Order, s.Valid, s.Metrics))
		}
	}
	want := []string{
		"Echo/depth=16-2 example.com/a 1 true [{sec/op sec/op lower 1.2000000000000002e-06} {B/s B/s higher 3.5e+06} {widgets/s widgets/s higher 7} {B/op B/op lower 0}]",
		"Echo/depth=16-2 example.com/a 3 true [{sec/op sec/op lower 1.3e-06} {B/s B/s higher 3.4e+06} {widgets/s widgets/s higher 8} {B/op B/op lower 0}]",
		"Other-2 example.com/a 2 true [{sec/op sec/op lower 5e-09}]",
		"Other-2 example.com/b 4 true [{sec/op sec/op lower 6.000000000000001e-09}]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	environment := Environment{
		Strict: map[string]string{"goos": "linux", "goarch": "amd64", "pkg": "example.com/a", "cpu": "Xeon"},
		Soft:   map[string]string{"commit": "abc"},
	}
	if !reflect.DeepEqual(all[0].Environment, environment) {
		t.Errorf("%+v", all[0].Environment)
	}
	if all[1].Scenario.Hash() == all[2].Scenario.Hash() {
		t.Error("benchmarks of two packages are the same scenario")
	}
	s := opened(t, newPath(t))
	add(t, s, all...)
	checkWhole(t, s)
}

// Written benchmarks are read back with validity and direction.
func TestBenchmarksComeBack(t *testing.T) {
	var b bytes.Buffer
	if err := WriteBenchmarks(&b, sampleRun("x")); err != nil {
		t.Fatal(err)
	}
	all, err := ReadBenchmarks("x", &b)
	if err != nil || len(all) != 1 || len(all[0].Samples) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	first, second := all[0].Samples[0], all[0].Samples[1]
	want := []Metric{{"rate-req/s", "rate-req/s", Higher, 292e3}, {"p99-µs", "p99-µs", Lower, 0.1}}
	if !first.Valid || second.Valid || len(second.Reasons) != 1 || !reflect.DeepEqual(first.Metrics, want) {
		t.Errorf("%+v", all[0].Samples)
	}
}

func TestReadBenchmarksRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":        "",
		"another format": "{}\n",
		"no count":       "BenchmarkX many 1 ns/op\n",
		"a long line":    "BenchmarkX 1 1 " + strings.Repeat("x", 1<<17),
	} {
		if all, err := ReadBenchmarks("x", strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", what, all)
		}
	}
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
