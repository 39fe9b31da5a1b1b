package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/session"
)

// release is the version of a build without version control data, such as one from a
// folder without .git. deploy/Dockerfile has the linker set it: -X main.release=v1.2.3.
var release = ""

// versionReport is the build information.
type versionReport struct {
	Version  string  `json:"version"`
	Commit   *string `json:"commit"`   // null: unknown
	Modified *bool   `json:"modified"` // whether files differ from that commit
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, commit and platform of this build",
		Example: "  hone version\n  hone version --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
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
		run.Environment.Soft["hone"] = buildVersion().Version
	}
}

// buildVersion reads the build information in the binary.
func buildVersion() versionReport {
	v := versionReport{Version: cmp.Or(release, "(devel)"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if release == "" && build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = &s.Value
		case "vcs.modified":
			v.Modified = new(s.Value == "true")
		}
	}
	return v
}
