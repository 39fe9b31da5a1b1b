// Package view shows the progress of a command: as a block of at most six lines on a
// terminal, and in lines elsewhere.
package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/trial"
)

// How sets the form of progress output.
type How struct {
	// To is the destination. A terminal gets a block, or lines if it cannot draw.
	To io.Writer
	// Lines asks for lines even if To is not a terminal.
	Lines bool
	// Plain asks for lines even if To can draw.
	Plain bool
}

// View shows the progress of one command. Its methods never wait for a terminal that draws.
type View struct {
	lines io.Writer // nil: no lines
	block *block    // nil: no block
	step  string    // that the last line told
}

// Open shows the progress of loads with this plan, as far as it is known.
func Open(how How, plan load.Plan) *View {
	file, terminal := asTerminal(how.To)
	plain := how.Plain || isDumb()
	if width, _ := canDraw(file); terminal && !plain && width > 0 {
		return &View{block: openBlock(file, facts{plan: plan})}
	}
	if how.Lines || terminal && plain {
		return &View{lines: how.To}
	}
	return new(View)
}

// Load is a load.Plan's Progress.
func (v *View) Load(now load.Progress) {
	if v.lines != nil {
		fmt.Fprintf(v.lines, "%-10s %3.0fs  %d conns  %s/s  p50 %s  p99 %s  %d errors\n", now.Phase, now.Elapsed.Seconds(),
			now.Conns, figure.Grouped(now.Rate), figure.OrNone(now.P50, figure.Micros), figure.OrNone(now.P99, figure.Micros), now.Errors)
	}
	v.change(func(f *facts, at time.Duration) { f.loading(now, at) })
}

// Trial is a trial.Plan's Progress.
func (v *View) Trial(now trial.Progress) { v.Sample(now.String(), now) }

// Sample shows progress in a work of that name.
func (v *View) Sample(doing string, now trial.Progress) {
	if v.lines != nil && doing != v.step {
		v.step = doing
		if now.Remaining > 0 {
			doing += fmt.Sprintf(", %v to go", now.Remaining.Round(time.Second))
		}
		fmt.Fprintln(v.lines, doing)
	}
	v.change(func(f *facts, at time.Duration) { f.sampling(doing, now, at) })
}

// Step shows that done of some steps are complete, and the next one; empty: it is the same as before.
func (v *View) Step(done, of int, doing string) {
	v.change(func(f *facts, at time.Duration) {
		f.share = float64(done) / float64(max(1, of))
		f.begin(cmp.Or(doing, f.doing), at)
	})
}

// Line adds a line where progress is shown in lines.
func (v *View) Line(text string) {
	if v.lines != nil {
		fmt.Fprintln(v.lines, text)
	}
}

// Note sets the last line of the block, which shows what is known so far.
func (v *View) Note(text string) {
	v.change(func(f *facts, _ time.Duration) { f.note = text })
}

// End removes the block. It may be called again.
func (v *View) End() {
	if b := v.block; b != nil {
		b.once.Do(b.close)
	}
}

func (v *View) change(how func(f *facts, at time.Duration)) {
	if b := v.block; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		how(&b.facts, time.Since(b.began))
	}
}

// facts are what a block shows. Times count from the block's beginning.
type facts struct {
	plan        load.Plan
	doing       string
	since       time.Duration  // when doing began
	share       float64        // of the work that is done
	ends        time.Duration  // when the work will be done; 0: not known
	planned     int            // samples, without those taken again
	now         *load.Progress // without its histograms, which are only lent; nil: no load runs
	rates, p99s []float64
	note        string
	vitals      machine.Vitals
	machine     string // what its CPUs do; empty: not known
}

func (f *facts) begin(doing string, at time.Duration) {
	if f.doing != doing {
		f.doing, f.since = doing, at
	}
}

// second takes one second's figures of a load.
func (f *facts) second(now load.Progress) {
	now.Latency, now.Service = nil, nil
	f.now = &now
	f.rates = append(f.rates, now.Rate)
	if now.P99 != nil {
		f.p99s = append(f.p99s, *now.P99)
	}
	vitals := machine.ReadVitals()
	if busy, _, steal, _ := vitals.Since(f.vitals); busy >= 0 && steal >= 0 { // NaN is not
		f.machine = fmt.Sprintf("; machine %.0f %% busy, %.0f %% steal", 100*busy, 100*steal)
	}
	f.vitals = vitals
}

