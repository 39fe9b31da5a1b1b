package view

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/trial"
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
	steps   []kneeStep
	found   knee.Knee
}

// kneeStep is a finished trial.
type kneeStep struct {
	load    float64
	full    bool
	mark    rune
	why     string   // reason for a miss or an invalid trial
	plotted *float64 // the plotted metric, in microseconds
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
func (s kneeStep) word() span {
	switch s.mark {
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
		if s.full {
			length = "full"
		}
		words := fmt.Sprintf("%14s  %-5s  %s %-9s  ", figure.Grouped(s.load)+" "+shortUnit(p.unit), length, p.drawn, figure.OrNone(s.plotted, figure.Micros))
		why := text("")
		if s.why != "" {
			why = span{toneLabel, ": " + s.why}
		}
		lines = append(lines, line{10 + len(p.steps) - i, []span{{toneLabel, fmt.Sprintf("%4d ", i+1)}, text(words), s.word(), why}})
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
	steps := slices.DeleteFunc(slices.Clone(p.steps), func(s kneeStep) bool { return s.plotted == nil || *s.plotted <= 0 || s.load <= 0 })
	wide := min(curveWidth, width-labelColumns-1)
	if len(steps) < 2 || wide < 8 {
		return nil
	}
	fromX, toX, fromY, toY := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, s := range steps {
		fromX, toX = min(fromX, s.load), max(toX, s.load)
		fromY, toY = min(fromY, *s.plotted), max(toY, *s.plotted)
	}
	cells := make([][]rune, curveHeight)
	for row := range cells {
		cells[row] = []rune(strings.Repeat(" ", wide))
	}
	for _, mark := range []rune{knee.MarkInvalid, knee.MarkMissed, knee.MarkMet} {
		for _, s := range steps {
			if s.mark == mark {
				cells[curveHeight-1-knee.Place(*s.plotted, fromY, toY, curveHeight)][knee.Place(s.load, fromX, toX, wide)] = mark
			}
		}
	}
	var lines []line
	for row, marks := range cells {
		label := ""
		switch row {
		case 0:
			label = figure.Micros(toY)
		case curveHeight - 1:
			label = figure.Micros(fromY)
		}
		lines = append(lines, line{rankCurve, append([]span{{toneLabel, fmt.Sprintf("%*s │", labelColumns-2, label)}}, coloured(marks)...)})
	}
	from, to := figure.Grouped(fromX), figure.Grouped(toX)
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
			drawn: strings.Replace(knee.DrawnOf(s.Goals), "p999", "p99.9", 1), doing: "starting"}
		k.screen = openScreen(how.To, k.picture)
	}
	return k
}

// Show is the search's Progress. It never waits for the terminal of a view.
func (k *Knee) Show(now knee.Progress) {
	switch {
	case k.lines != nil:
		k.lines.Show(trial.Progress{Doing: now.Doing, Taken: now.Taken, Load: now.Load})
	case k.screen != nil:
		k.screen.change(func() {
			p := k.picture
			if now.Load == nil {
				p.doing, p.trialAt, p.gauge = now.Doing, k.screen.age(), gauge{}
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
	step := kneeStep{load: t.Load, full: t.Full, mark: t.Mark(), why: t.Why, plotted: t.Plotted}
	if _, figure, missed := strings.Cut(step.why, " missed: "); missed {
		step.why = figure // the goal is shown above, and the miss in front
	}
	k.screen.change(func() {
		k.picture.steps = append(k.picture.steps, step)
		k.picture.found = found
	})
}

// End removes the view and leaves a line. It may be called again.
func (k *Knee) End() {
	if k.screen.close() {
		fmt.Fprintf(k.to, "hone: knee: %s in %s\n", figure.Counted(len(k.picture.steps), "trial"), figure.Lasting(k.screen.age()))
	}
}
