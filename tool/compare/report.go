package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/figure"
)

func (c *Report) count(v Verdict) (n int) {
	for _, change := range c.Changes {
		if change.Verdict == v {
			n++
		}
	}
	return n
}

// words returns the verdict on a figure.
func (c *Report) words(figure int) string { return c.Changes[figure].Words(c.Tolerance) }

// Summary is the verdict in one line.
func (c *Report) Summary() string {
	if c.unclear() {
		return "UNCLEAR: " + figure.Of(c.Changes[0].Name, c.Changes[0].Unit) + " is " + c.words(0)
	}
	return fmt.Sprintf("VALID: of %d figures, %d worse, %d better, %d the same, %d unclear",
		len(c.Changes), c.count(Worse), c.count(Better), c.count(Same), c.count(Unclear))
}

// Estimated is A's median with the estimated difference, which B's own median may contradict where runs vary; or else that.
func (c *Change) Estimated() *float64 {
	if c.MedianA != nil && c.Ratio != nil && c.LimitedBy != ByMissing {
		return new(*c.MedianA * *c.Ratio)
	}
	return c.MedianB
}

// table returns the verdict on each figure, and the notes. What several figures lack is said once.
func (c *Report) table() *figure.Table {
	table := &figure.Table{Head: []string{"figure", "A", "B", "B against A"}, Right: "-rr", Notes: c.Notes}
	said := map[string]bool{}
	for i, change := range c.Changes {
		words := c.words(i)
		if change.Verdict == Unclear && change.Advice != nil {
			if why := change.Advice.Reason; said[why] {
				words = strings.TrimSuffix(words, why) + "as above"
			} else {
				said[why] = true
			}
		}
		in := func(v float64) string { return figure.In(v, change.Unit) }
		table.Add(figure.Of(change.Name, change.Unit), figure.OrNone(change.MedianA, in), figure.OrNone(change.Estimated(), in), words)
	}
	return table
}

// advice explains the scope of the verdicts, and how to settle unclear ones.
func (c *Report) advice(paired bool) (notes []string) {
	things := "pairs"
	if !paired {
		things = "runs of each"
	}
	has := func(what func(Change) bool) bool { return slices.ContainsFunc(c.Changes, what) }
	if has(func(change Change) bool { return change.LimitedBy == ByNoFloor }) {
		notes = append(notes, "measure alternately (hone bench --revision, hone compare --pairs), or measure how much sessions differ: hone bench --against-self, on five days")
	} else if c.Scope == ThisSession {
		notes = append(notes, "valid in this session, for these builds; hone bench --against-self measures how much other builds of the same source differ")
	}
	for i, pairs := range c.Family.Schedule {
		if has(func(change Change) bool {
			return change.LimitedBy == BySpread && change.Advice != nil && change.Advice.Pairs == pairs
		}) {
			notes = append(notes, fmt.Sprintf("to settle what is unclear, measure again with %d %s and --look %d, which says that it is another look", pairs, things, i+1))
			break
		}
	}
	return notes
}

// Text writes the result as text.
func (c *Report) Text(w io.Writer) {
	fmt.Fprintln(w, c.Summary())
	c.WriteTable(w)
}

// WriteTable writes the verdict on each figure, and the notes.
func (c *Report) WriteTable(w io.Writer) { c.table().Text(w) }

// Markdown writes the result for a pull request.
func (c *Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "**%s**\n\n", c.Summary())
	c.MarkdownTable(w)
}

// MarkdownTable writes the verdict on each figure, and the notes.
func (c *Report) MarkdownTable(w io.Writer) { c.table().Markdown(w) }
