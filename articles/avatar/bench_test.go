package avatar

import (
	"bytes"
	"fmt"
	stdimage "image"
	"image/color"
	"image/png"
	"testing"
)

// BenchmarkDraw draws a picture that nobody has asked for before, and the same with image/png, at its
// fastest, for the last step.
func BenchmarkDraw(b *testing.B) {
	fonts := onlyGo(b)
	for _, size := range []uint16{64, 128, 512} {
		p := Picture{Letters: Rules{}.Of("John Doe"), Size: size, Scale: 50, Background: colourOf("John Doe"), Ink: white}
		var pt painter
		for format, name := range [...]string{PNG: "png", SVG: "svg"} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				p.Format = Format(format)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := pt.draw(fonts, p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("image-png/%d", size), func(b *testing.B) {
			img := stdimage.NewPaletted(stdimage.Rect(0, 0, int(size), int(size)), nil)
			for i := range 17 { // of 16 and fewer, image/png does not copy bytes, and is far slower
				c := p.Background.mix(p.Ink, i, 16)
				img.Palette = append(img.Palette, color.NRGBA{c.R, c.G, c.B, 255})
			}
			encoder := &png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: new(encoderBuffer)}
			b.ReportAllocs()
			for b.Loop() {
				pt.resize(int(size))
				pt.raster.Reset(int(size), int(size))
				if err := (layout{fonts: fonts, buf: &pt.glyphs, side: float32(size)}).letters(p, &pt.raster); err != nil {
					b.Fatal(err)
				}
				for i, c := range pt.coverage() {
					img.Pix[i] = c / 16
				}
				var out bytes.Buffer
				if err := encoder.Encode(&out, img); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type encoderBuffer struct{ buffer *png.EncoderBuffer }

func (b *encoderBuffer) Get() *png.EncoderBuffer     { return b.buffer }
func (b *encoderBuffer) Put(back *png.EncoderBuffer) { b.buffer = back }
