package page_test

import (
	"bytes"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicture takes the pictures of docs/img, written to -page.shots: of a live page
// served at -page.url, once all of its figures are there, or of a report at file:///PATH.
func TestPicture(t *testing.T) {
	address := flag.Lookup("page.url").Value.String()
	if address == "" {
		t.Skip("give -page.url and -page.shots to take pictures of a page that is served")
	}
	kind := "live"
	if strings.HasPrefix(address, "file:") {
		kind = "report"
	}
	b := openTab(t)
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`Number(document.querySelector("[data-chart=rate], [data-chart=served], [data-chart=times]").dataset.points) >= ` + map[string]string{"live": "25", "report": "10"}[kind])
	b.await(`[...document.querySelectorAll("[data-strip] dd:not(.delta)")].every((d) => d.textContent !== "–")`)
	for _, look := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"light", 1120, 800, false}, {"dark", 1120, 800, true}, {"phone", 390, 800, false}} {
		b.size(look.width, look.height, look.dark)
		b.settle()
		name := filepath.Join(flag.Lookup("page.shots").Value.String(), kind+"-"+look.name+".png")
		picture, err := png.Decode(bytes.NewReader(get(b, chromedp.CaptureScreenshot())))
		if err != nil {
			t.Fatal(err)
		}
		var small bytes.Buffer // the browser compresses fast and badly, with more shades than needed
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewerShades(picture)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, small.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// fewerShades reduces each colour to 32 shades.
func fewerShades(of image.Image) image.Image {
	less := image.NewRGBA(of.Bounds())
	draw.Draw(less, less.Bounds(), of, of.Bounds().Min, draw.Src)
	for i, v := range less.Pix {
		less.Pix[i] = v&0xF8 | v>>5
	}
	return less
}
