package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write man pages into a folder",
		Long:    "Write a man page for every command into a folder, creating it if needed.\nSOURCE_DATE_EPOCH sets their date.",
		Example: "  hone man ~/.local/share/man/man1",
		Args:    arguments(1, 1, "man: name one folder, as in: hone man ./man1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return exit.Failedf("man: %w; name a folder that can be created", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "hone " + command.BuildOf(release).Version, Manual: "hone"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return exit.Failedf("man: %w; name a writable folder", err)
			}
			return nil
		},
	}
}
