// Gateway carries messages between devices. It shows a server that pushes: it tracks who is
// logged in, sends messages to clients other than the sender, and wraps handlers in handlers
// (for authentication, timing and recovery).
//
// See it work, with three devices in the same process:
//
//	go run ./examples/gateway -demo
//
// Or start it for your own devices, written with framed.Dial or, in another language,
// according to docs/protocol.md:
//
//	go run ./examples/gateway -secret sesame
//
// A device logs in with a Conn packet, "NAME SECRET". A Submit packet "to NAME text" reaches
// that device as a Deliver packet, "from NAME text". Its answer is OK; unauthorised (6) before
// the login; malformed (2) unless it has the form "to NAME text"; or 100 if there is no such
// device. A second login under the same name replaces the first. An empty Conn packet from
// time to time is the heartbeat.
package main

import (
	"context"
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

// drainTime is how long a shutdown waits for clients to read their answers.
const drainTime = 5 * time.Second

// options are the command's flags.
type options struct {
	addr, secret string
	demo         bool
	engine       engine.Engine
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:7000", "listen on `host:port`; port 0 picks a free one")
	flag.StringVar(&o.secret, "secret", "sesame", "the `word` that devices log in with")
	flag.BoolVar(&o.demo, "demo", false, "let three devices talk to each other on a free port, then exit")
	flag.TextVar(&o.engine, "engine", o.engine, "serve on the engine `name` (default "+o.engine.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or runs the demo.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	g := newGateway(o.secret, slog.New(slog.NewTextHandler(stderr, nil)))
	srv := g.server(o.engine)
	if o.demo {
		return demo(ctx, g, srv, stdout)
	}
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), o.engine.Name())
	err = serve(ctx, srv, ln)
	report(stderr, g, srv)
	drained := srv.Stats().Drained
	fmt.Fprintf(stderr, "drained: %d clean, %d forced\n", drained.Clean, drained.Forced)
	return err
}

// serve serves until ctx ends. Then it answers what has been sent and closes. It cuts off
// clients that have not read their answers after drainTime.
func serve(ctx context.Context, srv *framed.Server, ln net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		srv.Close()
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(patience)
	<-served
	return err
}
