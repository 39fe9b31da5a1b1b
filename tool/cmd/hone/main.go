// Command hone serves, loads and compares hone's servers. Run it without arguments to see
// its commands.
//
// It is wiring: flags become values of the packages that do the work, and their results
// become text or JSON. Standard output holds only a command's result; progress and logs
// go to standard error.
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
	// The registration stays until the end: commands that act on a second signal listen
	// for it themselves, and all others end soon after the first.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; the first signal cancels ctx.
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
		end = &exit.Error{Code: exit.Usage, Err: err} // cobra refused the command line; no command has run
	}
	if end.Err != nil {
		fmt.Fprintln(stderr, "hone:", end.Err)
	}
	return end.Code
}
