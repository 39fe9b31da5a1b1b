package view

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// wavy returns a load that has run for that many seconds.
func wavy(seconds int, share float64) gauge {
	g := gauge{conns: 100}
	for i := range seconds {
		wave := 1 + math.Sin(float64(i)/5)/4
		g.take(load.Progress{Phase: load.Measuring, Elapsed: time.Duration(i+1) * time.Second, Conns: 100, Rate: 182_000 * wave,
			P50: new(310 / wave), P99: new(2130 / wave), CPUShare: new(share)})
	}
	return g
}

func loading() *loadPicture {
	p := &loadPicture{target: "127.0.0.1:7000", shape: "100 connections, 1 in flight on each, closed loop", warmup: 3 * time.Second, length: 90 * time.Second,
		gauge: wavy(75, 0.43), measuring: 3 * time.Second}
	for _, text := range []string{"p99<5ms", "rate>=200000"} {
		g, err := load.ParseGoal(text)
		if err != nil {
			panic(err)
		}
		r := &load.Result{Valid: true, Rate: new(float64(181_234)), Latency: load.Quantiles{P99: new(float64(2130))}}
		p.outcomes = append(p.outcomes, load.Check(r, []load.Goal{g})...)
	}
	return p
}

func saturated() *loadPicture {
	p := loading()
	p.gauge = wavy(5, 0.93)
	p.gauge.now.Errors, p.gauge.now.Conns = 1234, 97
	return p
}

func benching() *benchPicture {
	p := &benchPicture{title: "http://127.0.0.1:8080/, 50 connections, 1 in flight on each, closed loop", planned: 16, gauge: wavy(4, 0.2), told: 40 * time.Second,
		now: trial.Progress{Side: 1, Name: "B (what is here)", Number: 6, Of: 18, Taken: 5, Samples: 18, Remaining: 130 * time.Second, Load: &load.Progress{Phase: load.Measuring}}, sampling: 1}
	p.sides = []benchSide{{name: "A (main)"}, {name: "B (what is here)"}}
	for i := range 5 {
		side := &p.sides[i%2]
		side.samples = append(side.samples, sampleFigures{new(42_000 + 900*float64(i)), new(float64(500)), new(3100 - 200*float64(i))})
	}
	return p
}

func searching() *kneePicture {
	p := &kneePicture{title: "127.0.0.1:7000", goals: "p99<5ms", drawn: "p99", unit: "req/s", wanted: 0.02, doing: "trial 9: 9,051 req/s, full",
		trialAt: 75 * time.Second, gauge: wavy(2, 0.3), found: knee.Knee{Met: 8000, Missed: 12800}}
	for i, rate := range []float64{100, 200, 400, 800, 1600, 3200, 6400, 12800} {
		s := knee.Point{Load: rate, Valid: true, Plotted: new(200 + rate/10)}
		if i == 7 {
			s.Met, s.Why, s.Plotted = []bool{false}, "p99 is 71ms", new(float64(71_000))
		}
		p.steps = append(p.steps, s)
	}
	p.steps = append(p.steps, knee.Point{Load: 8000, Full: true, Valid: true, Plotted: new(float64(2400))}, knee.Point{Load: 20000, Why: "the generator was late"})
	return p
}

func pictures() map[string]picture {
	return map[string]picture{
		"load": loading(), "load-saturated": saturated(), "load-beginning": &loadPicture{target: "unix:/run/服务器.sock", shape: "1 connection", length: time.Second},
		"bench": benching(), "bench-building": &benchPicture{title: "hello", now: trial.Progress{Name: "A"}, sides: []benchSide{{name: "A"}}},
		"knee": searching(), "knee-beginning": &kneePicture{title: "127.0.0.1:7000", doing: "starting", unit: "connections"},
		"demo": &demoPicture{legs: 9, leg: 2, engine: "buffered", doing: "100 × 64"},
	}
}

var update = flag.Bool("update", false, "rewrite the pictures in testdata")

// TestView compares pictures with the texts in testdata/view; -update writes them.
func TestView(t *testing.T) {
	sizes := []struct{ width, height int }{{80, 40}, {80, 12}, {20, 5}, {200, 60}}
	for name, p := range pictures() {
		var b strings.Builder
		for _, size := range sizes {
			fmt.Fprintf(&b, "-- %d × %d --\n%s\n", size.width, size.height, render(p, 80*time.Second, size.width, size.height, nil))
		}
		fmt.Fprintf(&b, "-- 80 × 40, colours --\n%s\n", strings.ReplaceAll(render(p, 80*time.Second, 80, 40, newPalette(true)), "\x1b", "ESC"))
		file := filepath.Join("testdata", "view", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s looks otherwise; look at it with -update and git diff:\n%s", name, b.String())
		}
	}
}

