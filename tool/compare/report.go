package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

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
		return "UNCLEAR: " + figure.Name(c.Changes[0].Name) + " is " + c.words(0)
	}
	return fmt.Sprintf("VALID: of %d figures, %d worse, %d better, %d the same, %d unclear",
		len(c.Changes), c.count(Worse), c.count(Better), c.count(Same), c.count(Unclear))
}

// rows returns the rows of the table. B is A's median with the estimated difference, which B's own
// median may contradict where runs vary. What several figures lack is said once.
func (c *Report) rows() [][]string {
	rows := [][]string{{"figure", "A", "B", "B against A"}}
	said := map[string]bool{}
	for i, change := range c.Changes {
		b, words := change.MedianB, c.words(i)
		if change.MedianA != nil && change.Ratio != nil && change.LimitedBy != ByMissing {
			b = new(*change.MedianA * *change.Ratio)
		}
		if change.Verdict == Unclear && change.Advice != nil {
			if why := change.Advice.Reason; said[why] {
				words = strings.TrimSuffix(words, why) + "as above"
			} else {
				said[why] = true
			}
		}
		in := func(v float64) string { return figure.In(v, change.Unit) }
		rows = append(rows, []string{figure.Name(change.Name), figure.OrNone(change.MedianA, in), figure.OrNone(b, in), words})
	}
	return rows
}

// advice explains the scope of the verdicts, and how to settle unclear ones.
func (c *Report) advice(paired bool) (notes []string) {
	things := "pairs"
	if !paired {
		things = "runs of each"
	}
	has := func(what func(Change) bool) bool { return slices.ContainsFunc(c.Changes, what) }
	if has(func(change Change) bool { return change.LimitedBy == ByNoFloor }) {
		notes = append(notes, "measure alternately (hone bench --revision, hone compare --pairs), or measure how much sessions differ: hone doctor --noise, on five days")
	} else if c.Scope == ThisSession {
		notes = append(notes, "valid in this session, for these builds; hone doctor --noise measures how much other builds of the same source differ")
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
func (c *Report) WriteTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range c.rows() {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush()
	for _, note := range c.Notes {
		fmt.Fprintln(w, "note:", note)
	}
}

// Markdown writes the result for a pull request.
func (c *Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "**%s**\n\n", c.Summary())
	c.MarkdownTable(w)
}

// MarkdownTable writes the verdict on each figure, and the notes.
func (c *Report) MarkdownTable(w io.Writer) {
	for i, row := range c.rows() {
		row[0] = Cell(row[0])
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(w, "|---|--:|--:|---|")
		}
	}
	for _, note := range c.Notes {
		fmt.Fprintf(w, "\n- %s\n", note)
	}
}

// Cell returns a name as it can stand in a table of Markdown. A name with characters that mean
// something there, or that would notify somebody, becomes code.
func Cell(name string) string {
	if !strings.ContainsAny(name, "|<>@*[]!\\`#") {
		return name
	}
	return "`" + strings.NewReplacer("`", "'", "|", `\|`).Replace(name) + "`"
}
