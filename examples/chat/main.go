// Chat is a chat server with rooms, for browsers: a page, and WebSocket connections on the
// same port. It shows a server that pushes each client's messages to all others, and clients
// that reconnect after an outage without missing messages.
//
//	go run ./examples/chat -history chat.jsonl
//
// Open http://127.0.0.1:7005/ in two windows, join with two names and talk. Then kill the
// server, write something, and start it again: the page reconnects, sends the messages that
// were waiting, and receives those it has missed. None is lost and none appears twice.
//
// The messages of a room are numbered from 1. A page connects with
//
//	GET /socket?room=lobby&name=Ann&history=ID&seen=17
//
// and receives the messages after the last one that it has seen, new messages as they come,
// and the list of people, each as a JSON text. A message that it sends, {"id": …, "text": …},
// comes back with a number, as it does to everybody else. If the connection breaks before
// that, the page sends the message again; the server recognises it by its id, which the page
// has chosen.
//
// A room keeps its last 200 messages, or 128 KiB of them. A client that is away for longer
// misses some, and the page says so. Without -history, messages are in memory only, and a
// restarted server begins with none.
//
// A client that does not read is disconnected once 256 KiB are waiting for it
// (engine.Limits.HardCap). Others do not wait for it, and it reconnects as after an outage. So
// that nobody who reads is disconnected, a client may say 64 KiB at once and 16 KiB per second in
// the long run, and is closed with 1008 (policy violation) above that.
// Ctrl-C sends what has been said, closes the connections with 1001 (going away), and prints
// the counters.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// drainTime is how long a shutdown waits for clients to read what was sent.
const drainTime = 5 * time.Second

// options are the command's flags.
type options struct {
	addr, history string
	engine        engine.Engine
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:7005", "listen on `host:port`; port 0 picks a free one")
	flag.StringVar(&o.history, "history", "", "keep messages in this `file` (default: in memory, until the server ends)")
	flag.TextVar(&o.engine, "engine", o.engine, "serve on the engine `name` (default "+o.engine.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	c, err := newChat(o.history)
	if err != nil {
		return err
	}
	defer c.store.close()
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	srv := &http1.Server{
		Handler: c.handler(),
		Engine:  o.engine,
		Logger:  slog.New(slog.NewTextHandler(stderr, nil)),
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), o.engine.Name())
	err = serve(ctx, srv, ln)
	st := srv.Stats()
	fmt.Fprintf(stderr, "%d connections, %d bytes in, %d bytes out; drained: %d clean, %d forced\n",
		st.Accepted, st.BytesIn, st.BytesOut, st.Drained.Clean, st.Drained.Forced)
	return err
}

// serve serves until ctx ends. Then it closes the connections after everything sent on them.
// It cuts off clients that have not read it after drainTime.
func serve(ctx context.Context, srv *http1.Server, ln net.Listener) error {
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
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
