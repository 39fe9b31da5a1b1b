package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
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
			printFlags(flags, stdout)
			return err
		}
		oneDash := regexp.MustCompile(`(^|[ :])-([a-z])`) // as package flag writes flags
		return usageError{errors.New(oneDash.ReplaceAllString(err.Error(), "$1--$2"))}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if *config == "" {
		return nil
	}
	return readConfig(flags, *config)
}

// printFlags prints the flags as they are written everywhere else, with two dashes.
func printFlags(flags *flag.FlagSet, out io.Writer) {
	flags.VisitAll(func(f *flag.Flag) {
		kind, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(out, "  --%s %s\n    \t%s", f.Name, kind, usage)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			fmt.Fprintf(out, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(out)
	})
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
