package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/page"
)

// TestCrosshair moves the crosshair with the pointer and with keys, on all time charts at
// once, and reads a table.
func TestCrosshair(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "crosshair", Sources: []page.Source{page.ThisHost()}}
	address := serve(t, p, &observe.Guard{})
	for n := range int64(8) {
		p.Load(second(n))
	}
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "8"`)
	place := eval[[]float64](b, `(() => { const r = document.querySelector("[data-chart=rate] .plot").getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	b.do(chromedp.MouseEvent("mouseMoved", place[0], place[1]))
	const cursors = `[...new Set([...document.querySelectorAll("[data-chart]:not([data-chart=curve])")].map((f) => f.dataset.cursor))]`
	b.await(cursors + `.length === 1 && ` + cursors + `[0] !== ""`)
	b.do(chromedp.MouseEvent("mouseMoved", 5, 5))
	b.await(cursors + `.length === 1 && ` + cursors + `[0] === ""`)

	b.do(chromedp.Focus(chromedp.CSS(`[data-chart=times] .plot`)), chromedp.KeyEvent(kb.Home))
	b.await(cursors + `.length === 1 && ` + cursors + `[0] !== ""`)
	first := eval[float64](b, `Number(`+cursors+`[0])`)
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	b.await(fmt.Sprintf(`Math.abs(%s[0] - %.3f) < 0.02`, cursors, first+1))
	if text := eval[string](b, `document.querySelector("[data-chart=times] .plot").getAttribute("aria-valuetext")`); !strings.Contains(text, "p99 ") {
		t.Errorf("the crosshair is read out as %q", text)
	}
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await(cursors + `[0] === ""`)

	for _, chart := range eval[[]string](b, `[...document.querySelectorAll("[data-chart]")].map((f) => f.dataset.chart)`) {
		eval[bool](b, `document.querySelector("[data-chart=`+chart+`] details").open = true`)
		b.await(`document.querySelectorAll("[data-chart=` + chart + `] tbody tr").length > 0`)
	}
	b.quiet(address)
}

// TestSaturated makes the generator late, and run out of CPU: the page warns above every number
// while it lasts, and no longer, and draws by how much it was late.
func TestSaturated(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "saturated"}
	address := serve(t, p, &observe.Guard{})
	share := 0.97
	s := second(0)
	s.CPUShare = &share
	s.Lag, s.Doubt = 146*time.Millisecond, "the generator itself did not run for 146ms"
	p.Load(s)
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`!document.querySelector("[data-banner]").hidden && document.querySelector("[data-banner]").innerText.includes("97 %")`)
	b.await(`document.querySelector("[data-banner]").innerText.includes("146ms") && document.querySelector("[data-chart=times] figcaption").innerText.includes("delay 146 ms")`)
	if above := eval[bool](b, `document.querySelector("[data-banner]").getBoundingClientRect().bottom <= document.querySelector("[data-strip]").getBoundingClientRect().top`); !above {
		t.Error("the banner is not above the figures")
	}
	for n := range int64(20) {
		p.Load(second(n))
	}
	b.await(`document.querySelector("[data-banner]").hidden`)
	b.quiet(address)
}

// TestControls tabs through the page: every control is reachable, shows the focus, and
// has a name.
func TestControls(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "controls"}
	address := serve(t, p, &observe.Guard{})
	p.Load(second(0))
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "1"`)
	const controls = `[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) => e.checkVisibility())`
	wanted := eval[int](b, controls+`.map((e, i) => { e.dataset.control = i; return i; }).length`)
	seen := map[string]bool{}
	for range wanted + 5 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := eval[[]string](b, `(() => {
			const e = document.activeElement, s = getComputedStyle(e);
			return [e.dataset.control ?? "", e.tagName + " " + e.className, String(s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2)];
		})()`)
		if at[0] != "" && at[2] != "true" {
			t.Errorf("one does not see that %s has the focus", at[1])
		}
		seen[at[0]] = true
	}
	delete(seen, "")
	if len(seen) != wanted {
		t.Errorf("%d controls of %d can be reached", len(seen), wanted)
	}
	for _, nameless := range eval[[]string](b, controls+`.filter((e) => !(e.getAttribute("aria-label") || e.innerText || e.labels?.[0]?.innerText || "").trim()).map((e) => e.outerHTML)`) {
		t.Errorf("this has no name: %s", nameless)
	}
	b.do(chromedp.Click(chromedp.CSS("[data-theme-switch]")))
	b.await(`document.documentElement.dataset.theme === "light"`)
	b.do(chromedp.Click(chromedp.CSS("[data-theme-switch]")))
	b.await(`document.documentElement.dataset.theme === "dark" && getComputedStyle(document.body).color === "rgb(232, 234, 236)"`)
	eval[bool](b, `localStorage.clear() === undefined`)
	b.quiet(address)
}
