// Gateway carries messages between devices. It shows a server that pushes: who
// is logged in, messages to others than who asked, and handlers wrapped around
// handlers (for authentication, timing and recovery).
//
// See it work, with three devices in the same process:
//
//	go run ./examples/gateway -demo
//
// Or start it for your own devices, written with framed.Dial or, in another
// language, after docs/protocol.md:
//
//	go run ./examples/gateway -secret sesame
//
// A device logs in with a Conn packet, "NAME SECRET". A Submit packet
// "to NAME text" reaches that device as a Deliver packet, "from NAME text", and
// is answered OK; or unauthorised (6) before the login, malformed (2) when it is
// no "to NAME text", and 100 when there is no such device. A second login under
// a name replaces the first. An empty Conn packet now and then is the heartbeat.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// drainTime is how long a shutdown waits for answers to be read.
const drainTime = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run is the whole program: it serves until ctx ends, or shows the demo.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:7000", "listen on `host:port`; port 0 picks a free one")
	secret := flags.String("secret", "sesame", "the `word` that devices log in with")
	showDemo := flags.Bool("demo", false, "let three devices talk to each other on a free port, and end")
	how := engineFlag(flags)
	if err := parse(flags, args, stdout); err != nil {
		return err
	}
	g := newGateway(*secret, slog.New(slog.NewTextHandler(stderr, nil)))
	srv := g.server(*how)
	if *showDemo {
		return demo(ctx, g, srv, stdout)
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), how.Name())
	drained, err := serve(ctx, srv, ln)
	report(stderr, g, srv)
	fmt.Fprintf(stderr, "drained: %d clean, %d forced\n", drained.Clean, drained.Forced)
	return err
}

// serve serves until ctx ends. Then it answers what was sent and closes; who has
// not read the answers after drainTime is cut off.
func serve(ctx context.Context, srv *framed.Server, ln net.Listener) (engine.Drained, error) {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		srv.Close()
		return engine.Drained{}, err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	drained, err := srv.Shutdown(patience)
	<-served
	return drained, err
}
