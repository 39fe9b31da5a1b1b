package probe

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// TestPlantedHotSpot profiles two real programs under load, and checks that the function
// that became slower is listed first. On a busy machine a profile has few samples, and
// the next attempt takes longer.
func TestPlantedHotSpot(t *testing.T) {
	t.Parallel() // it waits more than it works
	var wrong string
	for _, lasts := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		if wrong = plantedIsFirst(t, lasts); wrong == "" {
			return
		}
		t.Logf("profiles of %v: %s", lasts, wrong)
	}
	t.Error(wrong)
}

// plantedIsFirst compares the programs by profiles of that length.
func plantedIsFirst(t *testing.T, lasts time.Duration) (wrong string) {
	t.Helper()
	var both [2]*Profile
	var side sync.WaitGroup
	for i, rounds := range []string{"0", "400000"} { // at once: CPU time of a request is the same beside others
		r := start(t, "-planted", rounds)
		side.Go(func() {
			var taken []record.Artefact
			var err error
			rate := r.underLoad(t, func() { taken, err = Source{URL: r.addr, For: lasts}.Take(t.Context(), CPU) })
			if err == nil {
				both[i], err = OfRun(&record.Run{Samples: []record.Sample{sample(rate, taken...)}}, CPU)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if side.Wait(); t.Failed() {
		t.FailNow()
	}
	v, err := NewView(both[1], both[0])
	if err != nil {
		t.Fatal(err)
	}
	top := v.Top()
	if len(top) == 0 {
		return "no function has a sample"
	}
	if first := top[0]; v.Per != PerMillion || first.Function != "main.planted" || first.FlatGrowth() < 100 {
		return fmt.Sprintf("%s: %+v", v.Per, first) // 400,000 rounds take at least 300 µs
	}
	return ""
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// viewOf makes a view of runs with these samples.
func viewOf(t *testing.T, kind Kind, runs ...[]record.Sample) *View {
	t.Helper()
	var both [2]*Profile
	for i, samples := range runs {
		var err error
		if both[i], err = OfRun(&record.Run{Samples: samples}, kind); err != nil {
			t.Fatal(err)
		}
	}
	v, err := NewView(both[0], both[1])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func find(t *testing.T, lines []Line, function string) Line {
	t.Helper()
	for _, l := range lines {
		if l.Function == function {
			return l
		}
	}
	t.Fatalf("there is no %s in %+v", function, lines)
	return Line{}
}

// TestScale checks that one second of work in ten at 1,000/s is 100 CPU-seconds per
// million.
func TestScale(t *testing.T) {
	one := made(t, CPU, 10*time.Second, map[string]int64{"hot<main": 1e9, "main": 1e8})
	v := viewOf(t, CPU, []record.Sample{sample(1000, one)})
	hot, main := find(t, v.Top(), "hot"), find(t, v.Top(), "main")
	if v.Per != PerMillion || !near(hot.Flat, 100) || !near(hot.Cum, 100) || !near(main.Flat, 10) || !near(main.Cum, 110) || !near(v.Total, 110) {
		t.Errorf("%s: %+v %+v of %g", v.Per, hot, main, v.Total)
	}

	// Samples have equal weight, whatever their length and load.
	other := made(t, CPU, time.Second, map[string]int64{"hot<main": 4e8})
	v = viewOf(t, CPU, []record.Sample{sample(1000, one), sample(2000, other)})
	if hot := find(t, v.Top(), "hot"); !near(hot.Flat, 150) {
		t.Errorf("the mean of 100 and 200 is %g", hot.Flat)
	}

	// Twice the work for twice the requests is not growth.
	twice := made(t, CPU, 10*time.Second, map[string]int64{"hot<main": 2e9, "main": 2e8})
	v = viewOf(t, CPU, []record.Sample{sample(2000, twice)}, []record.Sample{sample(1000, one)})
	for _, l := range v.Top() {
		if !near(l.FlatGrowth(), 0) || !near(l.CumGrowth(), 0) {
			t.Errorf("it grew: %+v", l)
		}
	}

	// Without a load on one side the scale is seconds, and without a duration there is
	// none.
	v = viewOf(t, CPU, []record.Sample{sample(0, twice)}, []record.Sample{sample(1000, one)})
	if hot := find(t, v.Top(), "hot"); v.Per != PerSecond || !near(hot.Flat, 0.2) || !near(*hot.FlatBefore, 0.1) {
		t.Errorf("%s: %+v", v.Per, hot)
	}
	v = viewOf(t, CPU, []record.Sample{sample(1000, made(t, CPU, 0, map[string]int64{"hot": 1e9}))}, []record.Sample{sample(1000, one)})
	if hot := find(t, v.Top(), "hot"); v.Per != AsTaken || !near(hot.Flat, 1) || !near(*hot.FlatBefore, 1) {
		t.Errorf("%s: %+v", v.Per, hot)
	}
}

func TestTopOfTwo(t *testing.T) {
	before := made(t, CPU, time.Second, map[string]int64{"same<main": 9e8, "gone<main": 2e8, "f<f<f<main": 1e8})
	now := made(t, CPU, time.Second, map[string]int64{"same<main": 9e8, "new<grown<main": 5e8, "f<f<f<main": 2e8})
	v := viewOf(t, CPU, []record.Sample{sample(1e6, now)}, []record.Sample{sample(1e6, before)})
	var order []string
	for _, l := range v.Top() {
		order = append(order, l.Function)
	}
	if got := strings.Join(order, " "); got != "new gone f main same grown" {
		t.Errorf("by flat: %s", got)
	}
	gone, f := find(t, v.Top(), "gone"), find(t, v.Top(), "f")
	if !near(gone.FlatGrowth(), -0.2) || gone.Flat != 0 || !near(f.Cum, 0.2) || !near(*f.CumBefore, 0.1) {
		t.Errorf("%+v %+v", gone, f)
	}
	if !near(v.Total, 1.6) || !near(*v.Before, 1.2) {
		t.Errorf("all of it is %g after %g", v.Total, *v.Before)
	}
}

func TestProfilesThatAreNotThere(t *testing.T) {
	cpu, allocs := made(t, CPU, time.Second, map[string]int64{"a": 1}), made(t, Allocs, 0, map[string]int64{"a": 1})
	run := &record.Run{ID: "0123", Samples: []record.Sample{sample(1, cpu, record.Artefact{Kind: "trace"})}}
	if got := KindsOf(run); fmt.Sprint(got) != "[cpu]" {
		t.Errorf("it has %v", got)
	}
	_, err := OfRun(run, Allocs)
	if said := fmt.Sprint(err); !strings.Contains(said, "run 0123 has no allocs profile (it has cpu); take one: hone bench --profile allocs --pprof URL") {
		t.Errorf("%v", err)
	}
	if _, err := Parse([]byte("nonsense"), CPU); !strings.Contains(fmt.Sprint(err), "; give a file that") {
		t.Errorf("%v", err)
	}
	if _, err := Parse(cpu.Data, Allocs); !strings.Contains(fmt.Sprint(err), "; give another --kind") {
		t.Errorf("%v", err)
	}
	a, _ := Parse(cpu.Data, CPU)
	b, _ := Parse(allocs.Data, Allocs)
	if _, err := NewView(a, b); !strings.Contains(fmt.Sprint(err), "; compare two of a kind") {
		t.Errorf("%v", err)
	}
}

// A view reports the samples of a CPU profile, and why the load was not valid.
func TestViewSaysWhatItRestsOn(t *testing.T) {
	now, before := made(t, CPU, time.Second, map[string]int64{"a<main": 9e8, "b<main": 1e8}), made(t, CPU, time.Second, map[string]int64{"a<main": 9e8})
	good, bad := sample(1e6, now), sample(1e6, before)
	bad.Reasons = []string{"other programs had the CPUs"}
	v := viewOf(t, CPU, []record.Sample{good, good}, []record.Sample{bad, good, bad})
	if *v.Samples != 4 || *v.SamplesBefore != 4 || len(v.Doubts) != 0 || fmt.Sprint(v.DoubtsBefore) != "[other programs had the CPUs]" {
		t.Errorf("from %d samples and %d, doubts %q and %q", *v.Samples, *v.SamplesBefore, v.Doubts, v.DoubtsBefore)
	}
	if v := viewOf(t, Allocs, []record.Sample{sample(0, made(t, Allocs, 0, map[string]int64{"a": 1}))}); v.Samples != nil {
		t.Errorf("a profile of allocations has %d samples", *v.Samples)
	}
}

// Rows of a sample or two of a short profile may be chance, which is said.
func TestFewSamples(t *testing.T) {
	for n, want := range map[int]string{13: "only 13 samples: a row of one or two may be chance", fewSamples: ""} {
		stacks := map[string]int64{}
		for i := range n {
			stacks[fmt.Sprintf("f%d<main", i)] = 1e7
		}
		v := viewOf(t, CPU, []record.Sample{sample(0, made(t, CPU, time.Second, stacks))})
		few, two := v.Few()
		r := NewReport(v, []string{"run"})
		r.Largest(3)
		if text := new(strings.Builder); !strings.HasPrefix(few, want) || (few == "") != (want == "") || few != "" && !near(two, 0.02) {
			t.Errorf("%d samples: %q, %g", n, few, two)
		} else if r.WriteTop(text); strings.Contains(text.String(), "note: "+few) != (few != "") {
			t.Errorf("%d samples:\n%s", n, text)
		}
	}
}
