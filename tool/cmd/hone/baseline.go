package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

func newBaseline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Name a run that others are compared with",
		Long: `Name a run that others are compared with: hone bench --against baseline:NAME, or
hone compare baseline:NAME latest.`,
		Example: "  hone baseline set main latest\n  hone baseline list",
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBaselineSet(), newBaselineList(), newBaselineRemove())
	return cmd
}

func newBaselineSet() *cobra.Command {
	var store session.Store
	var dirty bool
	cmd := &cobra.Command{
		Use:     "set NAME [RUN]",
		Short:   "Make a run (default: the newest) the baseline of that name",
		Example: "  hone baseline set main\n  hone baseline set v1.2 3f9c2a71b04e",
		Args:    arguments(1, 2, "baseline set: give a name and optionally a run, as in: hone baseline set main latest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return store.Writing(cmd.Context(), "baseline set", func(s *record.Store) error {
				run, err := s.Get(cmd.Context(), orLatest(args[1:]))
				if err == nil {
					err = fitForBaseline(run, dirty)
				}
				if err == nil {
					err = s.SetBaseline(cmd.Context(), args[0], run.ID)
				}
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "hone: %s is the baseline %s\n", run.ID, args[0])
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&dirty, "dirty", false, "accept a run of uncommitted code")
	store.Define(cmd)
	return cmd
}

// fitForBaseline refuses a run that cannot be measured again, or that has no valid
// sample.
func fitForBaseline(run *record.Run, dirty bool) error {
	if run.Environment.Soft["modified"] == "true" && !dirty {
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("baseline set: %s measures uncommitted code, which nobody can build again; commit and measure again, or add --dirty", run.ID)}
	}
	for _, s := range run.Samples {
		if s.Valid {
			return nil
		}
	}
	return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("baseline set: %s has no valid sample; see hone run show %s", run.ID, run.ID)}
}

func newBaselineList() *cobra.Command {
	var store session.Store
	var out session.Output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the baselines",
		Example: "  hone baseline list --json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []record.Baseline
			if err := store.Reading(cmd.Context(), "baseline list", func(s *record.Store) (err error) {
				all, err = s.Baselines(cmd.Context())
				return err
			}); err != nil {
				return err
			}
			return out.Print(cmd, baselines{"hone.baselines/1", all}, func(w io.Writer) {
				table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "name\trun\tset")
				for _, b := range all {
					fmt.Fprintf(table, "%s\t%s\t%s\n", b.Name, b.ID, b.At.Local().Format(time.DateTime))
				}
				table.Flush()
			})
		},
	}
	out.Define(cmd)
	store.Define(cmd)
	return cmd
}

type baselines struct {
	Schema    string            `json:"schema"`
	Baselines []record.Baseline `json:"baselines"`
}

func newBaselineRemove() *cobra.Command {
	var store session.Store
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "Remove a baseline; its run stays",
		Example: "  hone baseline rm main",
		Args:    arguments(1, 1, "baseline rm: give one name, as in: hone baseline rm main"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return store.Writing(cmd.Context(), "baseline rm", func(s *record.Store) error { return s.RemoveBaseline(cmd.Context(), args[0]) })
		},
	}
	store.Define(cmd)
	return cmd
}
