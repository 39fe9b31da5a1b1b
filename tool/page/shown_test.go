package page_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

// everything returns figures for every chart.
func everything(context.Context) map[string]float64 {
	values := map[string]float64{}
	for key := range strings.FieldsSeq("s.rate s.cpureq s.cpu s.conns s.rss s.in s.out s.rejected s.owed s.outmem s.inmem s.inline s.handoffs g.goroutines g.heap g.goal g.gc g.pause g.sched h.busy h.softirq h.steal h.retrans") {
		values[key] = 0.4
	}
	maps.Copy(values, map[string]float64{"s.rate": 50_000, "s.cpureq": 6.4, "s.conns": 100, "s.rss": 48 << 20, "s.in": 3e6, "s.out": 2e6,
		"g.goroutines": 214, "g.heap": 9 << 20, "g.goal": 18 << 20, "g.gc": 1, "g.pause": 80, "g.sched": 14, "h.softirq": 0.1, "h.steal": 0.01, "m.0": 100, "m.1": 49_900})
	return values
}

var allGroups = []string{page.Client, page.Server, page.Runtime, page.Host}

// TestLooks puts the page into all its states, in both themes and on a phone, and checks
// that it is never wider than the screen and that all text has enough contrast.
func TestLooks(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load 127.0.0.1:7000", Groups: append([]string{page.Metrics}, allGroups...), Metrics: []string{"open", "requests_total per second"}, Sources: []page.Source{everything}, Baseline: runOf(t, "before", 200, 3),
		About: []page.Fact{{Name: "load", Value: "100 connections, 50000 requests a second"}}}
	address := serve(t, p, &observe.Guard{})
	each := func(name string) {
		for _, look := range []struct {
			name          string
			width, height int64
			dark          bool
		}{{"desktop-light", 1280, 900, false}, {"desktop-dark", 1280, 900, true}, {"phone-light", 375, 812, false}, {"phone-dark", 375, 812, true}} {
			b.size(look.width, look.height, look.dark)
			if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > look.width {
				t.Errorf("%s, %s: the page is %d pixels wide", name, look.name, wide)
			}
			for _, bad := range eval[[]string](b, contrastScript) {
				t.Errorf("%s, %s: %s", name, look.name, bad)
			}
			b.shot(name + "-" + look.name)
		}
	}
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-status]").textContent === "waiting" && document.querySelector("[data-link]").textContent === "live"`)
	each("empty")
	p.Load(page.Second{Progress: load.Progress{Phase: load.WarmingUp, Rate: 30_000, Conns: 100}})
	for n := range int64(12) {
		p.Load(second(n))
	}
	b.await(`document.querySelector("[data-figure=p99] dd").textContent !== "–" && document.querySelector("[data-status]").textContent === "running"`)
	if gap := eval[string](b, `document.querySelector("[data-figure=rate] .delta").textContent`); !strings.Contains(gap, "% of 20") {
		t.Errorf("the rate differs from the earlier run's by %q", gap)
	}
	if got := eval[string](b, `[...document.querySelectorAll("[data-jump=Metrics] figure")].map((e) => e.querySelector("figcaption").textContent).join("|")`); !strings.Contains(got, "requests_total per second") {
		t.Errorf("the chosen metrics are %q", got)
	}
	each("running")
	p.End(page.Verdict{Status: page.Valid, Figures: map[string]float64{"rate": 51_234, "p50": 190, "cpu": 6.4}})
	b.await(`document.querySelector("[data-status]").textContent === "valid"`)
	each("finished")
	p.End(page.Verdict{Status: page.Invalid, Reasons: []string{"the generator used 97 % of the CPU it has (the limit is 80 %); give it more CPUs, or offer less"}})
	b.await(`!document.querySelector("[data-banner]").hidden`)
	each("invalid")
	b.quiet(address)
}

