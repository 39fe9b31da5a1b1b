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

	"github.com/hone-go/hone/tool/exit"
)

func main() {
	// The registration stays until the end: commands that have a use for a
	// second signal listen for it themselves, and all others end by themselves
	// soon after the first.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup means that it is
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
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
		return exit.OK
	}
	end := new(exit.Error)
	if !errors.As(err, &end) {
		end = &exit.Error{Code: exit.Usage, Err: err} // nothing of ours has run
	}
	if end.Err != nil {
		fmt.Fprintln(stderr, "hone:", end.Err)
	}
	return end.Code
}
