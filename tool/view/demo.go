package view

import (
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// demoPicture is a race of hone demo: one line.
type demoPicture struct {
	leg, legs     int // from 1
	engine, doing string
}

// lines draws it.
func (p *demoPicture) lines(at time.Duration, width int) []line {
	done := 0.0
	if p.legs > 0 {
		done = float64(p.leg-1) / float64(p.legs)
	}
	short := fmt.Sprintf("%d of %d, %s", p.leg, p.legs, p.engine)
	return []line{field(0, "hone demo", barAnd(done, width, short+": "+p.doing+", "+figure.Lasting(at), short)...)}
}

// Demo shows the progress of a race: on a terminal that can draw, one changing line;
// elsewhere, a line for every step.
type Demo struct {
	to      io.Writer
	screen  *screen // nil: no view
	picture *demoPicture
}

// NewDemo shows a race on w, as a picture or in lines.
func NewDemo(w io.Writer) *Demo {
	d := &Demo{to: w}
	if (How{To: w, Lines: true}).watching() == asPicture {
		d.picture = &demoPicture{}
		d.screen = openScreen(w, d.picture)
	}
	return d
}

// Show shows the current leg, the number of legs, and what is being measured. Legs count
// from 1.
func (d *Demo) Show(leg, legs int, engine, what string) {
	if d.screen == nil {
		fmt.Fprintf(d.to, "%d/%d  %-13s  %s\n", leg, legs, engine, what)
		return
	}
	d.screen.change(func() { *d.picture = demoPicture{leg, legs, engine, what} })
}

// End removes the view. It may be called again.
func (d *Demo) End() { d.screen.close() }
