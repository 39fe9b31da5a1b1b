package avatar

import (
	"encoding/hex"
	"strings"
)

// Color is an opaque colour.
type Color struct{ R, G, B uint8 }

// colours are the backgrounds: pleasant colours that are easy to tell apart. TestPalette generates
// them and documents the rules.
var colours = [...]uint32{
	0xf0a5b9, 0x911441, 0xe66973, 0xaf464b, 0x911e14, 0xffa08c, 0xd7643c, 0xa54100, 0xfa913c,
	0xdcaf73, 0xcd8c14, 0xe1b919, 0x50730a, 0x82af3c, 0x00641e, 0x2d9641, 0x69d29b, 0x006e55,
	0x3c9178, 0x37d7c8, 0x00aaaa, 0x0091aa, 0x50cdff, 0x005a87, 0x059beb, 0x5f7de1, 0x3c41a5,
	0x5f64a0, 0xafb4ff, 0x9687cd, 0x8750af, 0xb969c8, 0xeb9bf5, 0x7d2378, 0x8c5073, 0xb97396,
}

// colourOf returns the background for the hash of a name. It depends on the whole name, so that
// people with the same initials usually have different colours.
func colourOf(hash uint64) Color { return rgb(colours[hash>>32%uint64(len(colours))]) }

func rgb(c uint32) Color { return Color{uint8(c >> 16), uint8(c >> 8), uint8(c)} }

// Ink returns black or white, whichever has the higher WCAG contrast with c. That contrast is at
// least 4.58:1 for every colour.
func (c Color) Ink() Color {
	if c.luminance() > equalContrast {
		return Color{}
	}
	return Color{255, 255, 255}
}

// equalContrast is the luminance with which black and white have the same contrast: (l+0.05)/0.05
// = 1.05/(l+0.05), so l is the root of 0.0525, less 0.05.
const equalContrast = 1_791_287_848

// luminance returns the relative luminance as WCAG defines it, 10,000 times fullLight at most.
func (c Color) luminance() uint64 {
	return 2126*uint64(lightOf[c.R]) + 7152*uint64(lightOf[c.G]) + 722*uint64(lightOf[c.B])
}

const fullLight = 1_000_000

// mix returns c with part/of of other mixed in.
func (c Color) mix(other Color, part, of int) Color {
	between := func(a, b uint8) uint8 {
		return uint8((int(a)*(of-part) + int(b)*part + of/2) / of)
	}
	return Color{between(c.R, other.R), between(c.G, other.G), between(c.B, other.B)}
}

// parseColor parses rgb or rrggbb, with or without #. It ignores an opacity, as in rgba and
// rrggbbaa.
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

// lightOf is the linear light of an sRGB component, as a fraction of fullLight. It is a table so
// that rounding does not depend on the machine.
var lightOf = [256]uint32{
	0, 304, 607, 911, 1214, 1518, 1821, 2125, 2428, 2732, 3035, 3347, 3677, 4025, 4391, 4777,
	5182, 5605, 6049, 6512, 6995, 7499, 8023, 8568, 9134, 9721, 10330, 10960, 11612, 12286, 12983, 13702,
	14444, 15209, 15996, 16807, 17642, 18500, 19382, 20289, 21219, 22174, 23153, 24158, 25187, 26241, 27321, 28426,
	29557, 30713, 31896, 33105, 34340, 35601, 36889, 38204, 39546, 40915, 42311, 43735, 45186, 46665, 48172, 49707,
	51269, 52861, 54480, 56128, 57805, 59511, 61246, 63010, 64803, 66626, 68478, 70360, 72272, 74214, 76185, 78187,
	80220, 82283, 84376, 86500, 88656, 90842, 93059, 95307, 97587, 99899, 102242, 104616, 107023, 109462, 111932, 114435,
	116971, 119538, 122139, 124772, 127438, 130136, 132868, 135633, 138432, 141263, 144128, 147027, 149960, 152926, 155926, 158961,
	162029, 165132, 168269, 171441, 174647, 177888, 181164, 184475, 187821, 191202, 194618, 198069, 201556, 205079, 208637, 212231,
	215861, 219526, 223228, 226966, 230740, 234551, 238398, 242281, 246201, 250158, 254152, 258183, 262251, 266356, 270498, 274677,
	278894, 283149, 287441, 291771, 296138, 300544, 304987, 309469, 313989, 318547, 323143, 327778, 332452, 337164, 341914, 346704,
	351533, 356400, 361307, 366253, 371238, 376262, 381326, 386429, 391572, 396755, 401978, 407240, 412543, 417885, 423268, 428690,
	434154, 439657, 445201, 450786, 456411, 462077, 467784, 473531, 479320, 485150, 491021, 496933, 502886, 508881, 514918, 520996,
	527115, 533276, 539479, 545724, 552011, 558340, 564712, 571125, 577580, 584078, 590619, 597202, 603827, 610496, 617207, 623960,
	630757, 637597, 644480, 651406, 658375, 665387, 672443, 679542, 686685, 693872, 701102, 708376, 715694, 723055, 730461, 737910,
	745404, 752942, 760525, 768151, 775822, 783538, 791298, 799103, 806952, 814847, 822786, 830770, 838799, 846873, 854993, 863157,
	871367, 879622, 887923, 896269, 904661, 913099, 921582, 930111, 938686, 947307, 955973, 964686, 973445, 982251, 991102, 1000000,
}
