package page_test

import (
	"bytes"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicture takes the pictures of docs/img: of a page that is served at -page.url,
// written to -page.shots.
func TestPicture(t *testing.T) {
	address := flag.Lookup("page.url").Value.String()
	if address == "" {
		t.Skip("give -page.url and -page.shots to take pictures of a page that is served")
	}
	b := openTab(t)
	b.size(1280, 900, false)
	b.do(chromedp.Navigate(address))
	b.await(`document.querySelector("[data-status]").textContent !== "waiting" || document.querySelector("[data-chart=served]")`)
	b.await(`[...document.querySelectorAll("[data-chart]")].some((f) => f.dataset.points > 20)`)
	for _, look := range []struct {
		name string
		dark bool
	}{{"live-light", false}, {"live-dark", true}} {
		b.size(1120, 800, look.dark)
		b.settle()
		name := filepath.Join(flag.Lookup("page.shots").Value.String(), look.name+".png")
		picture, err := png.Decode(bytes.NewReader(get(b, chromedp.CaptureScreenshot())))
		if err != nil {
			t.Fatal(err)
		}
		var small bytes.Buffer // a browser compresses in haste, and has more shades than anybody sees
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewerShades(picture)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, small.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// fewerShades leaves 32 of each colour.
func fewerShades(of image.Image) image.Image {
	less := image.NewRGBA(of.Bounds())
	draw.Draw(less, less.Bounds(), of, of.Bounds().Min, draw.Src)
	for i, v := range less.Pix {
		less.Pix[i] = v&0xF8 | v>>5
	}
	return less
}