// contrastScript lists texts with too little contrast to their background.
const contrastScript = `(() => {
	const parts = (text) => text.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => { const c = [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; if (c[3] > 0) throw new Error("see-through"); } return [255, 255, 255]; };
	const bad = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility({ visibilityProperty: true }) || e.closest("noscript, script")) continue;
		const a = light(parts(getComputedStyle(e).color)), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.add(e.tagName + " " + e.className + " " + JSON.stringify(e.textContent.slice(0, 40)) + " has a contrast of " + ratio.toFixed(2));
	}
	const root = getComputedStyle(document.documentElement), card = light(parts(hex(root.getPropertyValue("--card"))));
	function hex(text) { const n = parseInt(text.trim().slice(1), 16); return (n >> 16) + " " + (n >> 8 & 255) + " " + (n & 255); }
	for (const [name, least] of [["--muted", 4.5], ["--one", 3], ["--two", 3], ["--three", 3], ["--four", 3], ["--five", 3], ["--earlier", 3]]) {
		const a = light(parts(hex(root.getPropertyValue(name))));
		const ratio = (Math.max(a, card) + 0.05) / (Math.min(a, card) + 0.05);
		if (ratio < least) bad.add("the charts' " + name + " has a contrast of " + ratio.toFixed(2));
	}
	return [...bad];
})()`

// TestAgents shows those that send a load together, beside the figures of all.
func TestAgents(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load", Sources: []page.Source{page.ThisHost()}, Groups: []string{page.Client, page.Host}}
	address := serve(t, p, &observe.Guard{})
	for range 3 {
		p.Load(second(0))
		p.Agents([]page.Agent{{Name: "a on one", Rate: 500, P50: new(100.0), P99: new(900.0)}, {Name: "b on two", Rate: 250, Doubtful: true}})
	}
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelectorAll("[data-race] tr[data-segment]").length === 2`)
	got := eval[[]string](b, `[...document.querySelectorAll("[data-race] tr[data-segment]")].map((r) => [...r.cells].map((c) => c.textContent).join("|") + " " + r.className)`)
	want := "a on one||500|100 µs|900 µs|– ,b on two (does not count)||250|–|–|– doubt"
	if strings.Join(got, ",") != want {
		t.Errorf("agents %q, want %q", strings.Join(got, ","), want)
	}
	if head := eval[string](b, `document.querySelector("[data-race] h2").textContent`); head != "Agents, last second of each" {
		t.Errorf("the heading is %q", head)
	}
	if span := eval[string](b, spanScript); span != "whole run so far" {
		t.Errorf("the tiles show %q", span)
	}
	if !eval[bool](b, `document.querySelector("[data-strip]").checkVisibility()`) {
		t.Error("the figures of all are not shown")
	}
	p.End(page.Verdict{Status: page.Invalid, Reasons: []string{"agent b is gone"}, Figures: map[string]float64{"rate": 750}})
	b.await(`document.querySelector("[data-status]").textContent === "invalid"`)
	if span := eval[string](b, spanScript); span != "whole run" {
		t.Errorf("after the end, the tiles show %q", span)
	}
	b.quiet(address)
}

// spanScript is what the tiles' figures cover.
const spanScript = `document.querySelector("[data-figure=rate] small").textContent`

// TestRace shows segments, one after the other.
func TestRace(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone demo: every engine, raced", Sources: []page.Source{page.ThisHost()}}
	address := serve(t, p, &observe.Guard{})
	for _, group := range []string{"100 × 1", "100 × 64"} {
		for i, engine := range []string{"net-direct", "net-buffered", "net-pooled", "events"} {
			s := second(0)
			s.Rate *= 1 + float64(i)/3
			s.Segment = page.Segment{Group: group, Name: engine}
			p.Load(s)
		}
	}
	for _, engine := range []string{"a", "b"} { // about as fast, and too few answers for a p99
		s := second(0)
		s.Latency = histogram(180, 5)
		s.Segment = page.Segment{Group: "alike", Name: engine}
		p.Load(s)
	}
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelectorAll("[data-race] tr[data-segment]").length === 10`)
	got := eval[[]string](b, `[...document.querySelectorAll("[data-race] tr[data-segment]")].map((r) => r.dataset.segment + " " + r.querySelector("rect").getAttribute("width") + " " + r.className)`)
	want := "net-direct 50.00 ,net-buffered 66.67 ,net-pooled 83.33 ,events 100.00 ,net-direct 50.00 ,net-buffered 66.67 ,net-pooled 83.33 ,events 100.00 ,a 100.00 ,b 100.00 now"
	if strings.Join(got, ",") != want {
		t.Errorf("segments %q, want %q", strings.Join(got, ","), want)
	}
	if span := eval[string](b, spanScript); span != "this turn so far" {
		t.Errorf("the tiles show %q", span)
	}
	p.Judge(page.Judged{Notes: []string{strings.Repeat("A note that is longer than the table is wide. ", 6)}})
	p.End(page.Verdict{Status: page.Valid})
	b.await(`document.querySelector("[data-status]").textContent === "valid"`)
	if eval[bool](b, `document.querySelector("[data-strip]").checkVisibility()`) {
		t.Error("it says valid over tiles without a figure")
	}
	for _, width := range []int64{390, 1200} {
		b.size(width, 900, false)
		b.shot(fmt.Sprintf("race-%d", width))
		if cut := eval[int64](b, `(() => { const e = document.querySelector("[data-race] .scroll"); return e.scrollWidth - e.clientWidth; })()`); cut > 0 {
			t.Errorf("the table is %d pixels wider than a page of %d", cut, width)
		}
	}
	b.quiet(address)
}

