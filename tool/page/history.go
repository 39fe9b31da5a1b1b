package page

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/history"
)

//go:embed still
var still embed.FS // templates of pages without a script, which are not served as they are

// History writes the page of a history as one file that opens from disk, loads nothing and has no
// script. The same history gives the same bytes.
func History(w io.Writer, h *history.History) error {
	return writeStill(w, "history.html", map[string]any{"History": h, "Charts": chartsOf(h), "Rows": runRows(h)})
}

// timeline is the chart of a figure: one step per run. Its paths are in units of a thousandth of
// the width and of the height, and drawn over the whole plot.
type timeline struct {
	Name, Now, Words string
	Kind             string // of the newest change: good, bad or nothing
	Top, Bottom      string // values at the edges
	From, To         string // dates of the first and the last run
	Levels           string
	Dots             []dot
	Cuts             []dot
}

type dot struct {
	Path, Text string
}

func chartsOf(h *history.History) (charts []timeline) {
	for i := range h.Figures {
		f := &h.Figures[i]
		c := timeline{Name: figure.Of(f.Name, f.Unit), Now: f.In(f.Now()), Words: h.Words(f)}
		c.From, c.To = h.Runs[0].At.Format(time.DateOnly), h.Runs[len(h.Runs)-1].At.Format(time.DateOnly)
		if n := len(f.Changes); n > 0 {
			c.Kind = map[compare.Verdict]string{compare.Better: "good", compare.Worse: "bad"}[f.Changes[n-1].Verdict]
		}
		c.draw(h, f)
		charts = append(charts, c)
	}
	return charts
}

func (c *timeline) draw(h *history.History, f *history.Figure) {
	runs, values := f.Known()
	low, high := slices.Min(values), slices.Max(values)
	c.Bottom, c.Top = f.In(low), f.In(high)
	x := func(run float64) float64 { return 1000 * (run + 0.5) / float64(len(h.Runs)) }
	y := func(v float64) float64 {
		if high == low {
			return 500
		}
		return 950 - 900*(v-low)/(high-low)
	}
	for i, run := range runs {
		c.Dots = append(c.Dots, dot{fmt.Sprintf("M%.1f %.1fh0", x(float64(run)), y(values[i])), f.In(values[i]) + ", " + runText(h, run)})
	}
	var levels strings.Builder
	from := -0.5
	for _, change := range f.Changes {
		to := float64(change.Run) - 0.5
		fmt.Fprintf(&levels, "M%.1f %.1fH%.1f", x(from), y(clamp(change.Before, low, high)), x(to))
		c.Cuts = append(c.Cuts, dot{fmt.Sprintf("M%.1f 0V1000", x(to)), runText(h, change.Run)})
		from = to
	}
	fmt.Fprintf(&levels, "M%.1f %.1fH1000", x(from), y(clamp(f.Now(), low, high)))
	c.Levels = levels.String()
}

func clamp(v, low, high float64) float64 { return min(max(v, low), high) }

func runText(h *history.History, i int) string {
	r := h.Runs[i]
	text := r.At.Format(time.DateOnly) + ", run " + r.ID
	if r.Commit != "" {
		text += ", commit " + r.Commit[:min(10, len(r.Commit))]
	}
	if r.Modified {
		text += " with changes"
	}
	return text
}

// runRows are the figures of each run, the newest first.
func runRows(h *history.History) (rows [][]string) {
	for i := len(h.Runs) - 1; i >= 0; i-- {
		row := []string{runText(h, i)}
		for _, f := range h.Figures {
			row = append(row, figure.OrNone(f.Values[i], f.In))
		}
		rows = append(rows, row)
	}
	return rows
}
