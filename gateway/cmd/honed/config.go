package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/BurntSushi/toml"
)

// list is a flag that may be repeated.
type list struct {
	values []string
	given  bool // Set was called: the defaults are replaced
}

func (l *list) String() string { return strings.Join(l.values, " ") }

func (l *list) Set(value string) error {
	if !l.given {
		l.values, l.given = nil, true
	}
	l.values = append(l.values, value)
	return nil
}

// newFlags returns the flag set of a verb, with the flag for a configuration file.
func newFlags(verb string) (flags *flag.FlagSet, config *string) {
	flags = flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {} // a wrong flag prints one line, not all flags
	return flags, flags.String("config", "", "read flags from this TOML `FILE`; the command line takes precedence")
}

// parse reads the command line and then the configuration file.
func parse(flags *flag.FlagSet, config *string, args []string, stdout io.Writer) error {
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			fmt.Fprintf(stdout, "Flags of %s:\n", flags.Name())
			flags.SetOutput(stdout)
			flags.PrintDefaults()
			return err
		}
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if *config == "" {
		return nil
	}
	return readConfig(flags, *config)
}

// readConfig sets the flags that the file has and the command line has not. The keys are the
// flags' names.
func readConfig(flags *flag.FlagSet, path string) error {
	var keys map[string]any
	if _, err := toml.DecodeFile(path, &keys); err != nil {
		return usageError{fmt.Errorf("%s: %w", path, err)}
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for key, value := range keys {
		if flags.Lookup(key) == nil || key == "config" {
			return usageError{fmt.Errorf("%s: there is no setting %q", path, key)}
		}
		if given[key] {
			continue
		}
		values, ok := value.([]any)
		if !ok {
			values = []any{value}
		}
		for _, v := range values {
			if err := flags.Set(key, fmt.Sprint(v)); err != nil {
				return usageError{fmt.Errorf("%s: %s: %w", path, key, err)}
			}
		}
	}
	return nil
}