// loading takes one second of the only load.
func (f *facts) loading(now load.Progress, at time.Duration) {
	passed := now.Elapsed
	if f.now != nil {
		passed -= f.now.Elapsed
	}
	f.second(now)
	f.begin(now.Phase, at-passed)
	f.ends = 0
	switch {
	case now.Phase != load.Measuring:
	case f.plan.Requests > 0:
		f.share = float64(now.Answered) / float64(f.plan.Requests)
	case f.plan.For > 0:
		f.ends, f.share = f.since+f.plan.For, float64(at-f.since)/float64(f.plan.For)
	}
}

// sampling takes what a trial reports: a step, or a second of a sample's load.
func (f *facts) sampling(doing string, now trial.Progress, at time.Duration) {
	f.begin(doing, at)
	if now.Load == nil {
		f.now, f.rates, f.p99s = nil, nil, nil
	} else {
		f.second(*now.Load)
	}
	f.ends, f.share = 0, 0
	if now.Remaining > 0 {
		f.ends = at + now.Remaining
	}
	if now.Samples == 0 {
		return
	}
	f.share = float64(now.Taken) / float64(now.Samples)
	if f.planned == 0 {
		f.planned = now.Samples
	}
	if again := now.Samples - f.planned; again > 0 {
		f.note = figure.Counted(again, "sample") + " taken again, spoilt by the machine or the generator"
	}
}

// lines draws the block.
func (f *facts) lines(at time.Duration, width int) []line {
	lines := []line{f.progress(at, width)}
	if now := f.now; now != nil {
		failed := text("none")
		if now.Errors > 0 {
			failed = span{toneBad, figure.Grouped(float64(now.Errors))}
		}
		own := figure.Micros(float64(now.Lag.Microseconds())) + " late at most"
		if share := now.CPUShare; share != nil {
			own += fmt.Sprintf(", %.0f %% of its CPUs", 100**share)
		}
		lines = append(lines,
			curve("rate", figure.Grouped(now.Rate)+"/s", f.rates, width),
			curve("p50, p99", figure.OrNone(now.P50, figure.Micros)+", "+figure.OrNone(now.P99, figure.Micros), f.p99s, width),
			field("errors", failed, text(fmt.Sprintf(", %d of %s open", now.Conns, figure.Counted(max(f.plan.Conns, now.Conns), "connection")))),
			field("generator", text(own+f.machine)))
	}
	if known := f.soFar(); known.text != "" {
		lines = append(lines, field("so far", known))
	}
	return lines
}

// progress shows the step, and the time it takes or the time left.
func (f *facts) progress(at time.Duration, width int) line {
	words := "starting"
	if f.ends > 0 {
		words = figure.Lasting(f.ends-at) + " left, " + f.doing
	} else if f.doing != "" {
		words = f.doing + ", " + figure.Lasting(at-f.since)
	}
	width = min(width/4, 25)
	done := min(max(int(f.share*float64(width)), 0), width)
	return line{{toneCurve, strings.Repeat("█", done)}, {toneLabel, strings.Repeat("░", width-done)}, text("  " + words)}
}

// soFar returns why the result would not be valid, as far as it is known, or else the note.
func (f *facts) soFar() span {
	switch now := cmp.Or(f.now, new(load.Progress)); {
	case now.Errors > 0 && !f.plan.AllowErrors:
		return span{toneBad, "INVALID: requests have failed"}
	case now.Doubt != "":
		return span{toneBad, "INVALID: " + now.Doubt}
	case now.CPUShare != nil && *now.CPUShare >= load.MostCPUShare:
		return span{toneWarn, "in doubt: the generator has too little CPU"}
	case f.note != "":
		return text(f.note)
	case now.Phase == load.Measuring || now.Phase == load.Draining:
		return span{toneGood, "no doubts"}
	}
	return span{}
}
