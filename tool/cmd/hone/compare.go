package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// compareFlags holds the parsed flags of hone compare.
type compareFlags struct {
	judge judgeFlags
	pairs bool
	store session.Store
	out   session.Output
}

func newCompare() *cobra.Command {
	f := new(compareFlags)
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Report whether B differs from A, with confidence intervals",
		Long: `Report whether B differs from A, with confidence intervals. A and B are stored runs
(see hone run --help) or files: results of hone load --json, one after the other,
each from a fresh server.

A figure is better or worse if its interval excludes zero, the same if the interval
lies within --tolerance, and else unclear. Runs that were not measured alternately need
a noise floor (hone bench --against-self) or --noise. See docs/method.md.

Exit codes: 3 when a figure is worse, 4 when the primary figure is unclear or the two
cannot be compared.`,
		Example: `  hone compare before latest
  hone compare before.json after.json --pairs --tolerance 3% --md
  hone compare one.json eight.json --across conns`,
		Args: arguments(2, 2, "compare: name two runs or files, as in: hone compare before latest"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.pairs, "pairs", false, "for files: pair the first run of A with the first of B, and so on")
	f.judge.define(cmd)
	f.out.DefineReport(cmd, nil)
	f.store.Define(cmd)
	return cmd
}

func (f *compareFlags) run(cmd *cobra.Command, nameA, nameB string) error {
	if err := f.out.Check("compare"); err != nil {
		return err
	}
	a, err := f.side(nameA)
	if err != nil {
		return err
	}
	b, err := f.side(nameB)
	if err != nil {
		return err
	}
	var result *compare.Report
	if a.stored != nil && b.stored != nil {
		err = f.store.Reading("compare", func(store *record.Store) (err error) {
			result, err = f.judge.stored(store, a.stored, b.stored)
			return err
		})
	} else {
		result, err = f.judge.as().Compare(a.figures(), b.figures(), f.pairs, nil)
	}
	if err != nil {
		return err
	}
	result.A, result.B = nameA, nameB
	text := result.Text
	if f.out.MD {
		text = result.Markdown
	}
	if err := f.out.Print(cmd, result, text); err != nil {
		return err
	}
	return result.Failure("compare")
}

// side is one side of a comparison.
type side struct {
	stored *record.Run   // nil: the side is a file
	file   *compare.Runs // nil: the side is a stored run
}

// side returns the file of that name, or else the stored run.
func (f *compareFlags) side(name string) (s side, err error) {
	s.stored, err = f.store.FileOrRun("compare", name)
	if s.stored == nil && err == nil {
		s.file, err = readRuns(name)
	}
	return s, err
}

func (s side) figures() *compare.Runs {
	if s.file != nil {
		return s.file
	}
	runs, _, _ := compare.Stored(s.stored, s.stored)
	return runs
}

func readRuns(name string) (*compare.Runs, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, exit.Failedf("compare: %w", err)
	}
	defer file.Close()
	runs, err := compare.ReadRuns(name, file)
	if errors.Is(err, compare.ErrInvalidRun) || errors.Is(err, compare.ErrMixed) {
		return nil, &exit.Error{Code: exit.Invalid, Err: err}
	}
	return runs, exit.FailedIf(err)
}
