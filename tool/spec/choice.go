package spec

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
)

// WhyInvalid explains a value that a flag did not take. Our own flags have
// words for it; those of package pflag have strconv's.
func WhyInvalid(err *pflag.InvalidValueError) string {
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

// Choice is a flag that takes one of a few words.
type Choice struct {
	Value string
	Of    []string
}

// Set takes one of the words.
func (c *Choice) Set(text string) error {
	if slices.Contains(c.Of, text) {
		c.Value = text
		return nil
	}
	return errors.New("not one of " + strings.Join(c.Of, ", ") + "; " + exit.DidYouMean(text, c.Of, "use "+c.Of[0]))
}

// String returns the word chosen.
func (c *Choice) String() string { return c.Value }

// Type is how help names the value.
func (c *Choice) Type() string { return strings.Join(c.Of, "|") }

// AddChoice gives cmd the flag, with completion.
func AddChoice(cmd *cobra.Command, name, usual, usage string, of ...string) *Choice {
	c := &Choice{usual, of}
	AddOffering(cmd, c, name, usage, of...)
	return c
}

// AddOffering gives cmd a flag whose values the shell offers, in this order.
func AddOffering(cmd *cobra.Command, value pflag.Value, name, usage string, offers ...cobra.Completion) {
	cmd.Flags().Var(value, name, usage)
	complete := cobra.FixedCompletions(offers, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
}
