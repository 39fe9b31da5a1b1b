package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// benchPicture is a run of hone bench.
type benchPicture struct {
	title    string
	sides    []benchSide // one, or A and B
	now      trial.Progress
	told     time.Duration // when now arrived
	gauge    gauge
	planned  int // samples, without retakes
	sampling int // the side whose sample is being taken
}

// benchSide is a server and the figures of its samples, estimated from what arrived
// second by second; the result has the exact ones.
type benchSide struct {
	name    string
	samples []sampleFigures
}

type sampleFigures struct{ rate, p50, p99 *float64 }

// lines draws it.
func (p *benchPicture) lines(at time.Duration, width int) []line {
	lines := []line{{5, []span{{toneTitle, "hone bench "}, text(p.title)}}, p.progress(at, width)}
	lines = append(lines, field(0, "now", text(p.now.Now())))
	lines = append(lines, p.gauge.lines(2, width)...)
	if len(p.sides) > 1 {
		lines = append(lines, field(7, "pairs of", text(p.sides[0].name+" and "+p.sides[1].name)))
	}
	for i := range p.sides {
		lines = append(lines, p.side(i, width))
	}
	if n := p.now.Samples - p.planned; n > 0 && p.planned > 0 {
		lines = append(lines, field(6, "retaken", span{toneWarn, figure.Counted(n, "sample")}, text(": samples that the machine or the generator spoils do not count")))
	}
	return append(append(lines, p.latest()...), howToEnd())
}

// progress shows the current sample and the time left.
func (p *benchPicture) progress(at time.Duration, width int) line {
	if p.now.Samples == 0 {
		return field(0, "sample", text(figure.Lasting(at)+" so far"))
	}
	number := min(p.now.Taken+1, p.now.Samples)
	short := fmt.Sprintf("%d of %d", number, p.now.Samples)
	words := short
	if len(p.sides) > 1 {
		words += fmt.Sprintf(", pair %d", (number+1)/2)
	}
	if p.now.Remaining > 0 {
		words += ", " + figure.Lasting(p.now.Remaining-(at-p.told)) + " left"
	}
	return field(0, "sample", barAnd(float64(p.now.Taken)/float64(p.now.Samples), width, words, short)...)
}

// side summarises the samples of a server so far.
func (p *benchPicture) side(i, width int) line {
	s := p.sides[i]
	var rates history
	var p99s []float64
	for _, sample := range s.samples {
		rates.add(sample.rate)
		if sample.p99 != nil {
			p99s = append(p99s, *sample.p99)
		}
	}
	label := "samples"
	if len(p.sides) > 1 {
		label = s.letter()
	}
	if len(s.samples) == 0 {
		return field(1, label, text("no sample yet"))
	}
	known := slices.DeleteFunc(slices.Clone(rates), func(v float64) bool { return v != v })
	words := "about " + middle(known, figure.Grouped) + "/s, p99 " + middle(p99s, figure.Micros)
	return field(1, label, text(pad(words, 36)), span{toneCurve, sparkline(rates, min(remembered, width-labelColumns-36))})
}

// letter returns the side's label, as in A (main).
func (s benchSide) letter() string {
	letter, _, _ := strings.Cut(s.name, " ")
	return letter
}

// middle formats the median of figures.
func middle(values []float64, format func(float64) string) string {
	if len(values) == 0 {
		return "–"
	}
	return format(figure.Median(values))
}

const latestShown = 6

// latest shows the last samples of each server; the older ones are dropped first.
func (p *benchPicture) latest() (lines []line) {
	for back := latestShown; back >= 1; back-- {
		for _, s := range p.sides {
			i := len(s.samples) - back
			if i < 0 {
				continue
			}
			sample := s.samples[i]
			letter := ""
			if len(p.sides) > 1 {
				letter = s.letter()
			}
			lines = append(lines, field(20+back, fmt.Sprintf("  %d %s", i+1, letter),
				text(fmt.Sprintf("%s/s  p50 %s  p99 %s", figure.OrNone(sample.rate, figure.Grouped), figure.OrNone(sample.p50, figure.Micros), figure.OrNone(sample.p99, figure.Micros)))))
		}
	}
	return lines
}

// Bench shows the progress of a trial.
type Bench struct {
	lines  *Steps  // nil: no lines
	screen *screen // nil: no view
	to     io.Writer

	// The fields below belong to the trial's goroutine; the screen shares the picture.
	picture  *benchPicture
	number   int                     // of the current sample, from 1
	times    *hdrhistogram.Histogram // of that sample
	answered float64
	seconds  float64
}

// NewBench shows the progress of plan, under that title.
func NewBench(how How, title string, plan trial.Plan) *Bench {
	b := &Bench{to: how.To}
	switch how.watching() {
	case inLines:
		b.lines = &Steps{w: how.To, asked: true}
	case asPicture:
		b.times = load.NewHistogram()
		b.picture = &benchPicture{title: title, gauge: gauge{conns: plan.Load.Conns}}
		for i, s := range plan.Servers {
			b.picture.sides = append(b.picture.sides, benchSide{name: trial.Label(i, s.Name)})
		}
		b.screen = openScreen(how.To, b.picture)
	}
	return b
}

// Show is a trial.Plan's Progress. It never waits for the terminal of a view.
func (b *Bench) Show(now trial.Progress) {
	switch {
	case b.lines != nil:
		b.lines.Show(now)
	case b.screen != nil:
		if now.Load != nil && now.Load.Latency != nil {
			b.times.Merge(now.Load.Latency)
		}
		b.screen.change(func() { b.take(now) })
	}
}

// take adds one progress report.
func (b *Bench) take(now trial.Progress) {
	p := b.picture
	if now.Load == nil && !now.Profiling && now.Number > 0 { // a sample begins
		if now.Taken == b.number && b.number > 0 {
			p.sides[p.sampling].samples = append(p.sides[p.sampling].samples, b.figures())
		}
		b.begin(now)
	}
	if now.Load != nil {
		p.gauge.take(*now.Load)
		if now.Load.Phase == load.Measuring {
			b.answered += now.Load.Rate
			b.seconds++
		}
		kept := *now.Load
		kept.Latency, kept.Service = nil, nil // they are only lent
		now.Load = &kept
	}
	if now.Profiling {
		now.Taken, now.Samples, now.Remaining = p.now.Samples, p.now.Samples, 0
	}
	p.now, p.told = now, b.screen.age()
}

// begin starts a sample.
func (b *Bench) begin(now trial.Progress) {
	p := b.picture
	if p.planned == 0 {
		p.planned = now.Samples
	}
	b.number, b.answered, b.seconds = now.Taken+1, 0, 0
	b.times.Reset()
	p.gauge = gauge{conns: p.gauge.conns}
	p.sampling = now.Side
}

// figures returns those of the sample that has ended.
func (b *Bench) figures() sampleFigures {
	times := load.QuantilesOf(b.times)
	s := sampleFigures{p50: times.P50, p99: times.P99}
	if b.seconds > 0 {
		s.rate = new(b.answered / b.seconds)
	}
	return s
}

// End removes the view and leaves a line. It may be called again.
func (b *Bench) End() {
	if b.screen.close() {
		fmt.Fprintf(b.to, "hone: bench: %s in %s\n", figure.Counted(b.picture.taken(), "sample"), figure.Lasting(b.screen.age()))
	}
}

func (p *benchPicture) taken() (n int) {
	for _, s := range p.sides {
		n += len(s.samples)
	}
	return n
}
