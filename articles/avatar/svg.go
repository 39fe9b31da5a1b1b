package avatar

import "strconv"

// svgSide is the side of an SVG's view box, and svgGrain the subdivision of its units for laying
// out letters.
const (
	svgSide  = 2048
	svgGrain = 16
)

// pathSink writes outlines as an SVG path, in whole numbers relative to the last point, which is
// the shortest form.
type pathSink struct {
	dst   []byte
	pen   point
	op    byte
	drawn bool // an outline is not closed yet
}

func (s *pathSink) move(to point) {
	s.end()
	s.op, s.drawn = 0, true
	s.dst = append(s.dst, 'M')
	s.dst = strconv.AppendInt(s.dst, to.x, 10)
	s.number(to.y)
	s.pen = to
}

func (s *pathSink) end() {
	if s.drawn {
		s.dst = append(s.dst, 'z')
	}
}

func (s *pathSink) line(to point) {
	if to != s.pen {
		s.begin('l')
		s.to(to, true)
		s.pen = to
	}
}

func (s *pathSink) quad(via, to point) {
	s.begin('q')
	s.to(via, true)
	s.to(to, false)
	s.pen = to
}

func (s *pathSink) cube(via, by, to point) {
	s.begin('c')
	s.to(via, true)
	s.to(by, false)
	s.to(to, false)
	s.pen = to
}

// begin writes an operation, unless the last one was the same.
func (s *pathSink) begin(op byte) {
	if s.op == op {
		op = 0
	} else {
		s.op = op
	}
	if op != 0 {
		s.dst = append(s.dst, op)
	}
}

// to writes a point relative to the pen; the first after an operation needs no space.
func (s *pathSink) to(p point, first bool) {
	if last := s.dst[len(s.dst)-1]; first && last == s.op {
		s.dst = strconv.AppendInt(s.dst, p.x-s.pen.x, 10)
	} else {
		s.number(p.x - s.pen.x)
	}
	s.number(p.y - s.pen.y)
}

// number writes a number after another; a minus sign separates them like a space.
func (s *pathSink) number(v int64) {
	if v >= 0 {
		s.dst = append(s.dst, ' ')
	}
	s.dst = strconv.AppendInt(s.dst, v, 10)
}

// The colours of an SVG are its only style, at its beginning, where recolourSVG finds them: rrggbb
// at these offsets after svgOpen.
const (
	svgOpen    = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2048 2048" color="#`
	svgInkAt   = len(svgOpen)
	svgMiddle  = `" fill="#`
	svgFillAt  = svgInkAt + 6 + len(svgMiddle)
	svgColours = svgFillAt + 6
)

// appendSVG appends p as SVG, in the colours of p. Letters are outlines, so that it looks the same
// on systems without its fonts.
func (pt *painter) appendSVG(dst []byte, f *Fonts, p Picture) ([]byte, error) {
	dst = appendSVGColours(dst, p)
	dst = append(dst, `" width="`...)
	dst = strconv.AppendUint(dst, uint64(p.Size), 10)
	dst = append(dst, `" height="`...)
	dst = strconv.AppendUint(dst, uint64(p.Size), 10)
	dst = append(dst, `">`...)
	switch {
	case p.Motif == Blank:
	case p.Shape == Round:
		dst = append(dst, `<circle cx="1024" cy="1024" r="1024"/>`...)
	default:
		dst = append(dst, `<path d="M0 0h2048v2048H0z"/>`...)
	}
	s := &pt.path // in the painter, so that it is not allocated each time
	*s = pathSink{dst: dst}
	switch p.Motif {
	case Initials:
		s.open(svgInk)
		l := layout{fonts: f, buf: &pt.glyphs, side: svgSide * svgGrain, grain: svgGrain}
		if err := l.letters(p, s); err != nil {
			return dst, err
		}
		s.close()
	case Identicon:
		s.open(svgInk)
		pattern(p.Seed, false, svgSide, s)
		s.close()
		s.open(svgSoftInk)
		pattern(p.Seed, true, svgSide, s)
		s.close()
	}
	dst = append(s.dst, `</svg>`...)
	s.dst = nil // it belongs to the caller
	return dst, nil
}

// How a path begins, in ink or in the lighter tone.
const (
	svgInk     = `<path fill="currentColor" d="`
	svgSoftInk = `<path fill="currentColor" fill-opacity=".4" d="`
)

// open begins a path.
func (s *pathSink) open(element string) {
	s.dst = append(s.dst, element...)
	s.op, s.drawn = 0, false
}

// close ends it.
func (s *pathSink) close() {
	s.end()
	s.dst = append(s.dst, `"/>`...)
}

func appendSVGColours(dst []byte, p Picture) []byte {
	dst = append(dst, svgOpen...)
	dst = p.Ink.appendHex(dst)
	dst = append(dst, svgMiddle...)
	return p.Background.appendHex(dst)
}

// recolourSVG appends an SVG, drawn for p's mask, in the colours of p.
func recolourSVG(dst, mask []byte, p Picture) []byte {
	dst = appendSVGColours(dst, p)
	return append(dst, mask[svgColours:]...)
}
