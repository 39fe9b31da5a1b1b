package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/lab"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

const allLabs = "all"

// labFlags are lab's, as they were given.
type labFlags struct {
	out         outputFlags
	save, quick bool
	store       storeFlag
	ui          uiFlags
}

func newLab() *cobra.Command {
	f := new(labFlags)
	names := append(lab.Names(), allLabs)
	cmd := &cobra.Command{
		Use:   "lab NAME|all",
		Short: "Measure again what five articles claim, beside hone",
		Long: `Measure again what five articles claim, beside hone. Their servers and experiments
are rebuilt; each runs in a process of its own, under the same load, in turn.
For every claim: the article's figure, what was measured here, whether it holds,
and why.

  ladder     a framed TCP server: direct I/O, then buffers, then sync.Pool
  objects    objects from a pool, beside new ones, from 8 bytes to 64 KiB
  workers    goroutines from a pool, beside new ones
  contexts   request contexts from a pool, and who still holds them
  conns      500,000 requests over a pool of 2,000 connections
  idle       memory of connections that wait
  avatar     a service of pictures: caching, and no log

All of them take six to nine minutes on two processors. Let nothing else run
meanwhile.`,
		Example: `  hone lab ladder
  hone lab all -o lab.txt
  hone lab all --save
  hone lab ladder --ui 127.0.0.1:8080 --ui-stay
  hone lab workers --quick --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return exit.Usagef("lab: name a lab: %s", strings.Join(names, ", "))
			case len(args) > 1:
				return exit.Usagef("lab: one lab at a time, not also %q; or all of them: hone lab all", args[1])
			case !slices.Contains(names, args[0]):
				return exit.Usagef("lab: there is no %q; %s", args[0], exit.DidYouMean(args[0], names, "use one of "+strings.Join(names, ", ")))
			}
			return nil
		},
		ValidArgs: names,
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&f.quick, "quick", false, "a second or so for each lab: to see that it works; figures are rough")
	cmd.Flags().BoolVar(&f.save, "save", false, "keep a run of each lab, with its profiles; see hone run --help")
	f.out.define(cmd)
	f.store.define(cmd)
	f.ui.define(cmd)
	cmd.AddCommand(newLabStage())
	return cmd
}

// newLabStage is how a lab runs its servers in processes of their own.
func newLabStage() *cobra.Command {
	return &cobra.Command{
		Use:    "stage NAME",
		Short:  "Be one of the programs of a lab, until standard input ends",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exit.FailedIf(lab.Serve(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}

// run runs the labs, and says what came of them.
func (f *labFlags) run(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	out, err := openResult(f.out.file, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.Close()
	var store *record.Store
	if f.save { // before minutes are spent
		if store, err = f.store.write(ctx, "lab"); err != nil {
			return err
		}
		defer store.Close()
	}
	live, err := f.ui.open(cmd, &page.Page{
		Title: "hone lab " + name, Groups: []string{page.Client, page.Host},
		About: []page.Fact{{Name: "hone", Value: buildVersion().Version}},
	})
	if err != nil {
		return err
	}
	defer live.close(ctx)
	plan, err := f.plan(name, live, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	began := time.Now().UTC()
	report, err := lab.Run(ctx, plan)
	if report == nil {
		live.end(nil, err)
	} else {
		live.end(report.InvalidReasons, err)
	}
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Code: exit.Interrupted, Err: errors.New("lab: interrupted; let it run to the end, or give it a second or so with --quick")}
	case err != nil:
		return exit.FailedIf(err)
	}
	writeErr := f.write(out, report) // first: a store that fails must not cost the result
	if store != nil {
		if err := f.keep(ctx, store, report, began, cmd.ErrOrStderr()); err != nil && writeErr == nil {
			return err
		}
	}
	if writeErr != nil {
		return exit.Failedf("lab: %w", writeErr)
	}
	if !report.Valid {
		if f.out.json || f.out.file != "" {
			return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("lab: %s", strings.Join(report.InvalidReasons, "; "))}
		}
		return &exit.Error{Code: exit.Invalid} // it has been said
	}
	return nil
}

func (f *labFlags) plan(name string, live *livePage, stderr io.Writer) (lab.Plan, error) {
	exe, err := os.Executable()
	if err != nil {
		return lab.Plan{}, exit.Failedf("lab: %w", err)
	}
	plan := lab.Plan{
		Stage: []string{exe, "lab", "stage"}, Quick: f.quick,
		Say:   func(line string) { fmt.Fprintln(stderr, line) },
		Watch: func(what, stage string, now load.Progress) { live.show(page.Lane{Group: what, Name: stage}, now) },
	}
	if name != allLabs {
		plan.Names = []string{name}
	}
	return plan, nil
}

func (f *labFlags) write(out *resultFile, report *lab.Report) error {
	if err := out.begin(); err != nil {
		return err
	}
	if f.out.json {
		return writeJSON(out, report)
	}
	return report.WriteText(out)
}

// keep stores a run of each lab: a sample of all its medians, and its profiles.
func (f *labFlags) keep(ctx context.Context, store *record.Store, report *lab.Report, began time.Time, stderr io.Writer) error {
	facts := machine.Read()
	for _, l := range report.Labs {
		sample := record.Sample{Order: 1, At: began, Valid: report.Valid, Reasons: report.InvalidReasons}
		if f.quick {
			sample.Valid, sample.Reasons = false, append(sample.Reasons[:len(sample.Reasons):len(sample.Reasons)], "rough: taken with --quick; leave it out")
		}
		for _, row := range l.Rows {
			if row.Measured != nil {
				sample.Metrics = append(sample.Metrics, record.Metric{Name: row.What, Unit: row.Unit, Better: better(row.Unit), Value: *row.Measured})
			}
		}
		for _, p := range l.Profiles {
			sample.Artefacts = append(sample.Artefacts, record.Artefact{Kind: string(p.Kind), Name: p.Of + " " + string(p.Kind), Data: p.Data})
		}
		run := &record.Run{Name: "lab " + l.Name, Made: "lab", At: began, Samples: []record.Sample{sample},
			Scenario:    record.Scenario{Name: "lab-" + l.Name, Text: fmt.Sprintf("lab=%s\nquick=%t\n", l.Name, f.quick)},
			Environment: record.Environment{Strict: maps.Clone(facts.Strict), Soft: maps.Clone(facts.Soft)}}
		if err := store.Add(ctx, run); err != nil {
			return notKept("lab", err)
		}
		fmt.Fprintf(stderr, "kept as %s\n", describe(run))
	}
	return nil
}

// better says which values of a row's unit are good.
func better(unit string) string {
	switch unit {
	case "requests/s", "× requests/s", "× as fast", "collections":
		return record.Higher
	}
	return record.Lower
}
