// Resp is a small Redis: PING, ECHO, GET, SET, DEL, INCR, PUBLISH, SUBSCRIBE, UNSUBSCRIBE and QUIT, for
// the clients of Redis. docs/writing-a-protocol.md explains it.
//
//	go run ./examples/resp
//	redis-cli -p 7002 set greeting hello
//	redis-benchmark -p 7002 -t set,get -n 100000 -P 16
//
// Ctrl-C answers what has been sent, closes the connections, and prints the counters.
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

// drainTime is how long a shutdown waits for clients to read their answers.
const drainTime = 5 * time.Second

func main() {
	var how engine.Engine
	addr := flag.String("addr", "127.0.0.1:7002", "listen on `host:port`; port 0 picks a free one")
	memory := flag.Int64("memory", 256<<20, "the most `bytes` that keys and values may take")
	flag.TextVar(&how, "engine", how, "serve on the engine `name` (default "+how.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, *addr, how, *memory, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, how engine.Engine, memory int64, stdout, stderr io.Writer) error {
	srv := newServer(how, memory)
	srv.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), how.Name())
	err = serve(ctx, srv, ln)
	st := srv.Stats()
	fmt.Fprintf(stderr, "%d connections, %d commands, %d bytes in, %d bytes out; drained: %d clean, %d forced\n",
		st.Accepted, st.Requests, st.BytesIn, st.BytesOut, st.Drained.Clean, st.Drained.Forced)
	return err
}

// newServer runs the protocol on an engine.
func newServer(how engine.Engine, memory int64) *engine.Server {
	limits := engine.Limits{
		FrameSize: 1 << 20,
		IdleTime:  time.Hour, // subscribers are silent, and clients of Redis send no pings
		InFlight:  1,         // commands have no ids, so answers must keep their order
	}
	return &engine.Server{
		Protocol: Protocol{Most: limits.FrameSize, Store: newStore(memory), Hub: newHub()},
		Engine:   how,
		Limits:   limits,
	}
}

// serve serves until ctx ends. Then it answers what has been sent and closes. It cuts off
// clients that have not read their answers after drainTime.
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
