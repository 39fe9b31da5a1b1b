package figure

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a result as rows of cells, for text, Markdown and HTML. A row may be shorter than others.
type Table struct {
	Head  []string // empty: none, and then no Markdown
	Right string   // an r for each column that is aligned to the right, as in "rr-r"; the others are not
	Rows  [][]string
	Notes []string // below the table
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Line adds a row with a name and words.
func (t *Table) Line(name, format string, args ...any) { t.Add(name, fmt.Sprintf(format, args...)) }

func (t *Table) right(column int) bool { return column < len(t.Right) && t.Right[column] == 'r' }

func (t *Table) all() [][]string {
	if len(t.Head) == 0 {
		return t.Rows
	}
	return append([][]string{t.Head}, t.Rows...)
}

// Text writes the table with aligned columns.
func (t *Table) Text(w io.Writer) {
	var widths []int
	for _, row := range t.all() {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.all() {
		var line strings.Builder
		if t.right(0) {
			line.WriteString("  ")
		}
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right(i) {
				cell = blanks + cell
			} else {
				cell += blanks
			}
			line.WriteString(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
	for _, note := range t.Notes {
		fmt.Fprintln(w, "note:", note)
	}
}

// Markdown writes the table for a pull request.
func (t *Table) Markdown(w io.Writer) {
	for i, row := range t.all() {
		cells := make([]string, len(row))
		for k, cell := range row {
			cells[k] = markdownCell(cell)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprint(w, "|")
			for k := range row {
				fmt.Fprint(w, map[bool]string{true: "--:|", false: "---|"}[t.right(k)])
			}
			fmt.Fprintln(w)
		}
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "\n- %s\n", note)
	}
}

// HTML writes the table for a page.
func (t *Table) HTML(w io.Writer) {
	row := func(cells []string, tag string) {
		fmt.Fprint(w, "<tr>")
		for i, cell := range cells {
			align := ""
			if t.right(i) {
				align = ` class="number"`
			}
			fmt.Fprintf(w, "<%s%s>%s</%[1]s>", tag, align, html.EscapeString(cell))
		}
		fmt.Fprintln(w, "</tr>")
	}
	fmt.Fprintln(w, "<table>")
	if len(t.Head) > 0 {
		row(t.Head, "th")
	}
	for _, cells := range t.Rows {
		row(cells, "td")
	}
	fmt.Fprintln(w, "</table>")
	for _, note := range t.Notes {
		fmt.Fprintf(w, "<p>%s</p>\n", html.EscapeString(note))
	}
}

// markdownCell returns a cell as it can stand in Markdown. One with characters that mean something there,
// or that would notify somebody, becomes code.
func markdownCell(cell string) string {
	if !strings.ContainsAny(cell, "|<>@*[]!\\`#") {
		return cell
	}
	return "`" + strings.NewReplacer("`", "'", "|", `\|`).Replace(cell) + "`"
}
