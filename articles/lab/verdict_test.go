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
		want    Verdict
	}{
		{1.46, rounds(1.5, 1.4, 1.6), Holds},
		{1.46, rounds(1.38, 1.37, 1.39), Holds}, // 0.8 of the gain
		{1.46, rounds(1.3, 1.2, 1.3), HoldsLess},
		{1.46, rounds(0.9, 1.0, 0.8), Contradicted},
		{1.46, rounds(0.9, 1.6, 1.5), Untold},
		{1.46, rounds(1.6, 1.7), Untold}, // too few
		{7.38, rounds(), Untold},
		{0.69, rounds(0.6, 0.7, 0.65), Holds}, // a claimed loss
		{0.69, rounds(0.95, 0.9, 0.92), HoldsLess},
		{0.69, rounds(1.5, 1.2, 1.1), Contradicted},
		{0.69, rounds(1.5, 0.8, 0.9), Untold},
	} {
		if got := gained(c.article, c.here); got != c.want {
			t.Errorf("%v claimed, %v seen: %s, want %s", c.article, c.here.rounds, got, c.want)
		}
	}
}

func TestBetter(t *testing.T) {
	for _, c := range []struct {
		ratio spread
		want  Verdict
	}{
		{rounds(1.1, 1.2, 1.3), Holds},
		{rounds(0.9, 0.8, 0.99), Contradicted},
		{rounds(0.9, 1.2, 1.3), Untold},
		{rounds(2, 2), Untold},
		{rounds(), Untold},
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
	r := rounds(3, 1, 2).row("a thing", "ms", "because").beside(4)
	if *r.Measured != 2 || *r.Low != 1 || *r.High != 3 || *r.Ratio != 0.5 || r.Verdict != Untold {
		t.Errorf("row %+v", r)
	}
	if r := (spread{}).row("nothing", "ms", "because").beside(4).as(Holds); r.Measured != nil || r.Ratio != nil || r.Verdict != Untold || *r.Article != 4 {
		t.Errorf("a row without a figure: %+v", r)
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

// TestText checks the text of a whole report.
func TestText(t *testing.T) {
	r := &Report{Valid: true, Labs: []*Lab{{Name: "speed", Claim: "It is fast.", Rows: []Row{
		rounds(250, 240, 260).row("with buffers", "requests/s", "Fewer system calls.").beside(200).as(Holds),
		rounds(9).row("without", "µs", "Fewer system calls.").to(rounds(2), "less than before"),
		(spread{}).row("elsewhere", "requests/s", strings.Repeat("word ", 30)).beside(12_008),
	}}}}
	var got strings.Builder
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	want := `VALID: median of all rounds (lowest to highest); compared servers alternated

SPEED  It is fast.

  with buffers: 250 requests/s (240 to 260); article 200
    holds; 1.25 × the article

  without: 9 µs
    inconclusive; 2 × less than before
    Fewer system calls.

  elsewhere: no figure; article 12,008 requests/s
    inconclusive
    word word word word word word word word word word word word word word word word word word word
    word word word word word word word word word word word
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	got.Reset()
	r.Valid, r.InvalidReasons = false, []string{"one", "two"}
	if err := r.WriteText(&got); err != nil || !strings.HasPrefix(got.String(), "INVALID: one\n         two\n\nSPEED") {
		t.Errorf("%v\n%s", err, got.String())
	}
}

func TestShares(t *testing.T) {
	s := startStage(t, "objects")
	folder := t.TempDir()
	var answer done
	if s.order(t, "profile "+folder+" 200ms make/4096", &answer); answer.Error != "" {
		t.Fatal(answer.Error)
	}
	b := &bench{lab: new(Lab)}
	view, err := b.read("objects", folder, "allocs")
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
