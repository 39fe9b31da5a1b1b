package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/knee"
)

// kneePicture is a run of hone knee.
type kneePicture struct {
	title   string
	goals   string
	drawn   string // the plotted metric
	unit    string // of loads
	wanted  float64
	doing   string
	trialAt time.Duration // when the trial began
	gauge   gauge
	steps   []knee.Point // finished trials
	found   knee.Knee
}

// lines draws it.
func (p *kneePicture) lines(at time.Duration, width int) []line {
	lines := []line{
		{5, []span{{toneTitle, "hone knee "}, text(p.title)}},
		field(9, "goals", text(p.goals)),
		field(0, "bracket", p.bracket()),
		field(0, "now", text(p.doing), span{toneLabel, ", " + figure.Lasting(at-p.trialAt)}),
	}
	lines = append(lines, p.gauge.lines(2, width)...)
	lines = append(lines, p.latest()...)
	return append(append(lines, p.curve(width)...), howToEnd())
}

// bracket is the remaining range of the search.
func (p *kneePicture) bracket() span {
	k, unit := p.found, " "+p.unit
	switch {
	case k.Met == 0 && k.Missed == 0 && k.Invalid == 0:
		return text("nothing known yet")
	case k.Missed == 0 && k.Invalid == 0:
		return text("met at " + figure.Grouped(k.Met) + unit + ", no upper limit found yet")
	case k.Missed == 0:
		return text("met at " + orNothing(k.Met) + unit + ", generator could not offer " + figure.Grouped(k.Invalid))
	case k.Met == 0:
		return text("missed at " + figure.Grouped(k.Missed) + unit + ", not met at any load yet")
	}
	return text(fmt.Sprintf("met at %s, missed at %s%s: %.1f %% apart, %.1f %% wanted", figure.Grouped(k.Met), figure.Grouped(k.Missed), unit, 100*(k.Missed/k.Met-1), 100*p.wanted))
}

func orNothing(v float64) string {
	if v == 0 {
		return "nothing"
	}
	return figure.Grouped(v)
}

// word returns a trial's outcome with its tone.
func word(t knee.Point) span {
	switch t.Mark() {
	case knee.MarkMet:
		return span{toneGood, "met"}
	case knee.MarkMissed:
		return span{toneBad, "missed"}
	}
	return span{toneWarn, "not valid"}
}

const stepsShown = 8

// latest shows the last steps; the older ones are dropped first.
func (p *kneePicture) latest() (lines []line) {
	for i := max(0, len(p.steps)-stepsShown); i < len(p.steps); i++ {
		s := p.steps[i]
		length := "short"
		if s.Full {
			length = "full"
		}
		words := fmt.Sprintf("%14s  %-5s  %s %-9s  ", figure.Grouped(s.Load)+" "+shortUnit(p.unit), length, p.drawn, figure.OrNone(s.Plotted, figure.Micros))
		why := text("")
		if s.Why != "" {
			why = span{toneLabel, ": " + s.Why}
		}
		lines = append(lines, line{10 + len(p.steps) - i, []span{{toneLabel, fmt.Sprintf("%4d ", i+1)}, text(words), word(s), why}})
	}
	return lines
}

// shortUnit abbreviates a unit for columns.
func shortUnit(unit string) string {
	if unit == "connections" {
		return "conns"
	}
	return unit
}

// The size of the small curve.
const (
	curveHeight = 6
	curveWidth  = 56
	rankCurve   = 30
)

// curve plots the metric against the load, both logarithmic.
func (p *kneePicture) curve(width int) []line {
	wide := min(curveWidth, width-labelColumns-1)
	if wide < 8 {
		return nil
	}
	plot := knee.NewPlot(p.steps, func(t knee.Point) *float64 { return &t.Load }, wide, curveHeight)
	if plot == nil {
		return nil
	}
	var lines []line
	for row, marks := range plot.Rows {
		label := ""
		switch row {
		case 0:
			label = figure.Micros(plot.ToY)
		case curveHeight - 1:
			label = figure.Micros(plot.FromY)
		}
		lines = append(lines, line{rankCurve, append([]span{{toneLabel, fmt.Sprintf("%*s │", labelColumns-2, label)}}, coloured(marks)...)})
	}
	from, to := figure.Grouped(plot.FromX), figure.Grouped(plot.ToX)
	axis := from + strings.Repeat(" ", max(1, wide-columns(from)-columns(to))) + to
	return append(lines, line{rankCurve, []span{{toneLabel, fmt.Sprintf("%*s  %s", labelColumns-2, p.drawn, axis)}}})
}

// coloured adds tones to marks.
func coloured(marks []rune) (spans []span) {
	tones := map[rune]tone{knee.MarkMet: toneGood, knee.MarkMissed: toneBad, knee.MarkInvalid: toneWarn}
	for _, m := range strings.TrimRight(string(marks), " ") {
		if last := len(spans) - 1; last >= 0 && spans[last].tone == tones[m] {
			spans[last].text += string(m)
			continue
		}
		spans = append(spans, span{tones[m], string(m)})
	}
	return spans
}

// Knee shows the progress of a search.
type Knee struct {
	lines   *Steps  // nil: no lines
	screen  *screen // nil: no view
	to      io.Writer
	picture *kneePicture // shared by the search and the screen
}

// NewKnee shows the progress of s, which has these goals, against target.
func NewKnee(how How, target, goals string, s *knee.Search) *Knee {
	k := &Knee{to: how.To}
	switch how.watching() {
	case inLines:
		k.lines = &Steps{w: how.To, asked: true}
	case asPicture:
		k.picture = &kneePicture{title: target, goals: goals, unit: s.Unit(), wanted: s.Plan.Width,
			drawn: figure.Name(knee.DrawnOf(s.Goals)), doing: "starting"}
		k.screen = openScreen(how.To, k.picture)
	}
	return k
}

// Show is the search's Progress. It never waits for the terminal of a view.
func (k *Knee) Show(now knee.Progress) {
	switch {
	case k.lines != nil:
		k.lines.show(now.String(), 0, now.Load)
	case k.screen != nil:
		k.screen.change(func() {
			p := k.picture
			if now.Load == nil {
				p.doing, p.trialAt, p.gauge = now.String(), k.screen.age(), gauge{}
				return
			}
			p.gauge.conns = max(p.gauge.conns, now.Load.Conns)
			p.gauge.take(*now.Load)
		})
	}
}

// Made adds a finished trial, and the state of the search.
func (k *Knee) Made(t knee.Point, found knee.Knee) {
	if k.screen == nil {
		return
	}
	if _, figure, missed := strings.Cut(t.Why, " missed: "); missed {
		t.Why = figure // the goal is shown above, and the miss in front
	}
	k.screen.change(func() {
		k.picture.steps = append(k.picture.steps, t)
		k.picture.found = found
	})
}

// End removes the view and leaves a line. It may be called again.
func (k *Knee) End() {
	if k.screen.close() {
		fmt.Fprintf(k.to, "hone: knee: %s in %s\n", figure.Counted(len(k.picture.steps), "trial"), figure.Lasting(k.screen.age()))
	}
}