// TestReportOfBenchmarks checks that the report of a run without a perSecond, of which there is nothing
// to draw, has its figures, alone and in a comparison.
func TestReportOfBenchmarks(t *testing.T) {
	b := openTab(t)
	run := &record.Run{ID: "b", Made: "go test -bench"}
	for i := range 6 {
		run.Samples = append(run.Samples, record.Sample{Order: i + 1, Valid: true, Metrics: []record.Metric{
			{Name: "Join", Unit: "ns/op", Better: record.Lower, Value: 3700 + float64(i)}, {Name: "Join", Unit: "allocs/op", Better: record.Lower, Value: 9},
		}})
	}
	file := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		name, want string
		against    *record.Run
		judged     page.Judged
	}{
		{"alone", "Join ns/op|3.70 µs/op|3.70–3.71 µs/op,Join allocs/op|9 allocs/op|9–9 allocs/op", nil, page.Judged{}},
		{"compared", "Join ns/op|3.70 µs/op|3.70 µs/op|+0.0 %,Join allocs/op|9 allocs/op|9 allocs/op|+0.0 %", run, judgedOf(t, run, run)},
	} {
		writeReport(t, file, run, c.against, c.judged)
		b.size(1280, 900, false)
		b.do(chromedp.Navigate("file://" + file))
		b.await(`document.querySelector("[data-status]").textContent === "valid"`)
		got := eval[[]string](b, `[...document.querySelectorAll("section:not([hidden]) tbody tr")].map((r) => [...r.cells].slice(0, 4).map((c) => c.textContent).join("|"))`)
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for _, useless := range []string{"[data-range]", "[data-events]", "[data-strip]", "[data-race]", "figure"} {
			if eval[bool](b, `Boolean(document.querySelector("`+useless+`")?.checkVisibility())`) {
				t.Errorf("%s: %s is shown", c.name, useless)
			}
		}
		b.shot("benchmarks-" + c.name)
		b.quiet("file://" + file)
	}
}

