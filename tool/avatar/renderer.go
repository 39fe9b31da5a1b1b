package avatar

import "github.com/hone-go/hone/pool"

// A Renderer draws pictures. It may be used by several goroutines at a time, and
// allocates nothing once each of them has drawn its largest picture; it holds
// some 1.5 MiB for each that draws at the same moment.
type Renderer struct {
	Fonts *Fonts // required

	painters pool.Objects[painter]
}

// Append appends the image of p to dst. A picture of letters for which there are
// no glyphs is an error: see [Fonts.Fit]. A size outside 16 to 512 is brought
// inside.
func (r *Renderer) Append(dst []byte, p Picture) ([]byte, error) {
	pt := r.painters.Get()
	defer r.painters.Put(pt)
	return pt.draw(dst, r.Fonts, p)
}

// mask is the image of p in memory of its own. It calls pause every 100 µs or so: on a
// processor that others wait for, no large picture is to be drawn in one go.
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

// Recolour appends an image that Append has made of a picture that differs from p
// in its colours only, in the colours of p.
func Recolour(dst, image []byte, p Picture) []byte {
	if p.Format == SVG {
		return recolourSVG(dst, image, p)
	}
	return recolourPNG(dst, image, p)
}
