package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
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
	root.CompletionOptions.DisableDefaultCmd = true // ours names the shells
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newServe(), newAvatar(), newLoad(), newBench(), newCompare(), newRun(), newBaseline(), newDoctor(), newKnee(), newLab(), newProfile(), newReport(), newVersion(), newCompletion(), newMan())
	return root
}

// unknownCommand refuses what stands where a command should.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usagef("there is no command %q; %s", args[0], exit.DidYouMean(args[0], commandNames(cmd), "see hone --help"))
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

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usagef("%s: takes no argument such as %q; see %s --help", cmd.Name(), args[0], cmd.CommandPath())
}

const (
	pprofToken   = "pprof-token"
	tokenInClear = pprofToken + " is no longer taken, because others can read arguments and scenarios; write the token to a file, and give that: " + pprofToken + "-file"
)

// flagError says in one line what is wrong with a flag, and what would be right.
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
		if name == pprofToken && cmd.Flags().Lookup(pprofToken+"-file") != nil {
			return exit.Usagef("%s: --%s", cmd.Name(), tokenInClear)
		}
		if unknown.GetSpecifiedShortnames() != "" {
			return exit.Usagef("%s: there is no flag -%s; %s", cmd.Name(), name, help)
		}
		return exit.Usagef("%s: there is no flag --%s; %s", cmd.Name(), name, exit.DidYouMean("--"+name, flagNames(cmd), help))
	case errors.As(err, &missing):
		return exit.Usagef("%s: --%s lacks its value; %s", cmd.Name(), missing.GetFlag().Name, help)
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == goalType:
		return &exit.Error{Code: exit.Usage, Err: invalid.Unwrap()} // it names the goal
	case errors.As(err, &invalid):
		return exit.Usagef("%s: --%s %q: %s", cmd.Name(), invalid.GetFlag().Name, invalid.GetValue(), whyInvalid(invalid))
	}
	return exit.Usagef("%s: %w; %s", cmd.Name(), err, help)
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// whyInvalid explains a value that a flag did not take. Our own flags have
// words for it; those of package pflag have strconv's.
func whyInvalid(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "duration":
		return "no duration; write it with its unit, as in 10s or 500ms"
	case "int":
		return "no whole number; write it in digits, as in 100"
	case "uint64":
		return "no whole number from 0 up; write it in digits, as in 1"
	case "float64":
		return "no number; write it in digits, as in 50000"
	case "bool":
		return "neither true nor false; leave the value out"
	}
	return err.Unwrap().Error()
}

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

// Set takes one of the words.
func (c *choice) Set(text string) error {
	for _, known := range c.of {
		if text == known {
			c.value = text
			return nil
		}
	}
	return errors.New("not one of " + strings.Join(c.of, ", ") + "; " + exit.DidYouMean(text, c.of, "use "+c.of[0]))
}

// String returns the word chosen.
func (c *choice) String() string { return c.value }

// Type is how help names the value.
func (c *choice) Type() string { return strings.Join(c.of, "|") }

// addChoice gives cmd the flag, with completion.
func addChoice(cmd *cobra.Command, name, usual, usage string, of ...string) *choice {
	c := &choice{usual, of}
	cmd.Flags().Var(c, name, usage)
	complete := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return of, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
	return c
}

// newHelp is help that does not accept what is not there.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Say how a command is used",
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
