// Command honed is a message gateway that never loses an acknowledged message. Without
// arguments it serves clients on this machine; see honed --help.
package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"

	"github.com/hone-go/hone/gateway/internal/commandline"
)

const help = `honed is a message gateway that never loses an acknowledged message.

Usage:
  honed [flags]            serve clients until SIGTERM or SIGINT, then drain
  honed verify  [flags]    check the whole log: damage, records stored twice or out of order
  honed export  [flags]    print a line of JSON for each entry of the log: records, session states,
                           readers' positions and others
  honed backup  [flags]    copy the log, of a running honed too, or bring a copy up to date
  honed restore [flags]    make a data folder of a backup
  honed tail    [flags]    print a line of JSON for each record, as it is stored
  honed readers list [flags], honed readers create|move|split|remove NAME [flags]
                           list and change the readers of a running honed
  honed sessions list [flags], honed sessions forget NAME [flags]
                           list and end the sessions of clients of a running honed
  honed clock   [flags]    print the log time of the running honed and how far the wall clock
                           is ahead; honed clock accept makes log time follow it,
                           forward or back
  honed version            print the version

verify, export and backup work beside a running honed and without one, and restore makes the folder
of the next one. tail connects to a running honed; readers, sessions and clock ask it over a socket in its folder.

honed VERB --help lists the flags of a verb. honed --config FILE reads flags from a TOML file:
  listen = ["127.0.0.1:7100"]
  data = "/var/lib/honed"

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
`

// release is the version of a build without version information, such as one from a folder
// without .git. deploy/Dockerfile sets it with the linker flag -X main.release=v1.2.3.
var release = ""

func main() { commandline.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Exit("honed", explain(dispatch(ctx, args, stdout, stderr)), stderr)
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	verb := "serve"
	switch {
	case len(args) == 0:
	case args[0] == "--version":
		verb = "version"
	case args[0] == "" || args[0][0] != '-':
		verb, args = args[0], args[1:]
	}
	do := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"serve": serve, "verify": verify, "export": export,
		"backup": backup, "restore": restore, "clock": clock, "tail": tail, "readers": readers, "sessions": sessions,
	}[verb]
	switch {
	case do != nil:
		if slices.ContainsFunc(args, isHelp) {
			fmt.Fprintln(stdout, usageOf(verb))
		}
		return do(ctx, args, stdout, stderr)
	case verb == "help":
		fmt.Fprint(stdout, help)
		return nil
	case verb == "version":
		fmt.Fprintf(stdout, "honed %s, %s, %s/%s\n", commandline.Version(release), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	return commandline.UsageError{Err: fmt.Errorf("there is no verb %q; use serve, verify, export, backup, restore, tail, readers, sessions, clock or version", verb)}
}

func isHelp(arg string) bool { return arg == "--help" || arg == "-h" || arg == "-help" }

// usageOf returns what the help says of a verb, and all of it for serve.
func usageOf(verb string) string {
	if verb == "serve" {
		return help
	}
	return "Usage:\n" + regexp.MustCompile(`(?m)^  honed `+verb+` .*\n(    .*\n)*`).FindString(help)
}
