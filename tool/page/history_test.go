package page_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/history"
	"github.com/hone-go/hone/tool/page"
)

// historyOf returns a history of 40 runs with two figures, one of which changes.
func historyOf() *history.History {
	h := &history.History{Name: "main <b>", Scenario: "hello", Figures: []history.Figure{
		{Name: "p99", Unit: "µs", Changes: []history.Change{{Run: 30, Before: 1000, After: 1100, Ratio: new(1.1), Verdict: compare.Worse, Since: "0123456789ab", To: "ba9876543210"}}},
		{Name: "A/name=<script>", Unit: "allocs/op"},
	}}
	for i := range 40 {
		h.Runs = append(h.Runs, history.Run{ID: fmt.Sprintf("%012x", i), At: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC), Commit: "ba9876543210"})
		level := 1000.0
		if i >= 30 {
			level = 1100
		}
		h.Figures[0].Values = append(h.Figures[0].Values, new(level+float64(i%7)))
		h.Figures[1].Values = append(h.Figures[1].Values, new(2.0))
	}
	h.Figures[1].Values[5] = nil
	return h
}

func TestHistoryBytes(t *testing.T) {
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := page.History(w, historyOf()); err != nil {
			t.Fatal(err)
		}
	}
	text := first.String()
	if text != second.String() {
		t.Error("two pages of the same history differ")
	}
	for _, want := range []string{
		"<title>hone history: 40 runs of main &lt;b&gt;, scenario hello, 2026-01-01 to 2026-02-09</title>", "worse: &#43;10.0 % in 0123456789..ba98765432 (2026-01-31, 10 runs since)",
		"default-src &#39;none&#39;; style-src &#39;sha256-", "A/name=&lt;script&gt;", `<path class="cut" d="M750.0 0V1000">`, "M0.0 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, never := range []string{"<script", "ZgotmplZ", "http://", "src="} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q in it", never)
		}
	}
	if dots := strings.Count(text, `class="dot"`); dots != 79 {
		t.Errorf("%d dots, want one for each of 79 values", dots)
	}
}

// TestHistoryLooks opens the page from disk, in both themes and on a phone.
func TestHistoryLooks(t *testing.T) {
	b := openTab(t)
	file := filepath.Join(t.TempDir(), "history.html")
	var html bytes.Buffer
	if err := page.History(&html, historyOf()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, html.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct {
		name  string
		width int64
		dark  bool
	}{{"history-light", 1280, false}, {"history-dark", 1280, true}, {"history-phone", 390, false}} {
		b.size(look.width, 900, look.dark)
		b.do(chromedp.Navigate("file://" + file))
		b.await(`document.querySelectorAll("figure").length === 2`)
		if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > look.width {
			t.Errorf("%s: the page is %d wide", look.name, wide)
		}
		if high := eval[float64](b, `document.querySelector(".level").getBoundingClientRect().width`); high < float64(look.width)/4 {
			t.Errorf("%s: the level is %.0f wide", look.name, high)
		}
		if colour := eval[string](b, `getComputedStyle(document.querySelector(".dot")).stroke`); colour != map[bool]string{false: "rgb(11, 98, 196)", true: "rgb(111, 177, 255)"}[look.dark] {
			t.Errorf("%s: dots are %s", look.name, colour)
		}
		b.shot(look.name)
	}
	b.mu.Lock()
	if len(b.asked) != 3 {
		t.Errorf("the page asked for %q", b.asked)
	}
	b.mu.Unlock()
	b.quiet("file://" + file)
}
