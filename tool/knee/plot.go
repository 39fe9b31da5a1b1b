package knee

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// The plot's size; with its labels it is at most 80 columns wide.
const (
	plotWidth  = 66
	plotHeight = 12
)

// Marks and colours of trials.
const (
	MarkMet     = '●'
	MarkMissed  = '×'
	MarkInvalid = '?'
	markGoal    = '┈'

	colourGreen = "\x1b[32m"
	colourRed   = "\x1b[31m"
	colourNone  = "\x1b[0m"
)

// plot is points in a grid, both axes logarithmic.
type plot struct {
	fromX, toX, fromY, toY float64
	cells                  [plotHeight][plotWidth]rune
}

// writePlot plots the latency against the throughput.
func (r *Report) writePlot(w io.Writer) {
	points := slices.DeleteFunc(r.curve(), func(t Point) bool {
		return t.Rate == nil || t.Plotted == nil || *t.Rate <= 0 || *t.Plotted <= 0
	})
	if len(points) < 2 {
		return
	}
	p := newPlot(points)
	goal := r.GoalLine()
	p.draw(points, goal)
	name := strings.Replace(r.Drawn(), "p999", "p99.9", 1)
	fmt.Fprintf(w, "\n%s against answers per second: %c met, %c missed", name, MarkMet, MarkMissed)
	if slices.ContainsFunc(points, func(t Point) bool { return !t.Valid }) {
		fmt.Fprintf(w, ", %c not valid", MarkInvalid)
	}
	if goal > 0 {
		fmt.Fprintf(w, ", %c the goal", markGoal)
	}
	fmt.Fprintln(w)
	p.write(w, r.colour)
}

// GoalLine returns the time of the plotted goal, in µs; 0: none.
func (r *Report) GoalLine() float64 {
	i := slices.IndexFunc(r.goals, func(g load.Goal) bool { return g.Metric == r.Drawn() })
	if i < 0 {
		return 0
	}
	return r.goals[i].Value
}

func newPlot(points []Point) *plot {
	p := &plot{fromX: math.Inf(1), fromY: math.Inf(1)}
	for _, t := range points {
		p.fromX, p.toX = min(p.fromX, *t.Rate), max(p.toX, *t.Rate)
		p.fromY, p.toY = min(p.fromY, *t.Plotted), max(p.toY, *t.Plotted)
	}
	for row := range p.cells {
		for column := range p.cells[row] {
			p.cells[row][column] = ' '
		}
	}
	return p
}

// Place returns the position of v between from and to, in steps.
func Place(v, from, to float64, steps int) int {
	if to <= from {
		return 0
	}
	return int(math.Round(math.Log(v/from) / math.Log(to/from) * float64(steps-1)))
}

// draw draws the goal under the points, and misses under hits.
func (p *plot) draw(points []Point, goal float64) {
	if goal >= p.fromY && goal <= p.toY {
		row := plotHeight - 1 - Place(goal, p.fromY, p.toY, plotHeight)
		for column := range p.cells[row] {
			p.cells[row][column] = markGoal
		}
	}
	for _, mark := range []rune{MarkInvalid, MarkMissed, MarkMet} {
		for _, t := range points {
			if t.Mark() == mark {
				p.cells[plotHeight-1-Place(*t.Plotted, p.fromY, p.toY, plotHeight)][Place(*t.Rate, p.fromX, p.toX, plotWidth)] = mark
			}
		}
	}
}

// Mark returns the point's symbol.
func (t Point) Mark() rune {
	switch {
	case !t.Valid:
		return MarkInvalid
	case slices.Contains(t.Met, false):
		return MarkMissed
	}
	return MarkMet
}

const plotLabel = 9 // columns of a label

func (p *plot) write(w io.Writer, colour bool) {
	for row, cells := range p.cells {
		label := ""
		if row%4 == 0 || row == plotHeight-1 {
			at := float64(plotHeight-1-row) / (plotHeight - 1)
			label = figure.Micros(p.fromY * math.Pow(p.toY/p.fromY, at))
		}
		line := strings.TrimRight(string(cells[:]), " ")
		if colour {
			line = strings.NewReplacer(string(MarkMet), colourGreen+string(MarkMet)+colourNone, string(MarkMissed), colourRed+string(MarkMissed)+colourNone).Replace(line)
		}
		fmt.Fprintf(w, "%*s │%s\n", plotLabel, label, line)
	}
	fmt.Fprintf(w, "%*s └%s\n", plotLabel, "", strings.Repeat("─", plotWidth))
	labels := figure.Grouped(p.fromX)
	middle, right := figure.Grouped(math.Sqrt(p.fromX*p.toX)), figure.Grouped(p.toX)
	labels += strings.Repeat(" ", max(1, (plotWidth-len(middle))/2-len(labels))) + middle
	labels += strings.Repeat(" ", max(1, plotWidth-len(right)-len(labels))) + right
	fmt.Fprintf(w, "%*s  %s\n", plotLabel, "", labels)
}
