package history

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// Title says what the history is of.
func (h *History) Title() string {
	title := figure.Counted(len(h.Runs), "run")
	if h.Name != "" {
		title += " of " + h.Name
	}
	title += ", scenario " + h.Scenario
	if n := len(h.Runs); n > 0 {
		title += fmt.Sprintf(", %s to %s", h.Runs[0].At.Format(time.DateOnly), h.Runs[n-1].At.Format(time.DateOnly))
	}
	return title
}

// Summary counts the figures that changed.
func (h *History) Summary() string {
	changed := 0
	for _, f := range h.Figures {
		if len(f.Changes) > 0 {
			changed++
		}
	}
	return fmt.Sprintf("%d of %s changed", changed, figure.Counted(len(h.Figures), "figure"))
}

// Notes lists what is worth knowing about the history.
func (h *History) Notes() (notes []string) {
	if len(h.Runs) < h.Needed {
		notes = append(notes, fmt.Sprintf("a change can be found from %d runs on; this history has %d", h.Needed, len(h.Runs)))
	}
	if n := len(h.LeftOut); n > 0 {
		notes = append(notes, fmt.Sprintf("%s left out as not comparable, the newest %s; --across allows a difference", figure.Counted(n, "run"), h.LeftOut[0]))
	}
	return notes
}

// Now returns the median since the last change.
func (f *Figure) Now() float64 {
	if n := len(f.Changes); n > 0 {
		return f.Changes[n-1].After
	}
	_, values := f.Known()
	return figure.Median(values)
}

// Words describes the changes in a line, the newest first.
func (h *History) Words(f *Figure) string {
	var parts []string
	for i := len(f.Changes) - 1; i >= 0; i-- {
		parts = append(parts, h.words(&f.Changes[i]))
	}
	_, values := f.Known()
	if parts == nil && f.Needs > 0 {
		return fmt.Sprintf("not known: too few runs (%d of %d)", len(values), h.Needed)
	}
	if parts == nil && h.later(len(values)) > plainly[0].shorter {
		return fmt.Sprintf("no change; a new one shows after %d more runs, a large one after %d", h.later(len(values)), plainly[0].shorter)
	}
	if parts == nil {
		return "no change"
	}
	return strings.Join(parts, "; ")
}

// later returns after how many more runs a change from now on can be told from chance.
func (h *History) later(runs int) int {
	level := loneShare * h.Level / float64(max(1, len(h.Figures)))
	for k, ways := 1, 0.5; ; k++ {
		if ways *= float64(runs+k) / float64(k); k >= fewest && 1/ways <= level {
			return k
		}
	}
}

// words describes a change, as in "worse: +5.1 % in 0123456789..89abcdef01 (2026-11-20, 8 runs)".
func (h *History) words(c *Change) string {
	text := fmt.Sprintf("%s: from %s to %s", c.Verdict, figure.Number(c.Before), figure.Number(c.After))
	if c.Ratio != nil {
		text = fmt.Sprintf("%s: %+.1f %%", c.Verdict, 100*(*c.Ratio-1))
		text = strings.Replace(text, "-", "−", 1)
	}
	return text + fmt.Sprintf(" %s (%s, %s)", c.where(), h.Runs[c.Run].At.Format(time.DateOnly), strings.Join(append([]string{figure.Counted(len(h.Runs)-c.Run, "run") + " since"}, c.With...), ", "))
}

// where names the commits.
func (c *Change) where() string {
	switch {
	case c.To == "":
		return "from run " + c.ID + " on"
	case c.Since == c.To:
		return "between runs of " + short(c.To) + ", so it is not the code's"
	case c.Since == "":
		return "at " + short(c.To)
	}
	return "in " + short(c.Since) + ".." + short(c.To)
}

func short(commit string) string { return commit[:min(10, len(commit))] }

// Table has a line per figure.
func (h *History) Table() *figure.Table {
	table := &figure.Table{Head: []string{"figure", "now", "changes"}, Right: "-r", Notes: h.Notes()}
	for i := range h.Figures {
		f := &h.Figures[i]
		table.Add(figure.Of(f.Name, f.Unit), f.In(f.Now()), h.Words(f))
	}
	return table
}

// Each has a line per run, the newest first.
func (h *History) Each() *figure.Table {
	table := &figure.Table{Head: []string{"run", "began", "commit"}, Right: "---" + strings.Repeat("r", len(h.Figures))}
	for _, f := range h.Figures {
		table.Head = append(table.Head, figure.Of(f.Name, f.Unit))
	}
	for i, r := range slices.Backward(h.Runs) {
		commit := short(r.Commit)
		if r.Modified {
			commit += " with changes"
		}
		row := []string{r.ID, r.At.Format(time.DateOnly), commit}
		for _, f := range h.Figures {
			row = append(row, figure.OrNone(f.Values[i], f.In))
		}
		table.Add(row...)
	}
	return table
}

// In formats a value with the figure's unit.
func (f *Figure) In(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return figure.In(v, f.Unit)
}

// Text writes the history as text, a line per figure.
func (h *History) Text(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n\n", h.Title(), h.Summary())
	h.Table().Text(w)
}

// Markdown writes the history for a pull request.
func (h *History) Markdown(w io.Writer) {
	fmt.Fprintf(w, "**%s**: %s\n\n", h.Title(), h.Summary())
	h.Table().Markdown(w)
}
