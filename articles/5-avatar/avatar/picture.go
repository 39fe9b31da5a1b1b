package avatar

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Shape is the background of a picture.
type Shape uint8

// The shapes. What is outside of a circle is transparent.
const (
	Square Shape = iota
	Round
	Blank // all of it is transparent
)

// Format is the file format of a picture.
type Format uint8

// The formats.
const (
	PNG Format = iota
	SVG
)

// A Picture is everything that determines the bytes of an image, for a set of fonts.
type Picture struct {
	Letters    Letters // none: only the background
	Background Color
	Ink        Color
	Size       uint16 // in pixels, 16 to 512
	Scale      uint8  // the letters' em in percent of Size
	Shape      Shape
	Bold       bool // the Go fonts only
	Format     Format
}

// version is part of every ETag. Increment it when the bytes of a Picture change.
const version = 5

// appendTag appends the strong ETag of p, in quotes, for fonts with this fingerprint. It costs one
// SHA-256 and no allocation, and needs no drawing.
func (p Picture) appendTag(dst []byte, fonts uint64) []byte {
	var k [64]byte
	b := binary.BigEndian.AppendUint64(append(k[:0], version), fonts)
	for _, r := range p.Letters {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	b = binary.BigEndian.AppendUint16(b, p.Size)
	b = append(b, p.Background.R, p.Background.G, p.Background.B, p.Ink.R, p.Ink.G, p.Ink.B,
		p.Scale, byte(p.Shape), byte(p.Format), 0)
	if p.Bold {
		b[len(b)-1] = 1
	}
	sum := sha256.Sum256(b)
	dst = base64.RawURLEncoding.AppendEncode(append(dst, '"'), sum[:12])
	return append(dst, '"')
}

// Color is an opaque colour.
type Color struct{ R, G, B uint8 }

// colours are the backgrounds of names: dark enough for white letters.
var colours = [...]uint32{
	0x911441, 0xaf464b, 0x911e14, 0xa54100, 0x50730a, 0x00641e, 0x006e55, 0x005a87, 0x3c41a5,
	0x5f64a0, 0x8750af, 0x7d2378, 0x8c5073, 0x0a7864, 0x2d6ec8, 0x5a463c, 0x465564, 0xb4145f,
}

// colourOf returns the background for a name. It depends on the whole name (FNV-1a), so that people
// with the same initials usually have different colours.
func colourOf(name string) Color {
	hash := uint32(2166136261)
	for i := range len(name) {
		hash = (hash ^ uint32(name[i])) * 16777619
	}
	return rgb(colours[(hash^hash>>16)%uint32(len(colours))])
}

func rgb(c uint32) Color { return Color{uint8(c >> 16), uint8(c >> 8), uint8(c)} }

// mix returns c with part/of of other mixed in.
func (c Color) mix(other Color, part, of int) Color {
	between := func(a, b uint8) uint8 { return uint8((int(a)*(of-part) + int(b)*part + of/2) / of) }
	return Color{between(c.R, other.R), between(c.G, other.G), between(c.B, other.B)}
}

// parseColor parses rgb or rrggbb, with or without #.
func parseColor(text string) (Color, bool) {
	text = strings.TrimPrefix(text, "#")
	var digits [6]byte
	switch len(text) {
	case 3:
		for i := range digits {
			digits[i] = text[i/2]
		}
	case 6:
		copy(digits[:], text)
	default:
		return Color{}, false
	}
	var c [3]byte
	_, err := hex.Decode(c[:], digits[:])
	return Color{c[0], c[1], c[2]}, err == nil
}
