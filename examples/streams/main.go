// Streams takes uploads, makes downloads and sends events, on one port. It shows visits
// that wait: streams.go is all that a protocol needs to stream in both directions at the
// peer's pace, on every engine.
//
//	put BYTES  is followed by the bytes; the answer is their CRC-32 (IEEE)
//	get BYTES  is answered with the number in a line, and the bytes, made on the way
//	feed MS    is answered with "feed"; then an event comes every MS milliseconds,
//	           between other answers, until the client leaves
//
// Start it, and upload, download and listen with nc:
//
//	go run ./examples/streams
//	(echo put 11; printf 'hello world') | nc -N 127.0.0.1 7004
//	echo get 1000000 | nc -N 127.0.0.1 7004 | wc -c
//	(echo feed 1000; cat) | nc 127.0.0.1 7004
//
// Ctrl-C ends the feeds, lets streams end in peace, closes, and prints the counts.
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
)

// drainTime is how long a shutdown waits for streams to end.
const drainTime = 5 * time.Second

func main() {
	var how engine.Engine
	addr := flag.String("addr", "127.0.0.1:7004", "listen on `host:port`; port 0 picks a free one")
	flag.TextVar(&how, "engine", how, "move bytes with the engine `name` (default "+how.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	if err := run(ctx, *addr, how, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, how engine.Engine, stdout, stderr io.Writer) error {
	srv := &engine.Server{
		Protocol: Protocol{Running: ctx},
		Engine:   how,
		Logger:   slog.New(slog.NewTextHandler(stderr, nil)),
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), how.Name())
	err = serve(ctx, srv, ln)
	st := srv.Stats()
	fmt.Fprintf(stderr, "%d connections, %d commands, %d events, %d bytes in, %d bytes out; drained: %d clean, %d forced\n",
		st.Accepted, st.Requests, st.Pushes, st.BytesIn, st.BytesOut, st.Drained.Clean, st.Drained.Forced)
	return err
}

// serve serves until ctx ends. Then it lets streams end and closes; those that have not
// ended after drainTime are cut off.
func serve(ctx context.Context, srv *engine.Server, ln net.Listener) error {
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
