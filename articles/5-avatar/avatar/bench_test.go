package avatar

import (
	"fmt"
	"testing"
)

// BenchmarkDraw draws a picture that nobody has asked for before.
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
	}
}