// TestReport opens a report from disk and checks that charts, earlier and verdicts are
// there, and that it loads nothing.
func TestReport(t *testing.T) {
	b := openTab(t)
	before, after := runOf(t, "before", 200, 6), runOf(t, "after", 150, 6)
	addStacks(t, after, map[string]int64{"net/http.read main.handle main.main": 300})
	file := filepath.Join(t.TempDir(), "report.html")
	for i := range after.Samples {
		after.Samples[i].Metrics[1].Value *= 1 + 5*float64(i%2) // p99 varies at random
	}
	judged := judgedOf(t, before, after)
	writeReport(t, file, after, before, judged)
	b.size(1280, 900, false)
	b.do(chromedp.Navigate("file://" + file))
	b.await(`document.querySelector("[data-status]").textContent === "valid" && Number(document.querySelector("[data-chart=times]").dataset.points) > 60`)
	said := eval[string](b, `document.body.innerText`)
	for _, want := range []string{"after (", "against before (", "p50\t", "better: −2", "earlier", "CPU time by function"} {
		if !strings.Contains(said, want) {
			t.Errorf("the report does not say %q:\n%s", want, said)
		}
	}
	if n := eval[int](b, `document.querySelectorAll("[data-race] tr[data-segment]").length`); n != 7 {
		t.Errorf("%d samples, want 7", n)
	}
	// A figure has one difference on the page, coloured only if it is certain.
	for i, key := range []string{"p50", "p99"} {
		c := judged.Comparison.Changes[i]
		tile := eval[[]string](b, `(() => { const e = document.querySelector("[data-figure=`+key+`] .delta"); return [e.textContent, e.className]; })()`)
		want := fmt.Sprintf("%.0f %% of", math.Abs(100**c.Ratio-100))
		if kind := map[compare.Verdict]string{compare.Better: "delta good", compare.Unclear: "delta "}[c.Verdict]; !strings.Contains(tile[0], want) || !strings.HasSuffix(tile[0], string(c.Verdict)) || tile[1] != kind {
			t.Errorf("the tile of %s says %q, want %q, %s and %q", key, tile, want, c.Verdict, kind)
		}
	}
	for i, key := range []string{"p50", "p99"} { // and so has the figure itself
		c := judged.Comparison.Changes[i]
		shown := eval[[]string](b, `[document.querySelector("[data-figure=`+key+`] dd").textContent, document.querySelectorAll("[data-changes] tbody tr")[`+strconv.Itoa(i)+`].cells[2].textContent, document.querySelector("[data-figure=`+key+`] small").textContent]`)
		want := fmt.Sprintf("%.0f µs", *c.MedianA**c.Ratio)
		if shown[0] != want || shown[1] != want || shown[2] != "earlier median × difference" {
			t.Errorf("%s is shown as %q, want %s", key, shown, want)
		}
	}
	if marks := eval[string](b, `document.documentElement.innerHTML.match(/"marks":\[.*?\]/)[0]`); strings.Count(marks, `"doubtful":true`) != 1 || !strings.Contains(marks, `"text":"sample 7","doubtful":true`) {
		t.Errorf("the samples that do not count are not marked: %s", marks)
	}
	// The last second, and a percentile of all samples together, which may contradict the verdicts, are not
	// beside them.
	for chart, says := range map[string]string{"times": "point at a moment", "curve": "point at a percentile"} {
		if said := eval[string](b, `document.querySelector("[data-chart=`+chart+`] figcaption").innerText`); !strings.Contains(said, says) || strings.Contains(said, "ms") || strings.Contains(said, "%") {
			t.Errorf("the legend of %s says %q", chart, said)
		}
	}
	b.shot("report-light")
	b.size(1280, 900, true)
	b.shot("report-dark")
	b.size(375, 812, true)
	b.shot("report-phone")
	right := eval[[]float64](b, `[...document.querySelectorAll(".verdicts td:last-child, [data-race] td:last-child")].map((e) => e.getBoundingClientRect().right)`)
	if len(right) < 9 || slices.Max(right) > 375 {
		t.Errorf("verdicts and samples end at %v of 375 px", right)
	}
	b.mu.Lock()
	if len(b.asked) != 1 {
		t.Errorf("the report asked for %q", b.asked)
	}
	b.mu.Unlock()
	b.quiet("file://" + file)
}

// TestReportOfShortSamples checks that samples of a second, of which a chart over time would show a dot each,
// have a report without such charts.
func TestReportOfShortSamples(t *testing.T) {
	b := openTab(t)
	run := runOf(t, "short", 200, 6)
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Histograms = slices.DeleteFunc(s.Histograms, func(h record.Histogram) bool { return h.Start > 0 })
		s.Series[0].Values = s.Series[0].Values[:1]
	}
	file := filepath.Join(t.TempDir(), "report.html")
	writeReport(t, file, run, nil, page.Judged{})
	b.size(1280, 900, false)
	b.do(chromedp.Navigate("file://" + file))
	b.await(`document.querySelector("[data-status]").textContent === "valid" && Number(document.querySelector("[data-chart=curve]").dataset.points) > 20`)
	if got := eval[[]string](b, `[...document.querySelectorAll("[data-chart]")].map((e) => e.dataset.chart)`); !slices.Equal(got, []string{"curve"}) {
		t.Errorf("it has the charts %q", got)
	}
	b.shot("report-short")
	b.quiet("file://" + file)
}

// judgedOf compares the runs as pairs.
func judgedOf(t *testing.T, before, after *record.Run) page.Judged {
	t.Helper()
	before.PairedWith, after.PairedWith = after.ID, before.ID
	for _, r := range []*record.Run{before, after} {
		for i := range r.Samples {
			r.Samples[i].Pair = i + 1
		}
	}
	a, b, paired := compare.Stored(before, after)
	figures, err := compare.Match(a, b, paired)
	if err != nil {
		t.Fatal(err)
	}
	return page.Judged{Comparison: compare.Rules{}.Compare(figures)}
}

func writeReport(t *testing.T, file string, run, against *record.Run, judged page.Judged) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := page.Report(f, run, against, judged); err != nil {
		t.Fatal(err)
	}
}
