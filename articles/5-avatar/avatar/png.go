package avatar

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"runtime"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/vector"
)

// A picture consists of mixtures of two colours, and a pixel is one of 17: the edge of a circle has
// steps from transparent to nearly opaque, and the shades lead from the background to the ink. Of 16 and
// fewer, image/png packs several into a byte, which takes far longer than it saves.
const (
	edges  = 5
	shades = 17 - edges
)

// painter holds what drawing reuses. One painter draws one picture at a time.
type painter struct {
	glyphs  sfnt.Buffer
	raster  vector.Rasterizer
	cover   image.Alpha
	picture image.Paletted
	packed  bytes.Buffer
	buffer  *png.EncoderBuffer
}

// draw returns the bytes of p.
func (pt *painter) draw(f *Fonts, p Picture) ([]byte, error) {
	if p.Format == SVG {
		return pt.svg(f, p)
	}
	if err := pt.paint(f, p); err != nil {
		return nil, err
	}
	runtime.Gosched()
	pt.picture.Palette = pt.picture.Palette[:0]
	for i := range edges + shades {
		c := p.Background.mix(p.Ink, max(i-edges, 0), shades-1)
		opacity := uint8(255)
		if i < edges && p.Shape != Square {
			opacity = uint8(51 * i)
		}
		pt.picture.Palette = append(pt.picture.Palette, color.NRGBA{c.R, c.G, c.B, opacity})
	}
	pt.packed.Reset()
	encoder := png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: pt}
	if err := encoder.Encode(&pt.packed, &pt.picture); err != nil {
		return nil, err
	}
	return bytes.Clone(pt.packed.Bytes()), nil
}

// Get and Put keep the encoder's buffer, as png.EncoderBufferPool.
func (pt *painter) Get() *png.EncoderBuffer { return pt.buffer }

// Put is Get's other half.
func (pt *painter) Put(b *png.EncoderBuffer) { pt.buffer = b }

// paint draws p in pixels.
func (pt *painter) paint(f *Fonts, p Picture) error {
	side := int(p.Size)
	pt.resize(side)
	if p.Shape == Blank {
		clear(pt.picture.Pix)
		return nil
	}
	pt.raster.Reset(side, side)
	if p.Letters[0] != 0 {
		if err := (layout{fonts: f, buf: &pt.glyphs, side: float32(side)}).letters(p, &pt.raster); err != nil {
			return err
		}
	}
	pixels := pt.picture.Pix
	for i, c := range pt.coverage()[:len(pixels)] {
		pixels[i] = edges + uint8((uint32(c)*(shades-1)+128)>>8)
	}
	if p.Shape == Round {
		pt.raster.Reset(side, side)
		circle(float32(side)/2, &pt.raster)
		for i, c := range pt.coverage()[:len(pixels)] {
			if c != 255 {
				pixels[i] = uint8(int(c) * edges / 255)
			}
		}
	}
	return nil
}

// resize makes room for a picture.
func (pt *painter) resize(side int) {
	if n := side * side; cap(pt.picture.Pix) < n {
		pt.picture.Pix, pt.cover.Pix = make([]uint8, n), make([]uint8, n)
	}
	pt.picture.Pix, pt.cover.Pix = pt.picture.Pix[:side*side], pt.cover.Pix[:side*side]
	pt.picture.Stride, pt.cover.Stride = side, side
	pt.picture.Rect, pt.cover.Rect = image.Rect(0, 0, side, side), image.Rect(0, 0, side, side)
}

// coverage returns how much of each pixel the outlines cover, row by row. It yields, as draw does
// before it encodes: a request for a cached picture waits for a third of a drawing.
func (pt *painter) coverage() []uint8 {
	pt.raster.DrawOp = draw.Src
	pt.raster.Draw(&pt.cover, pt.cover.Rect, image.Opaque, image.Point{})
	runtime.Gosched()
	return pt.cover.Pix
}

// circle draws the circle around all letters.
func circle(r float32, to sink) {
	const handle = 0.5523 // of a quarter circle's curve
	h := r * handle
	to.MoveTo(2*r, r)
	to.CubeTo(2*r, r+h, r+h, 2*r, r, 2*r)
	to.CubeTo(r-h, 2*r, 0, r+h, 0, r)
	to.CubeTo(0, r-h, r-h, 0, r, 0)
	to.CubeTo(r+h, 0, 2*r, r-h, 2*r, r)
	to.ClosePath()
}
