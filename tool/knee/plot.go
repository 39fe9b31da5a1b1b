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

// Plot is points in a grid of rows, both axes logarithmic.
type Plot struct {
	FromX, ToX, FromY, ToY float64
	Rows                   [][]rune
}

// NewPlot plots the points that have the metric against x, misses under hits; nil for less than two.
func NewPlot(points []Point, x func(Point) *float64, width, height int) *Plot {
	points = slices.DeleteFunc(slices.Clone(points), func(t Point) bool {
		return x(t) == nil || t.Plotted == nil || *x(t) <= 0 || *t.Plotted <= 0
	})
	if len(points) < 2 {
		return nil
	}
	p := &Plot{FromX: math.Inf(1), FromY: math.Inf(1)}
	for _, t := range points {
		p.FromX, p.ToX = min(p.FromX, *x(t)), max(p.ToX, *x(t))
		p.FromY, p.ToY = min(p.FromY, *t.Plotted), max(p.ToY, *t.Plotted)
	}
	for range height {
		p.Rows = append(p.Rows, []rune(strings.Repeat(" ", width)))
	}
	for _, mark := range []rune{MarkInvalid, MarkMissed, MarkMet} {
		for _, t := range points {
			if t.Mark() == mark {
				p.row(*t.Plotted)[place(*x(t), p.FromX, p.ToX, width)] = mark
			}
		}
	}
	return p
}

// row returns the row of a value of the metric.
func (p *Plot) row(v float64) []rune {
	return p.Rows[len(p.Rows)-1-place(v, p.FromY, p.ToY, len(p.Rows))]
}

// writePlot plots the latency against the throughput.
func (r *Report) writePlot(w io.Writer) {
	p := NewPlot(r.curve(), func(t Point) *float64 { return t.Rate }, plotWidth, plotHeight)
	if p == nil {
		return
	}
	goal := r.GoalLine()
	if goal >= p.FromY && goal <= p.ToY {
		for column, mark := range p.row(goal) {
			if mark == ' ' {
				p.row(goal)[column] = markGoal
			}
		}
	}
	fmt.Fprintf(w, "\n%s against answers per second: %c met, %c missed", figure.Name(r.Drawn()), MarkMet, MarkMissed)
	if slices.ContainsFunc(p.Rows, func(row []rune) bool { return slices.Contains(row, MarkInvalid) }) {
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

// place returns the position of v between from and to, in steps.
func place(v, from, to float64, steps int) int {
	if to <= from {
		return 0
	}
	return int(math.Round(math.Log(v/from) / math.Log(to/from) * float64(steps-1)))
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

func (p *Plot) write(w io.Writer, colour bool) {
	for row, cells := range p.Rows {
		label := ""
		if row%4 == 0 || row == plotHeight-1 {
			at := float64(plotHeight-1-row) / (plotHeight - 1)
			label = figure.Micros(p.FromY * math.Pow(p.ToY/p.FromY, at))
		}
		line := strings.TrimRight(string(cells), " ")
		if colour {
			line = strings.NewReplacer(string(MarkMet), colourGreen+string(MarkMet)+colourNone, string(MarkMissed), colourRed+string(MarkMissed)+colourNone).Replace(line)
		}
		fmt.Fprintf(w, "%*s │%s\n", plotLabel, label, line)
	}
	fmt.Fprintf(w, "%*s └%s\n", plotLabel, "", strings.Repeat("─", plotWidth))
	labels := figure.Grouped(p.FromX)
	middle, right := figure.Grouped(math.Sqrt(p.FromX*p.ToX)), figure.Grouped(p.ToX)
	labels += strings.Repeat(" ", max(1, (plotWidth-len(middle))/2-len(labels))) + middle
	labels += strings.Repeat(" ", max(1, plotWidth-len(right)-len(labels))) + right
	fmt.Fprintf(w, "%*s  %s\n", plotLabel, "", labels)
}