// TestViewFits checks every picture at every size: no line is too wide, no picture too
// high, and colours change nothing but colours.
func TestViewFits(t *testing.T) {
	coloured := newPalette(true)
	for name, p := range pictures() {
		for width := 1; width <= 400; width++ {
			for _, height := range []int{1, 5, 24, 100} {
				plain := render(p, time.Minute, width, height, nil)
				if strings.Contains(plain, "\x1b") {
					t.Fatalf("%s, %d × %d: an escape sequence without colours: %q", name, width, height, plain)
				}
				lines := strings.Split(plain, "\n")
				if len(lines) > height {
					t.Fatalf("%s, %d × %d: %d lines", name, width, height, len(lines))
				}
				for _, l := range lines {
					if columns(l) > width {
						t.Fatalf("%s, %d × %d: %d columns: %q", name, width, height, columns(l), l)
					}
				}
				if height == 24 && width%7 == 0 && withoutColours(render(p, time.Minute, width, height, coloured)) != plain {
					t.Fatalf("%s, %d × %d: with colours the text is another", name, width, height)
				}
			}
		}
	}
}

// withoutColours removes sequences such as ESC [ 1 m.
func withoutColours(text string) string {
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, text, _ = strings.Cut(after, "m")
	}
	return b.String()
}

// TestCut checks that wide characters count as two columns, and that no control sequence
// passes.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"182,345/s", 9, "182,345/s"},
		{"182,345/s", 6, "182,3…"},
		{"服务器", 6, "服务器"},
		{"服务器", 5, "服务…"},
		{"服务器", 4, "服…"},
		{"1,234   ", 5, "1,234"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"a\x1b[2Jb\nc\u009bd", 80, "a?[2Jb?c?d"},
		{"anything", 1, "…"},
	} {
		var got strings.Builder
		for _, s := range cut([]span{{toneText, c.text}}, c.width) {
			got.WriteString(s.text)
		}
		if got.String() != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.width, got.String(), c.want)
		}
	}
}

// TestSparkline checks that lines start at zero and leave gaps.
func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values history
		width  int
		want   string
	}{
		{nil, 5, ""},
		{history{0, 0}, 5, "▁▁"},
		{history{0, 4, 8, math.NaN(), 2}, 5, "▁▅█ ▃"},
		{history{1, 2, 3, 4}, 2, "▇█"},
		{history{1}, -3, ""},
	} {
		if got := sparkline(c.values, c.width); got != c.want {
			t.Errorf("%v in %d columns is %q, want %q", c.values, c.width, got, c.want)
		}
	}
	var h history
	for i := range 3 * remembered {
		h.add(new(float64(i)))
	}
	if len(h) != remembered || h[0] != 2*remembered {
		t.Errorf("%d figures from %v on, want the last %d", len(h), h[0], remembered)
	}
}

// TestLoadPictureTimes follows a run from phase to phase.
func TestLoadPictureTimes(t *testing.T) {
	p := &loadPicture{warmup: 2 * time.Second, length: 10 * time.Second}
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	for _, c := range []struct {
		elapsed float64
		phase   string
		want    string // of the line about the phase
	}{
		{1, load.Connecting, "1 s so far"},
		{2, load.Connecting, "2 s so far"},
		{3, load.WarmingUp, "1 s left, then 10 s"},
		{4.1, load.Measuring, "0 s of 10 s, 10 s left"},
		{9, load.Measuring, "5 s of 10 s, 5 s left"},
		{14.2, load.Draining, "waiting for the last answers"},
	} {
		p.take(load.Progress{Phase: c.phase, Elapsed: at(c.elapsed)})
		got := render(p, at(c.elapsed), 120, 40, nil)
		if !strings.Contains(got, c.want) {
			t.Errorf("after %v s, %s: %q is not in\n%s", c.elapsed, c.phase, c.want, got)
		}
	}
}

// TestLoadPictureDoubts checks that a generator that is late is no reason for "no doubts".
func TestLoadPictureDoubts(t *testing.T) {
	p := &loadPicture{length: 10 * time.Second, measuring: 1}
	for _, c := range []struct{ doubt, want string }{{"", "VALID, no doubts"}, {"the generator itself did not run for 146ms", "INVALID: the generator itself did not run for 146ms"}} {
		p.take(load.Progress{Phase: load.Measuring, Elapsed: time.Second, Doubt: c.doubt})
		if got := render(p, time.Second, 120, 40, nil); !strings.Contains(got, c.want) {
			t.Errorf("%q is not in\n%s", c.want, got)
		}
	}
}

