package view

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// blocks are what commands show, 80 s after their beginning.
func blocks() map[string]*facts {
	wavy := func(f *facts, seconds int, phase string, change func(*load.Progress)) {
		for i := range seconds {
			wave := 1 + math.Sin(float64(i)/5)/4
			now := load.Progress{Phase: phase, Elapsed: time.Duration(i+6) * time.Second, Conns: 100, Rate: 182_000 * wave,
				P50: new(310 / wave), P99: new(2130 / wave), CPUShare: new(0.43), Lag: 12 * time.Microsecond}
			if change != nil {
				change(&now)
			}
			f.loading(now, now.Elapsed)
		}
		f.machine = "; machine 61 % busy, 0 % steal"
	}
	all := map[string]*facts{"nothing": {}}
	plan := load.Plan{Conns: 100, For: 90 * time.Second}
	add := func(name string) *facts {
		all[name] = &facts{plan: plan}
		return all[name]
	}
	wavy(add("load"), 60, load.Measuring, nil)
	wavy(add("warming up"), 2, load.WarmingUp, nil)
	wavy(add("failed"), 5, load.Measuring, func(p *load.Progress) { p.Errors, p.Conns = 1234, 97 })
	wavy(add("late"), 5, load.Measuring, func(p *load.Progress) { p.Doubt = "the generator itself did not run for 146ms" })
	wavy(add("busy"), 5, load.Measuring, func(p *load.Progress) { p.CPUShare = new(0.93) })
	counted := add("counted")
	counted.plan.Requests = 1000
	wavy(counted, 2, load.Measuring, func(p *load.Progress) { p.Answered = 250 })
	bench := add("bench")
	bench.sampling("building 服务器\x1b[2J", trial.Progress{}, 0)
	bench.sampling("sample 1 of 16: A", trial.Progress{Samples: 16}, 40*time.Second)
	bench.sampling("sample 6 of 18: B (what is here), measuring", trial.Progress{Taken: 5, Samples: 18, Remaining: 130 * time.Second,
		Load: &load.Progress{Phase: load.Measuring, Rate: 42_000, Conns: 100}}, 75*time.Second)
	add("building").sampling("building 服务器\x1b[2J", trial.Progress{}, 75*time.Second)
	knee := add("knee")
	knee.sampling("trial 9: 9,051 req/s, full", trial.Progress{}, 75*time.Second)
	knee.note = "met at 8,000, missed at 12,800 req/s: 60.0 % apart, 2.0 % wanted"
	return all
}

// TestBlock states what each command shows.
func TestBlock(t *testing.T) {
	empty, full := strings.Repeat("░", 20), strings.Repeat("█", 20)
	curve := "▆▆▆▆▅▅▅▅▅▆▆▆▆▇▇▇████████████▇▇▇▆▆▆▆▅▅▅▅▅▆▆"
	for name, want := range map[string][]string{
		"nothing": {empty + "  starting"},
		"load": {full[:3*14] + empty[:3*6] + "  10 s left, measuring",
			"rate       150,445/s", "p50, p99   375 µs, 2.58 ms", "errors     none, 100 of 100 connections open",
			"generator  12.0 µs late at most, 43 % of its CPUs; machine 61 % busy, 0 % steal", "so far     no doubts"},
		"warming up": {empty + "  warming up, 1 min 20 s", "", "", "", ""},
		"failed":     {"", "", "", "errors     1,234, 97 of 100 connections open", "", "so far     INVALID: requests have failed"},
		"late":       {"", "", "", "", "", "so far     INVALID: the generator itself did not run for 146ms"},
		"busy":       {"", "", "", "", "", "so far     in doubt: the generator has too little CPU"},
		"counted":    {full[:3*5] + empty[:3*15] + "  measuring, 1 min 20 s", "", "", "", "", ""},
		"bench": {full[:3*5] + empty[:3*15] + "  2 min 05 s left, sample 6 of 18: B (what is here), measur…", "rate       42,000/s", "p50, p99   –, –", "", "",
			"so far     2 samples taken again, spoilt by the machine or the generator"},
		"building": {empty + "  building 服务器?[2J, 5 s"},
		"knee":     {empty + "  trial 9: 9,051 req/s, full, 5 s", "so far     met at 8,000, missed at 12,800 req/s: 60.0 % apart, 2.0 % wanted"},
	} {
		got := blocks()[name].render(80*time.Second, 81, 25, false)
		if len(got) != len(want) {
			t.Errorf("%s has %d lines, want %d:\n%s", name, len(got), len(want), strings.Join(got, "\n"))
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s, line %d: %q, want %q", name, i+1, got[i], want[i])
			}
		}
		if name == "load" && !strings.HasSuffix(got[1], curve) {
			t.Errorf("the curve is %q, want %q", got[1], curve)
		}
	}
}

// TestBlockFits checks every block at every size: six lines, none too wide, and colours
// change nothing but colours.
func TestBlockFits(t *testing.T) {
	for name, f := range blocks() {
		for width := 1; width <= 200; width++ {
			for height := 1; height <= 9; height++ {
				plain := f.render(time.Minute, width, height, false)
				if len(plain) > max(1, min(height-1, 6)) {
					t.Fatalf("%s, %d × %d: %d lines", name, width, height, len(plain))
				}
				for _, l := range plain {
					columns := 0
					for _, r := range l {
						columns += columnsOf(r)
					}
					if columns > max(width-1, 1) || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' }) {
						t.Fatalf("%s, %d × %d: %d columns: %q", name, width, height, columns, l)
					}
				}
				if coloured := f.render(time.Minute, width, height, true); withoutColours(strings.Join(coloured, "\n")) != strings.Join(plain, "\n") {
					t.Fatalf("%s, %d × %d: with colours the text is another", name, width, height)
				}
			}
		}
	}
}

// withoutColours removes sequences such as ESC [ 1 m.
func withoutColours(text string) string {
	before, after, _ := strings.Cut(text, "\x1b[")
	for after != "" {
		_, rest, _ := strings.Cut(after, "m")
		text, after, _ = strings.Cut(rest, "\x1b[")
		before += text
	}
	return before
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
		{"a\x1b[2Jb\nc\u009bd", 80, "a?[2Jb?c?d"},
		{"anything", 1, "…"},
	} {
		if got := fmt.Sprint(cut(line{text(c.text)}, c.width)); got != fmt.Sprint(line{text(c.want)}) {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.width, got, c.want)
		}
		if got := cut(line{text(c.text), text("more")}, c.width+4); len(got) != 2 && c.width > 1 {
			t.Errorf("%q, and more, in %d columns is %q", c.text, c.width+4, got)
		}
	}
}

// TestSparkline checks that lines start at zero.
func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []float64
		width  int
		want   string
	}{{nil, 5, ""}, {[]float64{0, 0}, 5, "▁▁"}, {[]float64{0, 4, 8, 2}, 5, "▁▅█▃"}, {[]float64{1, 2, 3, 4}, 2, "▇█"}} {
		if got := sparkline(c.values, c.width); got != c.want {
			t.Errorf("%v in %d columns is %q, want %q", c.values, c.width, got, c.want)
		}
	}
}

// BenchmarkBlock measures a frame, of which there are four a second: 1 % of a CPU is 2.5 ms.
func BenchmarkBlock(b *testing.B) {
	f := blocks()["load"]
	for b.Loop() {
		f.render(time.Minute, 120, 50, true)
	}
}
