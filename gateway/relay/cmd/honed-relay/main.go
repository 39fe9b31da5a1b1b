// Command honed-relay takes the messages of a honed to another system: standard output, a webhook,
// PostgreSQL or Kafka. See honed-relay --help.
package main

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/hone-go/hone/gateway/internal/commandline"
)

const help = `honed-relay takes the messages of a honed to another system.

Usage:
  honed-relay --from READER --addr HOST:PORT --to DESTINATION [flags]
                                  relay until SIGTERM or SIGINT
  honed-relay dead list [flags]   list the messages that the destination refused, --json with their data
  honed-relay dead retry NUMBER…  deliver them again, and what waits behind them
  honed-relay dead drop NUMBER…   give refused ones up; what waits behind them is delivered
  honed-relay version             print the version

Destinations:
  stdout                                    one line of JSON for each message
  https://HOST/PATH, http://HOST/PATH       a webhook
  postgres://USER@HOST/DATABASE             a table, exactly once
  kafka://HOST:PORT,HOST:PORT/TOPIC         a topic; the key is the client

The verbs of dead work while the relay runs and while it does not. A file for --config may set any flag:
  from = "billing"
  addr = ["127.0.0.1:7100"]
  to = "postgres://billing@db/billing"

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
`

// release is the version of a build without version information, such as one from a folder
// without .git. deploy/Dockerfile sets it with the linker flag -X main.release=v1.2.3.
var release = ""

func main() { commandline.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Exit("honed-relay", dispatch(ctx, args, stdout, stderr), stderr)
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	verb := "help"
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "help", "--help", "-h", "-help":
		fmt.Fprint(stdout, help)
		if verb == "help" {
			return nil
		}
		fmt.Fprintln(stdout)
		return serve(ctx, []string{"--help"}, stdout, stderr)
	case "version", "--version":
		fmt.Fprintf(stdout, "honed-relay %s, %s, %s/%s\n", commandline.Version(release), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	case "dead":
		return dead(ctx, args[1:], stdout, stderr)
	}
	if verb != "" && verb[0] == '-' {
		return serve(ctx, args, stdout, stderr)
	}
	return commandline.UsageError{Err: fmt.Errorf("there is no verb %q; use dead or version, or only flags", verb)}
}
