package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// release is the version of a build without version control data, such as one from a
// folder without .git. deploy/Dockerfile has the linker set it: -X main.release=v1.2.3.
var release = ""

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, commit and platform of this build",
		Example: "  hone version\n  hone version --json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := command.BuildOf(release)
			if asJSON {
				return exit.FailedIf(session.WriteJSON(cmd.OutOrStdout(), v))
			}
			commit := ""
			if v.Commit != nil {
				commit = ", commit " + *v.Commit
			}
			if v.Modified != nil && *v.Modified {
				commit += " with changes"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "hone %s%s, %s, %s\n", v.Version, commit, v.Go, v.Platform)
			return exit.FailedIf(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// noteVersion records in a run which hone measured it, if a version was given.
func noteVersion(run *record.Run) {
	if run.Environment.Soft != nil {
		run.Environment.Soft["hone"] = command.BuildOf(release).Version
	}
}
