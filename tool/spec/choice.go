package spec

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
)

// WhyInvalid explains why a flag refused a value. hone's own flags have messages for that; those
// of package pflag have strconv's.
func WhyInvalid(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "duration":
		return "not a duration; write it with its unit, as in 10s or 500ms"
	case "int":
		return "not a whole number; write it in digits, as in 100"
	case "uint64":
		return "not a whole number from 0 up; write it in digits, as in 1"
	case "float64":
		return "not a number; write it in digits, as in 50000"
	case "bool":
		return "neither true nor false; leave the value out"
	}
	return err.Unwrap().Error()
}

// parsed is a flag whose values a function keeps.
type parsed struct {
	kind    string // in help texts
	keep    func(text string) error
	between string // separates the values of a flag that may be repeated; empty: the last one counts
	texts   []string
}

// Set parses a value.
func (f *parsed) Set(text string) error {
	if f.between == "" {
		f.texts = nil
	}
	f.texts = append(f.texts, text)
	return f.keep(text)
}

// GetSlice returns the values one by one, as they were given.
func (f *parsed) GetSlice() []string { return f.texts }

// String returns all values.
func (f *parsed) String() string { return strings.Join(f.texts, f.between) }

// Type returns the value's name in help texts.
func (f *parsed) Type() string { return f.kind }

// Choice is a flag whose value is one of a few words.
type Choice struct {
	Value string
	Of    []string
}

// Set sets the word.
func (c *Choice) Set(text string) error {
	if slices.Contains(c.Of, text) {
		c.Value = text
		return nil
	}
	return errors.New("not one of " + strings.Join(c.Of, ", ") + "; " + exit.DidYouMean(text, c.Of, "use "+c.Of[0]))
}

// String returns the word chosen.
func (c *Choice) String() string { return c.Value }

// Type returns the value's name in help texts.
func (c *Choice) Type() string { return strings.Join(c.Of, "|") }

// AddChoice adds a Choice flag to cmd, with completion.
func AddChoice(cmd *cobra.Command, name, usual, usage string, of ...string) *Choice {
	c := &Choice{usual, of}
	AddOffering(cmd, c, name, usage, of...)
	return c
}

// AddOffering adds a flag to cmd whose values the shell completes, in this order.
func AddOffering(cmd *cobra.Command, value pflag.Value, name, usage string, offers ...cobra.Completion) {
	cmd.Flags().Var(value, name, usage)
	complete := cobra.FixedCompletions(offers, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
}
