package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// benchResult is the result of hone bench, also as JSON.
type benchResult struct {
	Schema         string          `json:"schema"`
	Valid          bool            `json:"valid"`
	InvalidReasons []string        `json:"invalid_reasons"`
	Runs           []*record.Run   `json:"runs"`
	Comparison     *compare.Report `json:"comparison"` // null: no comparison

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
	err := r.Comparison.Failure("bench")
	if end := new(exit.Error); errors.As(err, &end) && !quiet {
		end.Err = nil // the verdict has been printed
	}
	return err
}

func (r *benchResult) head() string {
	switch {
	case !r.Valid:
		return "INVALID: " + strings.Join(r.InvalidReasons, "; ")
	case r.Comparison != nil:
		return r.Comparison.Summary()
	}
	return fmt.Sprintf("VALID: %d samples", r.wanted)
}

func (r *benchResult) text(w io.Writer) {
	fmt.Fprintln(w, r.head())
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
