package main

import (
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hone",
		Short: "Build Go network services that use one machine to its limit, and prove it",
		Long: `Build Go network services that use one machine to its limit, and prove it.

Exit codes: 0 ok, 1 failed or unreachable, 2 usage, 3 goal missed or regression,
4 run invalid or comparison refused, 130 interrupted.`,
		Example: `  hone demo                                    hone raced against plain servers: under a minute
  hone serve                                   a server on 127.0.0.1:7000
  hone load 127.0.0.1:7000 -c 100 -d 5s        how fast is it?`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newServe(), newLoad(), newAgent(), newBench(), newCompare(), newRun(), newDoctor(), newKnee(), newProfile(), newReport(), newHistory(), newTorture(), newProve(), newVersion())
	return root
}

// unknownCommand refuses an argument where a command should be.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usagef("unknown command %q; %s", args[0], exit.DidYouMean(args[0], commandNames(cmd), "see hone --help"))
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// newHelp is cobra's help command, except that it refuses unknown commands.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  hone help load",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), args)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
