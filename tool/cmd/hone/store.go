package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// storeFlag is the store of runs that a command uses.
type storeFlag struct{ session.Store }

func (f *storeFlag) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "store", "", "the `FILE` with the runs (default: .hone/runs.db in the nearest parent folder with .hone, else the user's)")
}

// outputFlags holds the flags of a command that writes a result.
type outputFlags struct{ session.Output }

func (f *outputFlags) define(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print one JSON object")
	cmd.Flags().StringVarP(&f.File, "output", "o", "", "write the result to `FILE` instead of standard output")
}

// write writes v as JSON or as text.
func (f *outputFlags) write(cmd *cobra.Command, v any, text func(io.Writer)) error {
	return f.Write(cmd.Name(), cmd.OutOrStdout(), v, text)
}

// completeRuns offers the store's runs for shell completion.
func (f *storeFlag) completeRuns(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := f.Read(cmd.Context(), cmd.Name())
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer s.Close()
	runs, err := s.List(cmd.Context(), record.Filter{Limit: 50})
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	offers := []cobra.Completion{cobra.CompletionWithDesc("latest", "the newest run")}
	for _, r := range runs {
		offers = append(offers, cobra.CompletionWithDesc(r.ID, r.Name+" "+r.Scenario))
	}
	return offers, cobra.ShellCompDirectiveDefault
}
