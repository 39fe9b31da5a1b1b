// Package draw draws the article's pictures: initials in white on a colour of the name.
package draw

import (
	"bytes"
	"hash/fnv"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Drawer draws pictures of one size, with one font face: not for several goroutines at once.
type Drawer struct {
	Face font.Face
	side int
}

// New parses the font.
func New(side int) (*Drawer, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: float64(side) / 2, DPI: 72})
	return &Drawer{Face: face, side: side}, err
}

// Draw draws initials on the colour of a name.
func (d *Drawer) Draw(initials, name string) image.Image {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	sum := hash.Sum32()
	ground := color.RGBA{uint8(sum) | 0x40, uint8(sum>>8) | 0x40, uint8(sum>>16) | 0x40, 255}
	img := image.NewRGBA(image.Rect(0, 0, d.side, d.side))
	draw.Draw(img, img.Bounds(), image.NewUniform(ground), image.Point{}, draw.Src)
	pen := font.Drawer{Dst: img, Src: image.White, Face: d.Face}
	pen.Dot = fixed.Point26_6{X: (fixed.I(d.side) - pen.MeasureString(initials)) / 2, Y: fixed.I(d.side * 2 / 3)}
	pen.DrawString(initials)
	return img
}

// Encode encodes a picture as PNG.
func Encode(img image.Image) ([]byte, error) {
	var out bytes.Buffer
	err := png.Encode(&out, img)
	return out.Bytes(), err
}
