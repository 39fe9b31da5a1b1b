package main

import (
	"bytes"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// reportFlags holds the parsed flags of hone report.
type reportFlags struct {
	against, file string
	judge         judgeFlags
	store         session.Store
}

func newReport() *cobra.Command {
	f := new(reportFlags)
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write a run as a self-contained HTML report",
		Long: `Write a run as one self-contained HTML file, to read, archive or share: the charts of
the live page, with their figures. It loads nothing from a network, and the same runs
give the same bytes.

RUN is a stored run (default: latest; see hone run --help). --against draws an earlier
run under the charts and judges the differences as hone compare does. Of a pair of hone
bench --revision that is the other revision, unless you say otherwise.`,
		Example: `  hone report -o report.html
  hone report after --against before -o report.html
  hone report latest --against before -o report.html`,
		Args: arguments(0, 1, "name one run, as in: hone report latest -o report.html"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, orLatest(args)) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.against, "against", "", "the earlier `RUN`")
	f.judge.define(cmd)
	flags.StringVarP(&f.file, "output", "o", "", "write the page to `FILE` instead of standard output")
	f.store.Define(cmd)
	return cmd
}

// run writes the page.
func (f *reportFlags) run(cmd *cobra.Command, ref string) error {
	run, err := f.store.Run("report", ref)
	if err != nil {
		return err
	}
	var against *record.Run
	var judged page.Judged
	if f.against == "" {
		f.against = f.partner(run)
	}
	if f.against != "" {
		if against, err = f.store.Run("report", f.against); err != nil {
			return err
		}
		if judged, err = f.judged(against, run); err != nil {
			return err
		}
	}
	var html bytes.Buffer
	if err := page.Report(&html, run, against, judged); err != nil {
		return exit.Failedf("report: %w", err)
	}
	return session.Output{File: f.file}.Stream("report", cmd.OutOrStdout(), func(w io.Writer) error {
		_, err := w.Write(html.Bytes())
		return err
	})
}

// partner returns the A of a pair whose B run is; empty: there is none, or it was removed.
func (f *reportFlags) partner(run *record.Run) (id string) {
	_ = f.store.Reading("report", func(store *record.Store) error { // without a store there is no partner
		all, err := store.List(record.Filter{Scenario: run.Scenario.Hash()})
		at := func(id string) int { return slices.IndexFunc(all, func(s record.Summary) bool { return s.ID == id }) }
		if a, b := at(run.PairedWith), at(run.ID); a > b && b >= 0 { // the newest is first, and B was added last
			id = run.PairedWith
		}
		return err
	})
	return id
}

// judged compares the run with the earlier one.
func (f *reportFlags) judged(against, run *record.Run) (judged page.Judged, err error) {
	err = f.store.Reading("report", func(store *record.Store) error {
		c, err := f.judge.stored(store, against, run)
		if err == nil {
			judged = page.Judged{Comparison: c.Comparison, Notes: c.Notes}
		}
		return err
	})
	return judged, err
}
