package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// benchResult is the result of hone bench, also as JSON.
type benchResult struct {
	Schema         string            `json:"schema"`
	Valid          bool              `json:"valid"`
	InvalidReasons []string          `json:"invalid_reasons"`
	Runs           []*record.Run     `json:"runs"`
	Comparison     *compare.Report   `json:"comparison"`       // of B with A; null: there is none
	Others         []*compare.Report `json:"others,omitempty"` // of C with A, and so on

	wanted int      // valid samples
	notes  []string // about what was measured
}

func (r *benchResult) failure(quiet bool) error {
	switch {
	case !r.Valid:
		return exit.Verdict(exit.Invalid, !quiet, "bench: %s", strings.Join(r.InvalidReasons, "; "))
	case r.Comparison == nil:
		return nil
	}
	var worst error
	for _, c := range r.comparisons() {
		err, end := c.Failure("bench"), new(exit.Error)
		if errors.As(err, &end) && !quiet {
			end.Err = nil // the verdict has been printed
		}
		if worst == nil || end.Code == exit.Missed {
			worst = cmp.Or(err, worst)
		}
	}
	return worst
}

// comparisons returns those with A.
func (r *benchResult) comparisons() []*compare.Report {
	return append([]*compare.Report{r.Comparison}, r.Others...)
}

// programs is a row for each of several programs: its medians, and the verdicts against the first.
func (r *benchResult) programs() *figure.Table {
	table := &figure.Table{Head: []string{"program"}, Notes: r.Comparison.Notes}
	first := []string{"A " + r.Comparison.A}
	for _, c := range r.Comparison.Changes {
		table.Head = append(table.Head, figure.Of(c.Name, c.Unit))
		first = append(first, figure.OrNone(c.MedianA, func(v float64) string { return figure.In(v, c.Unit) }))
	}
	table.Add(first...)
	for i, c := range r.comparisons() {
		row := make([]string, len(table.Head))
		row[0] = fmt.Sprintf("%c %s", 'B'+i, c.B)
		for _, change := range c.Changes {
			name := figure.Of(change.Name, change.Unit)
			at := slices.Index(table.Head, name)
			if at < 0 { // A does not have it
				at = len(table.Head)
				table.Head, row = append(table.Head, name), append(row, "")
			}
			row[at] = figure.OrNone(change.Estimated(), func(v float64) string { return figure.In(v, change.Unit) }) + ", " + change.Brief()
		}
		table.Add(row...)
	}
	return table
}

func (r *benchResult) head() string {
	switch {
	case !r.Valid:
		return "INVALID: " + strings.Join(r.InvalidReasons, "; ")
	case len(r.Others) > 0:
		return fmt.Sprintf("VALID: %d samples of each of %d programs; verdicts are against A", r.wanted, len(r.Runs))
	case r.Comparison != nil:
		return r.Comparison.Summary()
	}
	return fmt.Sprintf("VALID: %d samples", r.wanted)
}

func (r *benchResult) text(w io.Writer) {
	fmt.Fprintln(w, r.head())
	if len(r.Others) > 0 {
		r.programs().Text(w)
		return
	}
	if r.Comparison != nil {
		fmt.Fprintf(w, "A is %s, B is %s\n\n", r.Comparison.A, r.Comparison.B)
		r.Comparison.WriteTable(w)
		return
	}
	for _, run := range r.Runs {
		fmt.Fprintln(w)
		figuresOf(run).Text(w)
	}
}

func (r *benchResult) markdown(w io.Writer) {
	if len(r.Others) > 0 {
		fmt.Fprintf(w, "**%s**\n\n", r.head())
		r.programs().Markdown(w)
		return
	}
	if r.Comparison != nil {
		fmt.Fprintf(w, "**%s**\n\n", r.head())
		r.Comparison.MarkdownTable(w)
		samples := ""
		if r.Valid {
			samples = fmt.Sprintf("; %d samples of each", r.wanted)
		}
		fmt.Fprintf(w, "\nA is %s, B is %s%s.\n", r.Comparison.A, r.Comparison.B, samples)
		return
	}
	fmt.Fprintf(w, "**%s**\n", r.head())
	for _, run := range r.Runs {
		fmt.Fprintln(w)
		figuresOf(run).Markdown(w)
	}
}