// TestBenchWatcherCountsSamples checks that figures go to the side of their sample.
func TestBenchWatcherCountsSamples(t *testing.T) {
	b := &Bench{times: load.NewHistogram(), screen: &screen{began: time.Now()}, picture: &benchPicture{sides: []benchSide{{name: "A (x: y)"}, {name: "B"}}}}
	times := load.NewHistogram()
	for range 1000 {
		times.RecordValue(2e6)
	}
	now := trial.Progress{Name: "A", Samples: 4}
	told := func(l *load.Progress) {
		now.Load = l
		b.Show(now)
	}
	told(nil)
	for i, side := range []int{1, 0, 0, 1} {
		now.Side, now.Number, now.Of, now.Taken = side, i+1, 4, i
		told(nil)
		told(&load.Progress{Phase: load.WarmingUp, Rate: 1})
		told(&load.Progress{Phase: load.Measuring, Rate: 100 * float64(i+1), Latency: times})
		told(&load.Progress{Phase: load.Measuring, Rate: 300 * float64(i+1), Latency: times})
	}
	now = trial.Progress{Name: "the server", Number: 1, Of: 1, Profiling: true, Samples: 1}
	told(nil)
	told(&load.Progress{Phase: load.Measuring, Rate: 5})
	a, bb := b.picture.sides[0].samples, b.picture.sides[1].samples
	if len(a) != 2 || len(bb) != 1 { // the end of the last sample is not reported
		t.Fatalf("%d samples of A and %d of B, want 2 and 1", len(a), len(bb))
	}
	for i, s := range []sampleFigures{bb[0], a[0], a[1]} {
		if *s.rate != 200*float64(i+1) || math.Abs(*s.p99-2000) > 2 {
			t.Errorf("sample %d: %v/s, p99 %v µs", i+1, *s.rate, *s.p99)
		}
	}
	if got := render(b.picture, 0, 80, 40, nil); !strings.Contains(got, "profiles: sample 1 of 1") || !strings.Contains(got, "4 of 4") {
		t.Errorf("while profiles are taken:\n%s", got)
	}
}

// TestBracket checks the text about the remaining range.
func TestBracket(t *testing.T) {
	for _, c := range []struct {
		found knee.Knee
		want  string
	}{
		{knee.Knee{}, "nothing known yet"},
		{knee.Knee{Met: 1600}, "met at 1,600 req/s, no upper limit found yet"},
		{knee.Knee{Missed: 100}, "missed at 100 req/s, not met at any load yet"},
		{knee.Knee{Met: 1600, Invalid: 3200}, "met at 1,600 req/s, generator could not offer 3,200"},
		{knee.Knee{Invalid: 3200}, "met at nothing req/s, generator could not offer 3,200"},
		{knee.Knee{Met: 1000, Missed: 1100}, "met at 1,000, missed at 1,100 req/s: 10.0 % apart, 2.0 % wanted"},
	} {
		p := &kneePicture{unit: "req/s", wanted: 0.02, found: c.found}
		if got := p.bracket().text; got != c.want {
			t.Errorf("%+v: %q, want %q", c.found, got, c.want)
		}
	}
}

// BenchmarkFrame measures a frame of a whole terminal, of which there are at most four a
// second: 1 % of a CPU is 2.5 ms.
func BenchmarkFrame(b *testing.B) {
	for name, p := range pictures() {
		b.Run(name, func(b *testing.B) {
			colours := newPalette(true)
			b.ReportAllocs()
			for b.Loop() {
				render(p, time.Minute, 120, 50, colours)
			}
		})
	}
}

// BenchmarkSecond measures the figures of one second, without drawing.
func BenchmarkSecond(b *testing.B) {
	h := load.NewHistogram()
	for i := range 50_000 {
		h.RecordValue(int64(100_000 + i*17))
	}
	p := loading()
	goals := []load.Goal{p.outcomes[0].Goal}
	l := &Load{picture: p, goals: goals, latency: load.NewHistogram(), service: load.NewHistogram(), screen: &screen{}}
	for b.Loop() {
		l.Show(load.Progress{Phase: load.Measuring, Latency: h, Service: h})
	}
}
