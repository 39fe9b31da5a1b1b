package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
)

// shortHelp lets --help show the usual flags only, and --help-all the others as well.
func shortHelp(cmd *cobra.Command, usual, others string) {
	flags, long := cmd.Flags(), cmd.HelpFunc()
	flags.VarPF(&helpAll{of: flags}, "help-all", "", "help with all flags: "+others).NoOptDefVal = "true"
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if flags.Changed("help-all") {
			long(cmd, args)
			return
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n\n%s", cmd.Long, cmd.UseLine(), firstLines(cmd.Example, 2), chosen(flags, usual+" help-all").FlagUsages())
	})
}

// helpAll asks for help when it is set, before anybody checks the arguments.
type helpAll struct{ of *pflag.FlagSet }

func (h *helpAll) Set(string) error { return h.of.Set("help", "true") }
func (h *helpAll) String() string   { return "" }
func (h *helpAll) Type() string     { return "bool" }

// chosen returns those of the flags that are named, in that order.
func chosen(flags *pflag.FlagSet, names string) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for name := range strings.FieldsSeq(names) {
		if flag := flags.Lookup(name); flag != nil {
			set.AddFlag(flag)
		}
	}
	return set
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// arguments refuses fewer or more arguments with advice.
func arguments(least, most int, advice string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Usagef("%s", advice)
		}
		return nil
	}
}
