// Chat is rooms to talk in, for browsers: a page, and WebSocket connections beside it on
// the same port. It shows a server that pushes what one client says to all others, and
// clients that come back after an outage and miss nothing.
//
//	go run ./examples/chat -history chat.jsonl
//
// Open http://127.0.0.1:7005/ in two windows, join with two names and talk. Then kill the
// server, write something, and start it again: the page reconnects, sends what waited, and
// gets what it has missed; nothing is lost and nothing comes twice.
//
// The messages of a room are numbered from 1. A page connects with
//
//	GET /socket?room=lobby&name=Ann&history=ID&seen=17
//
// and is sent the messages after the one that it has seen last, those of others as they
// come, and who is there, each as a text of JSON. What it says, {"id": …, "text": …}, comes
// back to it with a number, like everybody else's. If the connection breaks before that,
// the page sends it again, and the server knows it by its id, which the page has chosen.
//
// A room keeps its last 200 messages, or 128 KiB of them. A client that is away for longer
// misses some, and the page says so. Without -history messages are in memory only, and a
// server that is started again begins with none.
//
// A client that does not read is disconnected once 256 KiB wait for it
// (engine.Limits.HardCap). The others do not wait, and it reconnects as after an outage.
// Ctrl-C sends what was said, closes the connections with 1001 (going away), and prints the
// counts.
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
	flag.TextVar(&o.engine, "engine", o.engine, "move bytes with the engine `name` (default "+o.engine.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
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

// serve serves until ctx ends. Then it closes the connections behind what was sent on them;
// who has not read it after drainTime is cut off.
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
