// Package command is what the commands have in common: signals, exit codes, what is wrong
// with a command line, and the version of a build.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/spec"
)

// Main is the whole of a program: it runs root, and exits with the code of its outcome.
// The first signal cancels the context of the command that runs.
func Main(root *cobra.Command) {
	// The registration stays until the end: commands that act on a second signal listen
	// for it themselves, and all others end soon after the first.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := Run(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs root with args, prints the line of an error, and returns the exit code.
// Errors begin with the command's name, and here those of a subcommand get root's in front.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.OK
	}
	end := new(exit.Error)
	if !errors.As(err, &end) {
		end = &exit.Error{Code: exit.Usage, Err: err} // cobra refused the command line; no command has run
	}
	switch {
	case end.Err == nil:
	case root.HasAvailableSubCommands():
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), end.Err)
	default:
		fmt.Fprintln(stderr, end.Err)
	}
	return end.Code
}

// Self returns the path of the running program. Without /proc, as in a chroot, it is found the way
// the shell finds it.
func Self() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		return exe, nil
	}
	if exe, err2 := exec.LookPath(os.Args[0]); err2 == nil {
		return filepath.Abs(exe)
	}
	return "", err
}

// NoArguments refuses arguments other than flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("target") != nil {
		return exit.Usagef("%s: unexpected argument %q; a target is --target %[2]s", cmd.Name(), args[0])
	}
	return exit.Usagef("%s: unexpected argument %q; see %s --help", cmd.Name(), args[0], cmd.CommandPath())
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
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		if ours := othersWord(cmd, dashes+name); ours != "" {
			return exit.Usagef("%s: unknown flag %s%s; in hone: %s", cmd.Name(), dashes, name, ours)
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
		if ours := meant(cmd, invalid.GetFlag().Shorthand, invalid.GetValue()); ours != "" {
			return exit.Usagef("%s: -%s%s; in hone: %s", cmd.Name(), invalid.GetFlag().Shorthand, invalid.GetValue(), ours)
		}
		return exit.Usagef("%s: --%s %q: %s", cmd.Name(), invalid.GetFlag().Name, invalid.GetValue(), spec.WhyInvalid(invalid))
	}
	return exit.Usagef("%s: %w; %s", cmd.Name(), err, help)
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}
