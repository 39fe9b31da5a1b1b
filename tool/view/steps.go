package view

import (
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// Steps shows the progress of a trial: on a terminal one changing line; on one that is to be plain, and
// elsewhere if asked to, one line per step.
type Steps struct {
	w        io.Writer
	terminal bool
	asked    bool
	last     string
}

// NewSteps shows a trial on a terminal, and elsewhere if lines are asked for.
func NewSteps(how How) *Steps {
	terminal := IsTerminal(how.To)
	return &Steps{w: how.To, terminal: terminal && !how.Plain && !isDumb(), asked: terminal || how.Lines}
}

// Show is a trial.Plan's Progress.
func (p *Steps) Show(now trial.Progress) { p.show(now.String(), now.Remaining, now.Load) }

func (p *Steps) show(line string, remaining time.Duration, l *load.Progress) {
	if !p.terminal && !p.asked {
		return
	}
	doing := line
	if remaining > 0 {
		line += fmt.Sprintf(", %v to go", remaining.Round(time.Second))
	}
	if p.terminal {
		if l != nil {
			line += fmt.Sprintf(": %s/s  p99 %s  %d errors", figure.Grouped(l.Rate), figure.OrNone(l.P99, figure.Micros), l.Errors)
		}
		fmt.Fprintf(p.w, "\r%s\x1b[K", line)
		return
	}
	if doing != p.last {
		p.last = doing
		fmt.Fprintln(p.w, line)
	}
}

// End removes the line.
func (p *Steps) End() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
