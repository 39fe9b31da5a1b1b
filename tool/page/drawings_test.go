package page_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

// addStacks gives a run a CPU profile of these stacks, innermost first, in milliseconds.
func addStacks(t *testing.T, run *record.Run, stacks map[string]int64) {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7, DurationNanos: int64(time.Second),
	}
	known := map[string]*profile.Location{}
	for stack, ms := range stacks {
		s := &profile.Sample{Value: []int64{ms / 10, ms * int64(time.Millisecond)}}
		for name := range strings.FieldsSeq(stack) {
			if known[name] == nil {
				f := &profile.Function{ID: uint64(len(known) + 1), Name: name}
				known[name] = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, known[name])
			}
			s.Location = append(s.Location, known[name])
		}
		p.Sample = append(p.Sample, s)
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	sample := sampleOf(t, run.At.Add(time.Hour), 200, len(run.Samples)+1)
	sample.Valid, sample.Unfit = false, record.Profiled
	sample.Artefacts = append(sample.Artefacts, record.Artefact{Kind: "cpu", Name: "cpu.pb.gz", Data: data.Bytes()})
	run.Samples = append(run.Samples, sample)
}

// TestFunctions checks that the report of two runs has the functions of both profiles, with their
// difference.
func TestFunctions(t *testing.T) {
	b := openTab(t)
	before, after := runOf(t, "before", 200, 3), runOf(t, "after", 150, 3)
	addStacks(t, before, map[string]int64{"net/http.read main.handle main.main": 300, "main.slow main.handle main.main": 300, "main.main": 200})
	addStacks(t, after, map[string]int64{"net/http.read main.handle main.main": 300, "main.main": 100, "main.fast main.main": 400})
	file := filepath.Join(t.TempDir(), "report.html")
	writeReport(t, file, after, before, page.Judged{})
	b.size(1280, 900, false)
	b.do(chromedp.Navigate("file://" + file))
	b.await(`document.querySelectorAll("[data-hot] tr").length > 1`)
	if got := eval[string](b, `[...document.querySelectorAll("[data-hot] tr")].map((r) => [...r.cells].map((c) => c.textContent).join(" ")).join("\n")`); !strings.Contains(got, "function self (flat) earlier difference") || !strings.Contains(got, "main.slow 0 µs 15.0 s −15.0 s") || !strings.Contains(got, "main.fast 20.0 s 0 µs +20.0 s") || !strings.Contains(got, "net/http.read 15.0 s 15.0 s +0 µs") {
		t.Errorf("the functions are\n%s", got)
	}
	b.quiet("file://" + file)
}

// TestKneeIsShown checks that each trial of a search has a mark, and that the page states
// the bracket.
func TestKneeIsShown(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone knee 127.0.0.1:7000"}
	address := serve(t, p, &observe.Guard{})
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-link]").textContent === "live"`)
	if eval[bool](b, `document.querySelector("[data-search]").checkVisibility()`) {
		t.Error("a page without a search has one")
	}
	goal, met, missed := 5000.0, 40_000.0, 44_000.0
	k := knee.Report{Unit: "req/s", Drawn: "p99", Goal: &goal, Knee: knee.Range{Goal: "p99<5ms"}}
	s := second(0)
	s.Segment = page.Segment{Group: "trials", Name: "trial 1"}
	p.Load(s)
	try := func(load, micros float64, full, valid, met bool) {
		k.Trials = append(k.Trials, knee.Point{Load: load, Plotted: &micros, Full: full, Valid: valid, Met: met})
		now := k
		p.Search(&now)
	}
	for load := 1000.0; load < 40_000; load *= 2 {
		try(load, 200+load/100, false, true, true)
	}
	try(64_000, 90_000, false, false, false)
	k.Knee.Met = &met
	try(40_000, 2100, true, true, true)
	b.await(`document.querySelector("[data-knee-says]").textContent === "p99<5ms: met up to 40\u2009000 req/s, so far"`)
	k.Knee.Missed = &missed
	try(44_000, 21_000, true, true, false)
	b.await(`document.querySelector("[data-knee-says]").textContent === "p99<5ms: met up to 40\u2009000 req/s, missed from 44\u2009000 req/s, so far"`)
	for kind, want := range map[string]int{".met": 7, ".missed": 1, ".unclear": 1, "rect.knee": 1, ".goal": 1} {
		if n := eval[int](b, `document.querySelectorAll("[data-knee] `+kind+`").length`); n != want {
			t.Errorf("%d of %s, want %d", n, kind, want)
		}
	}
	if n := eval[int](b, `document.querySelectorAll("[data-knee-trials] tbody tr").length`); n != 9 {
		t.Errorf("the table has %d trials", n)
	}
	p.End(page.Verdict{Status: page.Valid})
	b.await(`document.querySelector("[data-knee-says]").textContent.endsWith("missed from 44\u2009000 req/s")`)
	for _, look := range []struct {
		name  string
		width int64
		dark  bool
	}{{"knee-light", 1280, false}, {"knee-dark", 1280, true}, {"knee-phone", 390, false}} {
		b.size(look.width, 900, look.dark)
		b.settle()
		if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > look.width {
			t.Errorf("%s is %d pixels wide", look.name, wide)
		}
		for _, bad := range eval[[]string](b, contrastScript) {
			t.Errorf("%s: %s", look.name, bad)
		}
		b.shot(look.name)
	}
	b.quiet(address)
}
