package avatar

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

func benchFonts(tb testing.TB) *Fonts {
	f, err := OpenFonts(FontOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// BenchmarkRender draws a picture that nobody has asked for before.
func BenchmarkRender(b *testing.B) {
	r := &Renderer{Fonts: benchFonts(b)}
	for _, bm := range []struct {
		name string
		p    Picture
	}{
		{"png-128", Picture{Letters: Rules{}.Of("John Doe"), Size: 128, Background: colourOf(hashOf("John Doe")), Ink: Color{255, 255, 255}}},
		{"png-128-round", Picture{Letters: Rules{}.Of("John Doe"), Size: 128, Shape: Round, Background: colourOf(hashOf("John Doe")), Ink: Color{255, 255, 255}}},
		{"png-512", Picture{Letters: Rules{}.Of("John Doe"), Size: 512, Background: colourOf(hashOf("John Doe")), Ink: Color{255, 255, 255}}},
		{"svg", Picture{Letters: Rules{}.Of("John Doe"), Size: 128, Format: SVG, Background: colourOf(hashOf("John Doe")), Ink: Color{255, 255, 255}}},
		{"identicon-128", Picture{Seed: 0xa5a5a, Motif: Identicon, Size: 128, Background: colourOf(hashOf("John Doe")), Ink: Color{255, 255, 255}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var dst []byte
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if dst, err = r.Append(dst[:0], bm.p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(dst)), "bytes")
		})
	}
}

// BenchmarkRecolour is another colour for a picture that is there.
func BenchmarkRecolour(b *testing.B) {
	r := &Renderer{Fonts: benchFonts(b)}
	for _, format := range []Format{PNG, SVG} {
		p := Picture{Letters: Rules{}.Of("John Doe"), Size: 128, Format: format}
		mask, err := r.Append(nil, p)
		if err != nil {
			b.Fatal(err)
		}
		p.Background = colourOf(hashOf("John Doe"))
		dst := make([]byte, 0, len(mask))
		b.Run(format.ContentType(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = Recolour(dst[:0], mask, p)
			}
		})
	}
}

// BenchmarkArticle draws the same picture as the article's service does for every
// request: a text on an RGBA image, encoded by image/png. The font has been
// parsed, as in its second version.
func BenchmarkArticle(b *testing.B) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 64, DPI: 72})
		if err != nil {
			b.Fatal(err)
		}
		img := image.NewRGBA(image.Rect(0, 0, 128, 128))
		draw.Draw(img, img.Bounds(), image.NewUniform(color.RGBA{0x76, 0x66, 0x35, 255}), image.Point{}, draw.Src)
		d := font.Drawer{Dst: img, Src: image.White, Face: face}
		d.Dot = fixed.Point26_6{X: (fixed.I(128) - d.MeasureString("JD")) / 2, Y: fixed.I(87)}
		d.DrawString("JD")
		out.Reset()
		if err := png.Encode(&out, img); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(out.Len()), "bytes")
}

// BenchmarkFit looks for the letters of a name in Han characters.
func BenchmarkFit(b *testing.B) {
	fonts := benchFonts(b)
	letters := Rules{}.Of("欧阳小明")
	b.ReportAllocs()
	for b.Loop() {
		fonts.Fit(letters)
	}
}
