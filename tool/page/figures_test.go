package page_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/page"
)

// TestFiguresSayOfWhat checks that each figure is labelled as of the whole run or of one
// second.
func TestFiguresSayOfWhat(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load 127.0.0.1:7000", Groups: allGroups, Sources: []page.Source{everything}}
	address := serve(t, p, &observe.Guard{})
	for n := range int64(3) {
		p.Load(second(n))
	}
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "3"`)
	said := func(what string) []string {
		return eval[[]string](b, `[...new Set([...document.querySelectorAll("`+what+`")].map((e) => e.textContent))]`)
	}
	if got := said("[data-strip] dt small"); strings.Join(got, "|") != "whole run so far" {
		t.Errorf("the tiles are of %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll("[data-strip] dt small").length - document.querySelectorAll("[data-strip] dt").length`); n != 0 {
		t.Errorf("%d tiles do not say of what", -n)
	}
	if got := said("figure:not([data-chart=curve]) figcaption b small"); strings.Join(got, "|") != "last second" {
		t.Errorf("the charts are of %q", got)
	}
	if got := said("[data-chart=curve] figcaption b small"); strings.Join(got, "|") != "whole run so far, at 99 %" {
		t.Errorf("the curve is of %q", got)
	}
	eval[bool](b, `(document.querySelector("[data-chart=rate] .plot").dispatchEvent(new KeyboardEvent("keydown", { key: "Home" })), true)`)
	b.await(`document.querySelector("[data-chart=times] figcaption b small").textContent.startsWith("the second at 0:")`)
	p.End(page.Verdict{Status: page.Valid, Figures: map[string]float64{"rate": 51_234}})
	b.await(`[...document.querySelectorAll("[data-strip] dt small")].every((e) => e.textContent === "whole run")`)
	b.quiet(address)
}

// TestChartsFreeze checks that after the end of a load no Source is polled, so that no
// chart moves, until another load starts.
func TestChartsFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		p := &page.Page{Title: "hone load 127.0.0.1:7000", Groups: allGroups, Sources: []page.Source{func(ctx context.Context) map[string]float64 {
			asked.Add(1)
			return everything(ctx)
		}}}
		defer p.Close()
		asks := func() int64 {
			before := asked.Load()
			<-time.After(10 * time.Second) // in the bubble's fake time
			synctest.Wait()
			return asked.Load() - before
		}
		p.Load(second(0))
		if n := asks(); n < 10 {
			t.Errorf("a load's source was asked %d times in 10 s", n)
		}
		p.End(page.Verdict{Status: page.Valid})
		if n := asks(); n != 0 {
			t.Errorf("the source was asked %d times in the 10 s after the end", n)
		}
		p.Load(second(1))
		if n := asks(); n < 10 {
			t.Errorf("another load's source was asked %d times in 10 s", n)
		}
	})
}

// TestLabelsFit checks that an axis has room for the longest of its labels, and that all
// charts align.
func TestLabelsFit(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load 127.0.0.1:7000"}
	address := serve(t, p, &observe.Guard{})
	b.size(390, 844, false)
	b.do(chromedp.Navigate(address))
	const widest = `Math.ceil((() => { const pen = document.createElement("canvas").getContext("2d"); pen.font = "11px system-ui, sans-serif"; return pen.measureText("20\u2009000\u2009000").width; })())`
	s := second(0)
	s.Rate = 23_456_789
	for range 3 {
		p.Load(s)
	}
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "3"`)
	b.settle()
	if left, wide := eval[int](b, `Number(document.querySelector("[data-chart=rate]").dataset.left ?? 58)`), eval[int](b, widest); left < wide+6 {
		t.Errorf("an axis has %d pixels for a label of %d", left, wide)
	}
	if others := eval[int](b, `new Set([...document.querySelectorAll("[data-chart]")].map((e) => e.dataset.left)).size`); others != 1 {
		t.Errorf("the charts begin at %d places", others)
	}
	b.quiet(address)
}

// TestJumps checks that a phone gets working links to the parts of the page.
func TestJumps(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load 127.0.0.1:7000", Groups: allGroups, Sources: []page.Source{everything}}
	address := serve(t, p, &observe.Guard{})
	p.Load(second(0))
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelectorAll("[data-jumps] a").length >= 6`)
	if eval[bool](b, `document.querySelector("[data-jumps]").checkVisibility()`) {
		t.Error("a wide screen has links for a narrow one")
	}
	b.size(390, 844, false)
	b.await(`document.querySelector("[data-jumps]").checkVisibility()`)
	if lost := eval[[]string](b, `[...document.querySelectorAll("[data-jumps] a")].filter((a) => !document.querySelector(a.hash)?.checkVisibility()).map((a) => a.hash)`); len(lost) > 0 {
		t.Errorf("links lead nowhere: %q", lost)
	}
	b.do(chromedp.Click(`[data-jumps] a[href="#charts-server"]`))
	b.await(`(() => { const top = document.querySelector("#charts-server").getBoundingClientRect().top; return scrollY > 500 && top >= 0 && top < 120; })()`)
	if !eval[bool](b, `document.querySelector("[data-jumps]").getBoundingClientRect().top === 0`) {
		t.Error("the links are gone when one was followed")
	}
	b.quiet(address)
}
