package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/hone-go/hone/tool/compare"
)

func (c *comparison) count(v compare.Verdict) (n int) {
	for _, change := range c.Changes {
		if change.Verdict == v {
			n++
		}
	}
	return n
}

// summary is the verdict in one line.
func (c *comparison) summary() string {
	if !c.Valid {
		return "INVALID: " + strings.Join(c.InvalidReasons, "; ")
	}
	return fmt.Sprintf("VALID: of %d figures %d are worse, %d better, %d the same, %d unclear",
		len(c.Changes), c.count(compare.Worse), c.count(compare.Better), c.count(compare.Same), c.count(compare.Unclear))
}

// rows are the table's.
func (c *comparison) rows() [][]string {
	rows := [][]string{{"figure", "A", "B", "B/A", "95 %", "p", "verdict"}}
	for _, change := range c.Changes {
		interval := ""
		if change.Low != nil {
			interval = fmt.Sprintf("%.3f–%.3f", *change.Low, *change.High)
		}
		ratio := orNone(change.Ratio, func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) })
		p := orNone(change.P, func(v float64) string { return strconv.FormatFloat(v, 'g', 2, 64) })
		rows = append(rows, []string{change.Name + " " + change.Unit, orNone(change.MedianA, number), orNone(change.MedianB, number), ratio, interval, p, string(change.Verdict)})
	}
	return rows
}

// notes are the warnings, each once, and what is missing.
func (c *comparison) notes() (notes []string) {
	for _, change := range c.Changes {
		for _, w := range change.Warnings {
			if !slices.Contains(notes, w.Text) {
				notes = append(notes, w.Text)
			}
		}
	}
	for _, w := range c.Warnings {
		notes = append(notes, w.Text)
	}
	if len(c.Missing) > 0 {
		notes = append(notes, "measured on one side only: "+strings.Join(c.Missing, ", "))
	}
	return notes
}

func (c *comparison) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, c.summary())
	c.writeTable(&b)
	return b.String()
}

func (c *comparison) writeTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range c.rows() {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush()
	for _, note := range c.notes() {
		fmt.Fprintln(w, "note:", note)
	}
}

func (c *comparison) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n", c.summary())
	for i, row := range c.rows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(&b, "|---|--:|--:|--:|---|--:|---|")
		}
	}
	for _, note := range c.notes() {
		fmt.Fprintf(&b, "\n- %s\n", note)
	}
	return b.String()
}
