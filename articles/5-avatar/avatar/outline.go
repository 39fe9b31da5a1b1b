package avatar

import (
	"fmt"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
)

// A sink receives outlines. vector.Rasterizer is one, which makes pixels of them.
type sink interface {
	MoveTo(x, y float32)
	LineTo(x, y float32)
	QuadTo(ax, ay, x, y float32)
	CubeTo(ax, ay, bx, by, x, y float32)
	ClosePath()
}

// A layout places letters in a square: centred, on one line, small enough for a circle around them.
type layout struct {
	fonts *Fonts
	buf   *sfnt.Buffer
	side  float32 // of the square
}

// widest is the largest part of the side that letters may fill.
const widest = 0.74

// apart is the gap between Arabic letters, in ems: initials are not joined, and without a gap they
// would look as if they were.
const apart = 1. / 6

// letters sends the outlines of p's letters to s.
func (l layout) letters(p Picture, s sink) error {
	n := p.Letters.len()
	var set [len(Letters{})]typeset
	width, size := float32(0), l.side*float32(p.Scale)/100 // in ems, and of an em
	var ink extent
	for i, r := range p.Letters[:n] {
		t, err := l.typeset(r, p.Bold)
		if err != nil {
			return err
		}
		if i > 0 && unicode.Is(unicode.Arabic, r) {
			t.gap = apart
		}
		set[i] = t
		width += t.gap + t.advance
		if t.byInk {
			ink.add(t)
		}
	}
	if most := l.side * widest; width*size > most {
		size = most / width
	}
	x := (l.side - width*size) / 2
	for _, t := range set[:n] {
		middle := t.middle
		if t.byInk {
			middle = ink.middle()
		}
		x += t.gap * size
		if err := l.glyph(t, x, l.side/2+middle*size, size, s); err != nil {
			return err
		}
		x += t.advance * size
	}
	return nil
}

// typeset is a letter's glyph. Its measures are in ems.
type typeset struct {
	font        *sfnt.Font
	index       sfnt.GlyphIndex
	em          float32 // in the font's units
	advance     float32
	gap         float32 // before it
	middle      float32 // from the base line up to the letter's middle
	byInk       bool    // the middle is that of the ink, from bottom to top
	bottom, top float32 // from the base line up, if byInk
}

func (l layout) typeset(r rune, bold bool) (typeset, error) {
	f, index, ok := l.fonts.find(l.buf, r, bold)
	if !ok {
		return typeset{}, fmt.Errorf("avatar: no font has %q; ask Fonts.Fit first", r)
	}
	t := typeset{font: f, index: index, em: float32(em(f))}
	bounds, advance, err := f.GlyphBounds(l.buf, index, em(f), font.HintingNone)
	if err != nil {
		return t, fmt.Errorf("avatar: the glyph of %q: %w; use another font", r, err)
	}
	t.advance = float32(advance) / t.em
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		t.middle = 0.38 // the middle of the square that they fill
	case unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian) || !unicode.IsLetter(r):
		t.middle = capitals(l.buf, f) / t.em / 2
	default: // a script without capitals, some of whose letters reach far up or down
		t.byInk, t.bottom, t.top = true, -float32(bounds.Max.Y)/t.em, -float32(bounds.Min.Y)/t.em
	}
	return t, nil
}

// extent is how far letters reach below and above their base line.
type extent struct {
	bottom, top float32
	some        bool
}

func (e *extent) add(t typeset) {
	if e.some {
		t.bottom, t.top = min(t.bottom, e.bottom), max(t.top, e.top)
	}
	*e = extent{t.bottom, t.top, true}
}

func (e extent) middle() float32 { return (e.bottom + e.top) / 2 }

// glyph sends one outline, with its origin at a point and its em scaled to size.
func (l layout) glyph(t typeset, x, y, size float32, s sink) error {
	segments, err := t.font.LoadGlyph(l.buf, t.index, em(t.font), nil)
	if err != nil {
		return fmt.Errorf("avatar: a glyph's outline: %w; use another font", err)
	}
	var at [6]float32
	for i, seg := range segments {
		for k, p := range seg.Args {
			at[2*k], at[2*k+1] = x+float32(p.X)*size/t.em, y+float32(p.Y)*size/t.em
		}
		switch seg.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				s.ClosePath()
			}
			s.MoveTo(at[0], at[1])
		case sfnt.SegmentOpLineTo:
			s.LineTo(at[0], at[1])
		case sfnt.SegmentOpQuadTo:
			s.QuadTo(at[0], at[1], at[2], at[3])
		case sfnt.SegmentOpCubeTo:
			s.CubeTo(at[0], at[1], at[2], at[3], at[4], at[5])
		}
	}
	s.ClosePath()
	return nil
}
