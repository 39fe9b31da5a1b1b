// Route is a small JSON service for users' notes. It was written for echo and ported.
// docs/route.md shows a part of it.
//
//	go run ./examples/route
//	curl -X POST -H 'Authorization: ann' -d 'buy milk' 127.0.0.1:7003/users/ann/notes
//	curl -H 'Authorization: ann' 127.0.0.1:7003/users/ann/notes/1
//
// The Authorization header is simply the user's name; a real service would authenticate.
// Ctrl-C answers the requests that have arrived, and finishes the work after responses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// drainTime is how long a shutdown waits for clients to read their answers.
const drainTime = 5 * time.Second

func main() {
	addr := flag.String("addr", "127.0.0.1:7003", "listen on `host:port`; port 0 picks a free one")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "route:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, stdout io.Writer) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	s := &service{log: stdout}
	srv := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintf(stdout, "listening on %v\n", ln.Addr())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err = srv.Shutdown(patience)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	s.late.Wait()
	return err
}
