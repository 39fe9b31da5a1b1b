package avatar

import (
	"encoding/hex"
	"strings"
)

// Color is an opaque colour.
type Color struct{ R, G, B uint8 }

// colours are backgrounds, two shades for each of 16 hues. White on any of them
// has a contrast of at least 4.5, which is what WCAG asks of text.
var colours = [...]uint32{
	0xd03939, 0xa54a4a, 0xae5a29, 0x8d5c3f, 0x886e20, 0x766635, 0x6c781c, 0x646b30,
	0x4e7e1e, 0x506f32, 0x2b821f, 0x3c7434, 0x1f8237, 0x347444, 0x1e805b, 0x33725b,
	0x1e7e7e, 0x337171, 0x2777a7, 0x3d6c87, 0x476ad4, 0x4d64ab, 0x6f60da, 0x675bb5,
	0x934fd6, 0x8151b1, 0xb930cc, 0x9548a0, 0xc62fa0, 0x9e4789, 0xcf336d, 0xa2496a,
}

// colourOf is the background that belongs to the hash of a name: all of the name, so that
// those who share their initials do not share a colour as well.
func colourOf(hash uint64) Color { return rgb(colours[hash>>32%uint64(len(colours))]) }

func rgb(c uint32) Color { return Color{uint8(c >> 16), uint8(c >> 8), uint8(c)} }

// Ink is black or white, whichever can be read better on c.
func (c Color) Ink() Color {
	if c.light() {
		return Color{}
	}
	return Color{255, 255, 255}
}

// light reports whether black is the better ink: a luminance above 0.2, with
// squares for the exponent of 2.4, so that no platform rounds otherwise.
func (c Color) light() bool {
	r, g, b := uint32(c.R), uint32(c.G), uint32(c.B)
	return 2126*r*r+7152*g*g+722*b*b > 2000*255*255
}

// mix is c with part/of of other in it.
func (c Color) mix(other Color, part, of int) Color {
	between := func(a, b uint8) uint8 {
		return uint8((int(a)*(of-part) + int(b)*part + of/2) / of)
	}
	return Color{between(c.R, other.R), between(c.G, other.G), between(c.B, other.B)}
}

// parseColor reads rgb or rrggbb, with or without #. An opacity behind it, as in
// rgba and rrggbbaa, is left out.
func parseColor(text string) (Color, bool) {
	text = strings.TrimPrefix(text, "#")
	var digits [6]byte
	switch len(text) {
	case 3, 4:
		for i := range 3 {
			digits[2*i], digits[2*i+1] = text[i], text[i]
		}
	case 6, 8:
		copy(digits[:], text)
	default:
		return Color{}, false
	}
	var c [3]byte
	if _, err := hex.Decode(c[:], digits[:]); err != nil {
		return Color{}, false
	}
	return Color{c[0], c[1], c[2]}, len(text)%4 != 0 || isHex(text[3*len(text)/4:])
}

func isHex(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// appendHex appends rrggbb.
func (c Color) appendHex(dst []byte) []byte {
	return hex.AppendEncode(dst, []byte{c.R, c.G, c.B})
}
