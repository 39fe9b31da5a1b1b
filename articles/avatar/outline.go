package avatar

import (
	"fmt"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// A point is a position in a picture, in the units of a layout.
type point struct{ x, y int64 }

// A sink receives outlines. All coordinates are integers, so that all machines draw the same.
type sink interface {
	move(to point)
	line(to point)
	quad(via, to point)
	cube(via, by, to point)
}

// A layout places letters in a square whose side is a number of units: centred, on one line, small
// enough for a circle around them.
type layout struct {
	fonts *Fonts
	buf   *sfnt.Buffer
	side  int64 // of the square
	grain int64 // how many units are one unit of the sink
}

// widest is the largest part of the side that letters may fill, in percent.
const widest = 74

// apart is the gap between Arabic letters, in shares of an em: initials are not joined, and
// without a gap they would look as if they were.
const apart = share / 6

// share is the number of shares in an em, the unit of widths.
const share = 1 << 20

// letters sends the outlines of p's letters to s.
func (l layout) letters(p Picture, s sink) error {
	n := p.Letters.len()
	scale := int64(p.Scale)
	if scale == 0 {
		scale = 50
	}
	var set [len(Letters{})]typeset
	width, size := int64(0), l.side*scale/100 // of an em
	var ink extent
	for i, r := range p.Letters[:n] {
		t, err := l.typeset(r, p.Weight)
		if err != nil {
			return err
		}
		if i > 0 && unicode.Is(unicode.Arabic, r) {
			t.gap = apart
		}
		set[i] = t
		width += t.advance*share/t.em + t.gap
		if t.byInk {
			ink.add(t)
		}
	}
	if most := l.side * widest / 100; width*size/share > most {
		size = most * share / width
	}
	x := (l.side - width*size/share) / 2
	for _, t := range set[:n] {
		x += t.gap * size / share
		at := point{x, l.side/2 + t.middle*size/t.em}
		if t.byInk {
			at.y = l.side/2 + ink.middle()*size/share
		}
		if err := l.glyph(t, at, size, s); err != nil {
			return err
		}
		x += t.advance * size / t.em
	}
	return nil
}

// typeset is a letter's glyph, in its font's units.
type typeset struct {
	font        *sfnt.Font
	index       sfnt.GlyphIndex
	em          int64
	advance     int64
	gap         int64 // before it, in shares of an em
	middle      int64 // from the base line up to the letter's middle
	byInk       bool  // the middle is that of the ink, from bottom to top
	bottom, top int64 // from the base line up, if byInk
}

func (l layout) typeset(r rune, w Weight) (typeset, error) {
	f, index, ok := l.fonts.find(l.buf, r, w)
	if !ok {
		return typeset{}, fmt.Errorf("avatar: no font has %q; ask Fonts.Fit first", r)
	}
	t := typeset{font: f, index: index, em: int64(em(f))}
	advance, err := f.GlyphAdvance(l.buf, index, em(f), font.HintingNone)
	if err != nil {
		return t, fmt.Errorf("avatar: the glyph of %q: %w; use another font", r, err)
	}
	t.advance = int64(advance)
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		t.middle = t.em * 38 / 100 // the middle of the square that they fill
	case unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian) || !unicode.IsLetter(r):
		t.middle = capitals(l.buf, f) / 2
	default: // a script without capitals, some of whose letters reach far up or down
		bounds, _, err := f.GlyphBounds(l.buf, index, em(f), font.HintingNone)
		if err != nil {
			return t, fmt.Errorf("avatar: the glyph of %q: %w; use another font", r, err)
		}
		t.byInk, t.bottom, t.top = true, -int64(bounds.Max.Y), -int64(bounds.Min.Y)
	}
	return t, nil
}

// extent is how far letters reach below and above their base line, in shares of an em.
type extent struct {
	bottom, top int64
	some        bool
}

func (e *extent) add(t typeset) {
	bottom, top := t.bottom*share/t.em, t.top*share/t.em
	if e.some {
		bottom, top = min(bottom, e.bottom), max(top, e.top)
	}
	*e = extent{bottom, top, true}
}

func (e extent) middle() int64 { return (e.bottom + e.top) / 2 }

// glyph sends one outline, with its origin at a point and its em scaled to size.
func (l layout) glyph(t typeset, at point, size int64, s sink) error {
	segments, err := t.font.LoadGlyph(l.buf, t.index, fixed.Int26_6(t.em), nil)
	if err != nil {
		return fmt.Errorf("avatar: a glyph's outline: %w; use another font", err)
	}
	place := func(p fixed.Point26_6) point {
		x, y := at.x+scaled(int64(p.X), size, t.em), at.y+scaled(int64(p.Y), size, t.em)
		return point{nearest(x, l.grain), nearest(y, l.grain)}
	}
	for _, seg := range segments {
		switch seg.Op {
		case sfnt.SegmentOpMoveTo:
			s.move(place(seg.Args[0]))
		case sfnt.SegmentOpLineTo:
			s.line(place(seg.Args[0]))
		case sfnt.SegmentOpQuadTo:
			s.quad(place(seg.Args[0]), place(seg.Args[1]))
		case sfnt.SegmentOpCubeTo:
			s.cube(place(seg.Args[0]), place(seg.Args[1]), place(seg.Args[2]))
		}
	}
	return nil
}

func scaled(v, size, em int64) int64 { return nearest(v*size, em) }

// nearest returns v/of, rounded to the nearest integer.
func nearest(v, of int64) int64 {
	if v < 0 {
		return -((-v + of/2) / of)
	}
	return (v + of/2) / of
}
