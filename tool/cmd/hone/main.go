// Command hone serves, loads and races hone's servers. Run it without
// arguments to see its commands.
//
// It is wiring: flags become values of the packages that do the work, and what
// those return becomes text or JSON. Standard output holds a command's result
// and nothing else; progress and logs go to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // failed, or unreachable
	exitUsage       = 2
	exitMissed      = 3 // a goal was missed
	exitInvalid     = 4 // the run says nothing
	exitInterrupted = 130
)

func main() {
	// The registration stays until the end: commands that have a use for a
	// second signal listen for it themselves, and all others end by themselves
	// soon after the first.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; ctx ends with the first signal.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	end := new(failure)
	if !errors.As(err, &end) {
		end = &failure{exitUsage, err} // nothing of ours has run
	}
	if end.err != nil {
		fmt.Fprintln(stderr, "hone:", end.err)
	}
	return end.code
}

// failure is the end of a command that is not exit code 0.
type failure struct {
	code int
	err  error // nil when everything has been said
}

// Error returns what is still to be said.
func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// wrongUse is the failure of a command line that cannot be.
func wrongUse(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// failed is the failure of a command that could not do its work.
func failed(format string, args ...any) error {
	return &failure{exitFailed, fmt.Errorf(format, args...)}
}
