package spec

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
)

// setting is one value that describes a load, its target or its server: a flag, a key of scenario
// files, and a part of an agent's job. What is saved of all settings makes runs comparable.
type setting struct {
	name, short string
	value       any // a pflag.Value, or a pointer to a basic type; it has the default
	usage       string
	secrecy     secrecy
	unsaved     bool   // it does not affect the load, or only says where the target is
	kinds       kinds  // the kinds of target that have it; 0: all
	instead     string // what to use for the others
	hidden      bool   // from help texts
}

// secrecy says what others may see of a value: stores and results are shared.
type secrecy uint8

const (
	public   secrecy = iota // all, but the query of a URL
	variable                // of NAME=VALUE, the name
	private                 // nothing: a store keeps a hash
	content                 // nothing but the name of a file, after @: a store keeps a hash
	file                    // the name of a file: a store keeps a hash, because the name may say much
)

// shown returns a value as results show it, with … in place of what may be secret.
func (s secrecy) shown(value string) string {
	switch {
	case s == variable:
		name, _, _ := strings.Cut(value, "=")
		return name + "=…"
	case s == private, s == content && !strings.HasPrefix(value, "@"):
		return "…"
	}
	return Public(value)
}

// saved returns a value as a store keeps it.
func (s secrecy) saved(value string) string {
	if s == private || s == content || s == file {
		return hashed(value)
	}
	return value
}

// settings are the settings of a command.
type settings struct {
	list  []setting
	flags *pflag.FlagSet // one for each
	usual []string       // their defaults, whatever a command makes of them
}

// define adds the flags to a command, or to none.
func (s *settings) define(cmd *cobra.Command, list []setting) {
	s.list, s.flags = list, pflag.NewFlagSet("", pflag.ContinueOnError)
	s.flags.SortFlags = false
	for _, one := range list {
		flag := flagOf(one.value)
		flag.Name, flag.Shorthand, flag.Usage, flag.Hidden = one.name, one.short, one.usage, one.hidden
		s.flags.AddFlag(flag)
		s.usual = append(s.usual, flag.DefValue)
	}
	if cmd == nil {
		return
	}
	cmd.Flags().AddFlagSet(s.flags)
}

// flagOf returns a flag without a name.
func flagOf(value any) *pflag.Flag {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	switch to := value.(type) {
	case *bool:
		flags.BoolVar(to, "v", *to, "")
	case *int:
		flags.IntVar(to, "v", *to, "")
	case *uint64:
		flags.Uint64Var(to, "v", *to, "")
	case *float64:
		flags.Float64Var(to, "v", *to, "")
	case *string:
		flags.StringVar(to, "v", *to, "")
	case *[]string:
		flags.StringArrayVar(to, "v", *to, "")
	case *time.Duration:
		flags.DurationVar(to, "v", *to, "")
	default:
		flags.Var(value.(pflag.Value), "v", "")
	}
	flag := *flags.Lookup("v")
	return &flag
}

// given reports whether a flag was set.
func (s *settings) given(name string) bool { return s.flags.Changed(name) }

// names returns the names of all settings.
func (s *settings) names() (all []string) {
	for _, one := range s.list {
		all = append(all, one.name)
	}
	return all
}

// suits refuses settings that do not apply to a kind of target.
func (s *settings) suits(command string, kind kinds) error {
	for _, one := range s.list {
		if one.kinds != 0 && one.kinds&kind == 0 && s.given(one.name) {
			return exit.Usagef("%s: --%s does not apply to a target of %s; %s", command, one.name, kind, one.instead)
		}
	}
	return nil
}

// saved calls with for each setting that is saved.
func (s *settings) saved(with func(name, value string, usual bool)) {
	for i, one := range s.list {
		value := s.flags.Lookup(one.name).Value.String()
		usual := value == s.usual[i]
		if !usual {
			value = one.secrecy.saved(value)
		}
		if !one.unsaved {
			with(one.name, value, usual || value == "" || value == "[]")
		}
	}
}

// value is a value that functions set, from texts or from a table of a scenario file.
type value struct {
	kind    string // in help texts
	set     func(text string) error
	text    func() string // its text form; nil: as it was given
	between string        // separates the values of a flag that may be repeated; empty: the last one counts
	// table parses a table of a scenario file; files that it names are relative to the file's folder.
	// Nil: there are none.
	table func(table any, file string) error

	texts []string // as given
	given any      // the table
	file  string   // which has it
}

// Set parses a value.
func (v *value) Set(text string) error {
	if v.between == "" {
		v.texts = nil
	}
	v.texts = append(v.texts, text)
	return v.set(text)
}

// setTable parses a table.
func (v *value) setTable(table any, file string) error {
	v.given, v.file = table, file
	return v.table(table, file)
}

// GetSlice returns the values one by one, as they were given.
func (v *value) GetSlice() []string { return v.texts }

// String returns all values.
func (v *value) String() string {
	if v.text != nil {
		return v.text()
	}
	return strings.Join(v.texts, v.between)
}

// Type returns the value's name in help texts.
func (v *value) Type() string { return v.kind }

// textsOf returns what was given as a flag.
func textsOf(flag *pflag.Flag) []string {
	if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
		return list.GetSlice()
	}
	return []string{flag.Value.String()}
}

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

// AddChoice adds a Choice flag to cmd.
func AddChoice(cmd *cobra.Command, name, usual, usage string, of ...string) *Choice {
	c := &Choice{usual, of}
	cmd.Flags().Var(c, name, usage)
	return c
}
