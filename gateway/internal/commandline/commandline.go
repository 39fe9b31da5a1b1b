// Package commandline has what the gateway's commands have in common: flags, from arguments and from a TOML file,
// and the admin side.
package commandline

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
)

// The exit codes.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	Interrupted = 130
)

// UsageError is an error in the command line or the configuration file.
type UsageError struct{ Err error }

// Error returns Err's text.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e UsageError) Unwrap() error { return e.Err }

// ErrInterrupted means that a signal ended the command.
var ErrInterrupted = errors.New("interrupted")

// OrInterrupted returns err, or ErrInterrupted if ctx caused it.
func OrInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// Version returns the version of this build: release, if that is not empty, or what Go knows.
func Version(release string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		release = cmp.Or(release, build.Main.Version)
	}
	return cmp.Or(release, "(devel)")
}

// Main is a command's main. The first signal ends the context.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit says on stderr why a command failed, and returns the exit code.
func Exit(command string, err error, stderr io.Writer) int {
	var usage UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return OK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %v; see %s --help\n", command, err, command)
		return Usage
	case errors.Is(err, ErrInterrupted):
		fmt.Fprintf(stderr, "%s: interrupted\n", command)
		return Interrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", command, err)
	return Failed
}

// List is a flag that may be repeated.
type List struct {
	Values []string
	given  bool // Set was called: the defaults are replaced
}

// String returns the values in one line.
func (l *List) String() string { return strings.Join(l.Values, " ") }

// Set adds a value. The first one replaces the defaults.
func (l *List) Set(value string) error {
	if !l.given {
		l.Values, l.given = nil, true
	}
	l.Values = append(l.Values, value)
	return nil
}

// New returns the flag set of a verb, with the flag for a configuration file.
func New(verb string) (flags *flag.FlagSet, config *string) {
	flags = flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {} // a wrong flag prints one line, not all flags
	return flags, flags.String("config", "", "read flags from this TOML `FILE`; the command line takes precedence")
}

// Parse reads the command line, which may have up to words arguments before, between and behind the
// flags, and then the configuration file.
func Parse(flags *flag.FlagSet, config *string, args []string, words int, stdout io.Writer) error {
	takeAmounts(flags)
	err, found := flags.Parse(args), []string(nil)
	for err == nil && flags.NArg() > 0 && len(found) < words { // package flag stops at the first argument
		found = append(found, flags.Arg(0))
		err = flags.Parse(flags.Args()[1:])
	}
	if err != nil {
		if err == flag.ErrHelp {
			fmt.Fprintf(stdout, "Flags of %s:\n", flags.Name())
			printFlags(flags, stdout)
			return err
		}
		oneDash := regexp.MustCompile(`(^|[ :])-([a-z])`) // as package flag writes flags
		return UsageError{errors.New(oneDash.ReplaceAllString(err.Error(), "$1--$2"))}
	}
	if flags.NArg() > 0 {
		return UsageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	flags.Parse(append([]string{"--"}, found...)) // for flags.Args
	if *config == "" {
		return nil
	}
	return readConfig(flags, *config)
}

// amount is the Value of a flag for bytes, which may have a unit, or for a duration.
type amount struct {
	flag.Value
	kind string // BYTES or duration
}

// takeAmounts makes amounts of the flags for bytes and durations.
func takeAmounts(flags *flag.FlagSet) {
	flags.VisitAll(func(f *flag.Flag) {
		switch kind, _ := flag.UnquoteUsage(f); kind {
		case "BYTES":
			if n, _ := strconv.ParseInt(f.DefValue, 10, 64); n != 0 {
				steps := min(bits.TrailingZeros64(uint64(n))/10, 4)
				f.DefValue = fmt.Sprint(n>>(10*steps), []string{"", "KiB", "MiB", "GiB", "TiB"}[steps])
			}
			f.Value = amount{f.Value, kind}
		case "duration":
			f.Value = amount{f.Value, kind}
		}
	})
}

// Set says what to write, where package flag says "parse error".
func (a amount) Set(text string) error {
	if a.kind == "duration" {
		if a.Value.Set(text) != nil {
			return errors.New("not a duration; write it with its unit, as in 168h, 30m or 10s")
		}
		return nil
	}
	wrong := errors.New("not a number of bytes; write it as in 65536, 64KiB or 10GiB")
	unit := strings.Index("KiBMiBGiBTiB", text[max(len(text)-3, 0):])
	if unit < 0 || unit%3 != 0 || len(text) < 3 {
		if a.Value.Set(text) != nil {
			return wrong
		}
		return nil
	}
	n, err := strconv.ParseInt(text[:len(text)-3], 10, 64)
	shift := 10 * (unit/3 + 1)
	if err != nil || n<<shift>>shift != n || a.Value.Set(strconv.FormatInt(n<<shift, 10)) != nil {
		return wrong
	}
	return nil
}

// printFlags prints the flags as they are written everywhere else, with two dashes.
func printFlags(flags *flag.FlagSet, out io.Writer) {
	flags.VisitAll(func(f *flag.Flag) {
		kind, usage := flag.UnquoteUsage(f)
		if a, ok := f.Value.(amount); ok {
			kind = a.kind
		}
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
		return UsageError{fmt.Errorf("%s: %w", path, err)}
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for key, value := range keys {
		if flags.Lookup(key) == nil || key == "config" {
			return UsageError{fmt.Errorf("%s: there is no setting %q", path, key)}
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
				return UsageError{fmt.Errorf("%s: invalid value %q for %s: %w", path, fmt.Sprint(v), key, err)}
			}
		}
	}
	return nil
}
