// Workers answers three kinds of requests: one computes, one waits for another server, and
// one does both. It shows slow handlers: they run on a worker pool with an adaptive limit and
// reply later, so that the connection can go on with its other requests.
//
//	go run ./examples/workers
//
// A Submit packet is "compute TEXT", "ask TEXT" or "mixed TEXT". The reply to the first is the
// text's SHA-256 after some thousand rounds; to the second the text, 5 ms later; to the third
// both. If the pool's queue is full, the answer is overloaded (5), at once.
//
// Ctrl-C answers what has been sent, closes, and prints how the limit moved and why.
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
	"github.com/hone-go/hone/workers"
)

// drainTime is how long a shutdown waits for tasks, and for clients to read their answers.
const drainTime = 5 * time.Second

func main() {
	var how engine.Engine
	addr := flag.String("addr", "127.0.0.1:7002", "listen on `host:port`; port 0 picks a free one")
	limit := flag.Int("limit", 0, "run at most `n` requests at once; 0 adapts the limit")
	flag.TextVar(&how, "engine", how, "serve on the engine `name` (default "+how.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o := workers.Options{Limit: workers.Auto(workers.AutoOptions{})}
	if *limit > 0 {
		o.Limit = workers.Fixed(*limit)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, *addr, how, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it answers what has been sent: the server drains first,
// because its requests need the pool.
func run(ctx context.Context, addr string, how engine.Engine, o workers.Options, stdout, stderr io.Writer) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	b := newBureau(o)
	srv := b.server(how)
	srv.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), how.Name())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err = <-served:
		srv.Close()
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err == nil {
		err = srv.Shutdown(patience)
		<-served
	}
	if closing := b.pool.Close(patience); err == nil {
		err = closing
	}
	b.report(stderr)
	return err
}
