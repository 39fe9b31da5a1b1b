package avatar

import "github.com/hone-go/hone/pool"

// A Renderer draws pictures. It is safe for concurrent use, and allocates nothing once each
// goroutine has drawn its largest picture; it keeps about 1.5 MiB for each concurrent drawing.
type Renderer struct {
	Fonts *Fonts // required

	painters pool.Objects[painter]
}

// Append appends the image of p to dst. It returns an error if a letter has no glyph: see
// [Fonts.Fit]. Sizes outside of 16 to 512 are clamped.
func (r *Renderer) Append(dst []byte, p Picture) ([]byte, error) {
	pt := r.painters.Get()
	defer r.painters.Put(pt)
	return pt.draw(dst, r.Fonts, p)
}

// mask returns the image of p in new memory. It calls pause at most 80 µs apart, so that drawing a
// large picture does not block other work on the processor.
func (r *Renderer) mask(p Picture, pause func()) ([]byte, error) {
	pt := r.painters.Get()
	defer r.painters.Put(pt)
	pt.pause = pause
	defer func() { pt.pause = nil }()
	image, err := pt.draw(pt.image[:0], r.Fonts, p)
	pt.image = image
	return append(make([]byte, 0, len(image)), image...), err
}

func (pt *painter) draw(dst []byte, f *Fonts, p Picture) ([]byte, error) {
	p.Size = min(max(p.Size, smallest), largest)
	if p.Format == SVG {
		return pt.appendSVG(dst, f, p)
	}
	return pt.appendPNG(dst, f, p)
}

// Recolour appends an image in the colours of p. Append must have made the image, of a picture
// that differs from p only in its colours.
func Recolour(dst, image []byte, p Picture) []byte {
	if p.Format == SVG {
		return recolourSVG(dst, image, p)
	}
	return recolourPNG(dst, image, p)
}
