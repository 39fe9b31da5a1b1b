package avatar

import (
	"fmt"
	"strconv"
)

// svgSide is the side of an SVG's view box.
const svgSide = 1000

// svg returns p as SVG. Letters are outlines, so that it looks the same on systems without its
// fonts, and nothing of the request is in it but colours and a size.
func (pt *painter) svg(f *Fonts, p Picture) ([]byte, error) {
	s := &svgPath{fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%[1]d" viewBox="0 0 1000 1000">`, p.Size)}
	if p.Shape != Blank {
		s.open(p.Background)
		if p.Shape == Round {
			circle(svgSide/2, s)
		} else {
			s.text = append(s.text, "M0 0H1000V1000H0z"...)
		}
		s.text = append(s.text, `"/>`...)
	}
	if p.Letters[0] != 0 {
		s.open(p.Ink)
		if err := (layout{fonts: f, buf: &pt.glyphs, side: svgSide}).letters(p, s); err != nil {
			return nil, err
		}
		s.text = append(s.text, `"/>`...)
	}
	return append(s.text, `</svg>`...), nil
}

// svgPath writes outlines as an SVG path.
type svgPath struct{ text []byte }

func (s *svgPath) open(c Color) {
	s.text = fmt.Appendf(s.text, `<path fill="#%02x%02x%02x" d="`, c.R, c.G, c.B)
}

func (s *svgPath) op(name byte, numbers ...float32) {
	s.text = append(s.text, name)
	for i, v := range numbers {
		if i > 0 {
			s.text = append(s.text, ' ')
		}
		s.text = strconv.AppendInt(s.text, int64(v+0.5), 10)
	}
}

func (s *svgPath) MoveTo(x, y float32)                 { s.op('M', x, y) }
func (s *svgPath) LineTo(x, y float32)                 { s.op('L', x, y) }
func (s *svgPath) QuadTo(ax, ay, x, y float32)         { s.op('Q', ax, ay, x, y) }
func (s *svgPath) CubeTo(ax, ay, bx, by, x, y float32) { s.op('C', ax, ay, bx, by, x, y) }
func (s *svgPath) ClosePath()                          { s.op('z') }
