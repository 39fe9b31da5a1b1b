package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/page"
)

// TestMoves checks that charts grow as seconds arrive.
func TestMoves(t *testing.T) {
	b := openTab(t)
	p := &page.Page{Title: "hone load 127.0.0.1:7000", Sources: []page.Source{page.ThisHost()}}
	address := serve(t, p, &observe.Guard{})
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-status]").textContent === "waiting" && document.querySelector("[data-link]").textContent === "live"`)
	b.shot("empty-desktop-light")
	for n := range int64(3) {
		p.Load(second(n))
	}
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "3"`)
	before := eval[string](b, `document.querySelector("[data-chart=rate] canvas").toDataURL()`)
	for n := range int64(5) {
		p.Load(second(n))
	}
	b.await(`document.querySelector("[data-chart=rate]").dataset.points === "8" && document.querySelector("[data-chart=times]").dataset.points === "24"`)
	if after := eval[string](b, `document.querySelector("[data-chart=rate] canvas").toDataURL()`); after == before {
		t.Error("the chart of rates looks as it did five seconds ago")
	}
	b.await(`Number(document.querySelector("[data-chart=host]").dataset.points) > 0`)
	b.quiet(address)
}
