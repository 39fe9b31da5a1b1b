package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/spec"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hone",
		Short: "Build Go network services that use one machine to its limit, and prove it",
		Long: `Build Go network services that use one machine to its limit, and prove it.

Exit codes: 0 ok, 1 failed or unreachable, 2 usage, 3 goal missed or regression,
4 run invalid or comparison refused, 130 interrupted.`,
		Example: `  hone demo                                    every engine, raced: under a minute
  hone serve                                   a server on 127.0.0.1:7000
  hone load 127.0.0.1:7000 -c 100 -d 5s        how fast is it?`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true // ours lists the shells
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newServe(), newAvatar(), newLoad(), newAgent(), newBench(), newCompare(), newRun(), newBaseline(), newDoctor(), newKnee(), newLab(), newProfile(), newReport(), newVersion(), newCompletion(), newMan())
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
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// noArguments refuses arguments other than flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usagef("%s: unexpected argument %q; see %s --help", cmd.Name(), args[0], cmd.CommandPath())
}

// renamed returns what replaces a flag of an older version.
func renamed(command, name string) string {
	return map[string]string{
		"knee goal": "--expect", "knee trial": "--for", "bench name": "--save", "bench baseline": "--against baseline:NAME", "load ui-against": "--against",
	}[command+" "+name]
}

// flagError explains in one line what is wrong with a flag and how to fix it.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		help    = "see " + cmd.CommandPath() + " --help"
	)
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if name == spec.PprofToken && cmd.Flags().Lookup(spec.PprofToken+"-file") != nil {
			return exit.Usagef("%s: --%s", cmd.Name(), spec.TokenInClear)
		}
		if now := renamed(cmd.Name(), name); now != "" && unknown.GetSpecifiedShortnames() == "" {
			return exit.Usagef("%s: --%s is now %s; %s", cmd.Name(), name, now, help)
		}
		if unknown.GetSpecifiedShortnames() != "" {
			return exit.Usagef("%s: unknown flag -%s; %s", cmd.Name(), name, help)
		}
		return exit.Usagef("%s: unknown flag --%s; %s", cmd.Name(), name, exit.DidYouMean("--"+name, flagNames(cmd), help))
	case errors.As(err, &missing):
		return exit.Usagef("%s: --%s needs a value; %s", cmd.Name(), missing.GetFlag().Name, help)
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == spec.GoalType:
		return &exit.Error{Code: exit.Usage, Err: invalid.Unwrap()} // it names the goal
	case errors.As(err, &invalid):
		return exit.Usagef("%s: --%s %q: %s", cmd.Name(), invalid.GetFlag().Name, invalid.GetValue(), spec.WhyInvalid(invalid))
	}
	return exit.Usagef("%s: %w; %s", cmd.Name(), err, help)
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
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
