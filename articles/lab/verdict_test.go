package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/probe"
)

func rounds(v ...float64) spread { return spread{v} }

func TestGained(t *testing.T) {
	for _, c := range []struct {
		article float64
		here    spread
		want    verdict
	}{
		{1.46, rounds(1.5, 1.4, 1.6), holds},
		{1.46, rounds(1.38, 1.37, 1.39), holds}, // 0.8 of the gain
		{1.46, rounds(1.3, 1.2, 1.3), holdsLess},
		{1.46, rounds(0.9, 1.0, 0.8), contradicted},
		{1.46, rounds(0.9, 1.6, 1.5), untold},
		{1.46, rounds(1.6, 1.7), untold}, // too few
		{7.38, rounds(), untold},
		{0.69, rounds(0.6, 0.7, 0.65), holds}, // a claimed loss
		{0.69, rounds(0.95, 0.9, 0.92), holdsLess},
		{0.69, rounds(1.5, 1.2, 1.1), contradicted},
		{0.69, rounds(1.5, 0.8, 0.9), untold},
	} {
		if got := gained(c.article, c.here); got != c.want {
			t.Errorf("%v claimed, %v seen: %s, want %s", c.article, c.here.rounds, got, c.want)
		}
	}
}

func TestBetter(t *testing.T) {
	for _, c := range []struct {
		ratio spread
		want  verdict
	}{
		{rounds(1.1, 1.2, 1.3), holds},
		{rounds(0.9, 0.8, 0.99), contradicted},
		{rounds(0.9, 1.2, 1.3), untold},
		{rounds(2, 2), untold},
		{rounds(), untold},
	} {
		if got := better(c.ratio); got != c.want {
			t.Errorf("%v: %s, want %s", c.ratio.rounds, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	if got := rounds(9, 1, 5).median(); got != 5 {
		t.Errorf("median of three: %v", got)
	}
	if got := rounds(4, 1).median(); got != 2.5 {
		t.Errorf("median of two: %v", got)
	}
	ratio := rounds(2, 9, 4).over(rounds(1, 3, 0))
	if len(ratio.rounds) != 2 || ratio.rounds[0] != 2 || ratio.rounds[1] != 3 {
		t.Errorf("round by round: %v", ratio.rounds)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 0.0123: "0.012", 1.234: "1.23", 12.345: "12.3", 185000: "185,000", 1234567.8: "1,234,568", -4200: "-4,200", 999.6: "1,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	if got := bytesOf(8) + ", " + bytesOf(64<<10); got != "8 B, 64 KiB" {
		t.Error(got)
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{rounds(250, 240, 260).row("with buffers", "requests/s", "Fewer calls.").beside(200).as(holds), "with buffers: 250 requests/s (240 to 260); article 200\n  holds; 1.25 × the article\n  Fewer calls."},
		{rounds(9).row("without", "µs", "None.").to(rounds(2), "less than before"), "without: 9 µs\n  inconclusive; 2 × less than before\n  None."},
		{(spread{}).row("elsewhere", "requests/s", "Unknown.").beside(12_008).as(holds), "elsewhere: no figure; article 12,008\n  inconclusive\n  Unknown."},
	} {
		if got := c.row.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestShares(t *testing.T) {
	s := startStage(t, "objects")
	folder := t.TempDir()
	var answer done
	if s.order(t, "profile "+folder+" 200ms make/4096", &answer); answer.Error != "" {
		t.Fatal(answer.Error)
	}
	view, err := viewOf(folder, "allocs")
	if err != nil {
		t.Fatal(err)
	}
	lines := view.Top(false)
	i := slices.IndexFunc(lines, func(l probe.Line) bool { return strings.Contains(l.Function, "makeEach") })
	if i < 0 {
		t.Fatalf("who allocated is not in the profile: %s", top(view, 5))
	}
	want := 100 * lines[i].Flat / view.Total
	if name := nameOf(makeEach); !strings.HasPrefix(lines[i].Function, strings.TrimSuffix(name, "makeEach")) { // it is inlined
		t.Errorf("the profile says %s, and nameOf %s", lines[i].Function, name)
	}
	if flat, cum := flatShare(view, lines[i].Function), cumShare(view, lines[i].Function); flat != want || cum < want || cum > 100 {
		t.Errorf("of %.1f %%, %.1f are found flat and %.1f cum: %s", want, flat, cum, top(view, 5))
	}
	if share := flatShare(view, ".nobody"); share != 0 {
		t.Errorf("nobody allocated %v %%", share)
	}
}
