package view

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// loadPicture is a run of hone load.
type loadPicture struct {
	target, shape  string
	warmup, length time.Duration
	allowErrors    bool
	gauge          gauge
	outcomes       []load.Outcome // of the goals, if the run ended now

	connected time.Duration // when all connections were open, to the second
	measuring time.Duration // when the measured time began; 0: not yet
}

// warmupOf returns the plan's warm-up, with the default for zero.
func warmupOf(p load.Plan) time.Duration {
	if p.Warmup == 0 {
		return min(p.For/10, 5*time.Second)
	}
	return max(p.Warmup, 0)
}

// take adds one second's figures.
func (p *loadPicture) take(now load.Progress) {
	before := p.gauge.now
	p.gauge.take(now)
	if now.Phase == load.Connecting {
		return
	}
	if before.Phase == "" || before.Phase == load.Connecting {
		p.connected = max(now.Elapsed-time.Second, before.Elapsed)
	}
	if now.Phase != load.WarmingUp && p.measuring == 0 {
		p.measuring = min(max(p.connected+p.warmup, before.Elapsed), now.Elapsed)
	}
}

// lines draws it.
func (p *loadPicture) lines(at time.Duration, width int) []line {
	lines := []line{
		{5, []span{{toneTitle, "hone load "}, text(p.target)}},
		field(9, "load", text(p.shape)),
		p.progress(at, width),
	}
	lines = append(lines, p.gauge.lines(1, width)...)
	lines = append(lines, p.soFar())
	for i, o := range p.outcomes {
		lines = append(lines, outcomeLine(6+i, o))
	}
	return append(lines, howToEnd())
}

// progress shows the phase and the time left.
func (p *loadPicture) progress(at time.Duration, width int) line {
	phase := p.gauge.now.Phase
	done, words := 0.0, figure.Lasting(at)+" so far"
	short := words
	switch phase {
	case "":
		phase = load.Connecting
	case load.WarmingUp:
		short = figure.Lasting(p.connected+p.warmup+p.length-at) + " left"
		words = figure.Lasting(p.connected+p.warmup-at) + " left, then " + figure.Lasting(p.length)
	case load.Measuring:
		passed := min(at-p.measuring, p.length)
		done = float64(passed) / float64(p.length)
		short = figure.Lasting(p.length-passed) + " left"
		words = fmt.Sprintf("%s of %s, %s", figure.Lasting(passed), figure.Lasting(p.length), short)
	case load.Draining:
		done, words, short = 1, "waiting for the last answers", "ending"
	}
	return field(0, phase, barAnd(done, width, words, short)...)
}

// soFar shows what the verdict would be now, as far as it is known.
func (p *loadPicture) soFar() line {
	switch n := p.gauge.now.Errors; {
	case n > 0 && !p.allowErrors:
		return field(2, "so far", span{toneBad, "INVALID: requests have failed"})
	case p.gauge.now.Doubt != "":
		return field(2, "so far", span{toneBad, "INVALID: " + p.gauge.now.Doubt})
	case p.gauge.saturated():
		return field(2, "so far", span{toneWarn, "in doubt: the generator has too little CPU"})
	case p.measuring == 0:
		return field(8, "so far", text("nothing measured yet"))
	}
	return field(8, "so far", span{toneGood, "VALID"}, text(", no doubts"))
}

// outcomeLine shows a goal.
func outcomeLine(rank int, o load.Outcome) line {
	switch {
	case o.Got == nil:
		return field(rank, "goal", text(o.Goal.String()+": no figure yet"))
	case o.Met:
		return field(rank, "goal", span{toneGood, o.String()})
	}
	return field(rank, "goal", span{toneBad, o.String()})
}

// Load shows the progress of a run.
type Load struct {
	lines  io.Writer // nil: no lines
	screen *screen   // nil: no view

	// The fields below belong to the run's goroutine; the screen shares the picture.
	picture          *loadPicture
	goals            []load.Goal
	latency, service *hdrhistogram.Histogram // of the measured time; nil: there are no goals
	answered         float64
	seconds          float64
}

// NewLoad shows the progress of plan, whose shape is described in a few words, against
// target.
func NewLoad(how How, target, shape string, plan load.Plan, goals []load.Goal) *Load {
	l := &Load{goals: goals}
	switch how.watching() {
	case inLines:
		l.lines = how.To
	case asPicture:
		l.picture = &loadPicture{target: target, shape: shape, warmup: warmupOf(plan), length: plan.For,
			allowErrors: plan.AllowErrors, gauge: gauge{conns: plan.Conns}}
		if len(l.goals) > 0 {
			l.latency, l.service = load.NewHistogram(), load.NewHistogram()
			l.picture.outcomes = load.Check(&load.Result{}, l.goals)
		}
		l.screen = openScreen(how.To, l.picture)
	}
	return l
}

// Show is a load.Plan's Progress. It never waits for the terminal of a view.
func (l *Load) Show(now load.Progress) {
	switch {
	case l.lines != nil:
		fmt.Fprintf(l.lines, "%-10s %3.0fs  %d conns  %s/s  p50 %s  p99 %s  %d errors\n", now.Phase, now.Elapsed.Seconds(),
			now.Conns, figure.Grouped(now.Rate), figure.OrNone(now.P50, figure.Micros), figure.OrNone(now.P99, figure.Micros), now.Errors)
	case l.screen != nil:
		outcomes := l.judge(now)
		l.screen.change(func() {
			l.picture.take(now)
			if outcomes != nil {
				l.picture.outcomes = outcomes
			}
		})
	}
}

// judge checks all measurements so far against the goals.
func (l *Load) judge(now load.Progress) []load.Outcome {
	if l.latency == nil || now.Latency == nil || now.Latency.TotalCount() == 0 {
		return nil
	}
	l.latency.Merge(now.Latency)
	l.service.Merge(now.Service)
	if now.Phase == load.Measuring {
		l.answered += now.Rate
		l.seconds++
	}
	so := &load.Result{Valid: true, Requests: l.latency.TotalCount(), Errors: map[string]int64{"total": now.Errors},
		Latency: load.QuantilesOf(l.latency), Service: load.QuantilesOf(l.service)}
	if l.seconds > 0 {
		so.Rate = new(l.answered / l.seconds)
	}
	return load.Check(so, l.goals)
}

// End removes the view. It may be called again.
func (l *Load) End() { l.screen.close() }
