// Command lab measures again what five articles on fast Go services claim, and hone beside
// them.
//
//	go run ./articles/cmd/lab all
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/articles/lab"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

const allLabs = "all"

func main() { command.Main(newRoot()) }

// options holds the parsed flags.
type options struct {
	out   session.Output
	save  string
	quick bool
	store session.Store
	ui    session.UI
}

func newRoot() *cobra.Command {
	f := new(options)
	names := append(lab.Names(), allLabs)
	cmd := &cobra.Command{
		Use:   "lab NAME|all",
		Short: "Reproduce the measurements of five articles, and measure hone under the same load",
		Long: `Reproduce the measurements of five articles, and measure hone under the same load.
Each rebuilt server or experiment runs in a separate process, alternating with the
others. For every claim the report gives the article's figure, the figure measured
here, whether the claim holds, and why.

  ladder     a framed TCP server: direct I/O, then buffers, then sync.Pool
  objects    pooled objects against new ones, from 8 bytes to 64 KiB
  workers    pooled goroutines against new ones
  contexts   pooled request contexts, and use after free
  conns      500,000 requests over a pool of 2,000 connections
  idle       memory per idle connection
  avatar     an avatar service: caching, no access log, and the server

All of them take about ten minutes on two CPUs. Stop other work on the machine
meanwhile.`,
		Example: `  lab ladder
  lab all -o lab.txt
  lab all --save tuesday
  lab ladder --ui 127.0.0.1:8080 --ui-stay
  lab workers --quick --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return exit.Usagef("lab: name a lab: %s", strings.Join(names, ", "))
			case len(args) > 1:
				return exit.Usagef("lab: give one lab, not also %q; to run all: lab all", args[1])
			case !slices.Contains(names, args[0]):
				return exit.Usagef("lab: no lab %q; %s", args[0], exit.DidYouMean(args[0], names, "use one of "+strings.Join(names, ", ")))
			}
			return nil
		},
		ValidArgs: names,
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&f.quick, "quick", false, "spend a second or so on each lab, to see that it works; figures are rough")
	cmd.Flags().StringVar(&f.save, "save", "", "store a run of each lab, with its profiles, under this `NAME`; with all, NAME followed by the lab's name; hone run lists them")
	f.out.Define(cmd)
	f.store.Define(cmd)
	f.ui.Define(cmd)
	cmd.AddCommand(newStage())
	return cmd
}

// newStage returns the hidden command that runs a lab's servers in separate processes.
func newStage() *cobra.Command {
	return &cobra.Command{
		Use:    "stage NAME",
		Short:  "Run one program of a lab until standard input ends",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exit.FailedIf(lab.Serve(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}

// run runs the labs and prints their results.
func (f *options) run(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	if err := f.ui.Check("lab"); err != nil {
		return err
	}
	s, err := session.Open(ctx, session.Plan{
		Command: "lab", Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Output: f.out,
		Keep: f.save != "", Store: f.store, UI: f.ui,
		Page: &page.Page{
			Title: "lab " + name, Groups: []string{page.Client, page.Host},
			About: []page.Fact{{Name: "hone", Value: command.BuildOf("").Version}},
		},
	})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	plan, err := f.plan(name, s.Live, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	began := time.Now().UTC()
	report, err := lab.Run(ctx, plan)
	end := session.End{}
	switch {
	case ctx.Err() != nil:
		end.Err = &exit.Error{Code: exit.Interrupted, Err: errors.New("lab: interrupted; let it run to the end, or use --quick, about a second per lab")}
	case err != nil:
		end.Err = exit.FailedIf(err)
	}
	if report == nil {
		s.Live.End(nil, err)
		return end.Err
	}
	s.Live.End(report.InvalidReasons, err)
	end.JSON, end.Text, end.Runs, end.Partly = report, report.WriteText, f.made(report, name, began), err != nil
	if !report.Valid {
		end.Verdict = &exit.Error{Code: exit.Invalid} // the report's first line has given the reason
		if !s.Said() {
			end.Verdict = &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("lab: %s", strings.Join(report.InvalidReasons, "; "))}
		}
	}
	end.Kept = func() error {
		for _, run := range end.Runs {
			fmt.Fprintf(cmd.ErrOrStderr(), "kept as %s\n", run.Title())
		}
		return nil
	}
	return s.Finish(end)
}

func (f *options) plan(name string, live *session.Live, stderr io.Writer) (lab.Plan, error) {
	exe, err := os.Executable()
	if err != nil {
		return lab.Plan{}, exit.Failedf("lab: %w", err)
	}
	plan := lab.Plan{
		Stage: []string{exe, "stage"}, Quick: f.quick,
		Say:   func(line string) { fmt.Fprintln(stderr, line) },
		Watch: func(what, stage string, now load.Progress) { live.Show(page.Lane{Group: what, Name: stage}, now) },
	}
	if name != allLabs {
		plan.Names = []string{name}
	}
	return plan, nil
}

// made returns the labs as runs to store, one per lab: one sample of all its medians, and
// its profiles.
func (f *options) made(report *lab.Report, labs string, began time.Time) (runs []*record.Run) {
	facts := machine.Read()
	for _, l := range report.Labs {
		sample := record.Sample{Order: 1, At: began, Valid: report.Valid, Reasons: report.InvalidReasons}
		if f.quick {
			sample.Valid, sample.Reasons = false, append(sample.Reasons[:len(sample.Reasons):len(sample.Reasons)], "rough: measured with --quick; leave it out")
		}
		for _, row := range l.Rows {
			if row.Measured != nil {
				sample.Metrics = append(sample.Metrics, record.Metric{Name: row.What, Unit: row.Unit, Better: better(row.Unit), Value: *row.Measured})
			}
		}
		for _, p := range l.Profiles {
			sample.Artefacts = append(sample.Artefacts, record.Artefact{Kind: string(p.Kind), Name: p.Of + " " + string(p.Kind), Data: p.Data})
		}
		name := f.save
		if labs == allLabs {
			name += " " + l.Name
		}
		runs = append(runs, &record.Run{Name: name, Made: "lab", At: began, Samples: []record.Sample{sample},
			Scenario:    record.Scenario{Name: "lab-" + l.Name, Text: fmt.Sprintf("lab=%s\nquick=%t\n", l.Name, f.quick)},
			Environment: record.Environment{Strict: maps.Clone(facts.Strict), Soft: maps.Clone(facts.Soft)}})
	}
	return runs
}

// better returns which values of a row's unit are good.
func better(unit string) string {
	switch unit {
	case "requests/s", "× requests/s", "× as fast", "collections":
		return record.Higher
	}
	return record.Lower
}
