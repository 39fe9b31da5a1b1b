package view

import (
	"fmt"
	"io"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// progress shows how a run goes in lines, one a second.
type progress struct{ w io.Writer }

func newProgress(w io.Writer) *progress { return &progress{w} }

// show is a load.Plan's Progress.
func (p *progress) show(now load.Progress) {
	fmt.Fprintf(p.w, "%-10s %3.0fs  %d conns  %s/s  p50 %s  p99 %s  %d errors\n", now.Phase, now.Elapsed.Seconds(),
		now.Conns, figure.Grouped(now.Rate), figure.OrNone(now.P50, figure.Micros), figure.OrNone(now.P99, figure.Micros), now.Errors)
}
