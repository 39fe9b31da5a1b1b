// Rooms are chat rooms that keep the order of messages in large rooms, for browsers and for clients that
// speak frames. README.md explains them. Start the server, and a client in each of two other terminals:
//
//	go run ./examples/rooms -frames 127.0.0.1:8083
//	go run ./examples/rooms -join 'ws://127.0.0.1:8082/rooms/lobby?name=Ada'
//	go run ./examples/rooms -join 'tcp://127.0.0.1:8083/rooms/lobby?name=Ben'
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8082", "listen on `host:port`; port 0 picks a free one")
	names := flag.String("rooms", "lobby,news", "the `names` of the rooms")
	frames := flag.String("frames", "", "also listen for frames, on `host:port`")
	address := flag.String("join", "", "join the room at `URL`, of ws or tcp: say what is typed and print what is said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("unexpected arguments")
	switch {
	case flag.NArg() > 0:
	case strings.HasPrefix(*address, "tcp:"):
		err = joinFrames(ctx, *address, os.Stdin, os.Stdout)
	case *address != "":
		err = join(ctx, *address, os.Stdin, os.Stdout)
	default:
		err = run(ctx, *addr, *frames, strings.Split(*names, ","), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Without an address for frames it serves browsers alone.
func run(ctx context.Context, addr, frames string, names []string, stdout io.Writer) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr", err)
	}
	fmt.Fprintf(stdout, "listening on %v\n", ln.Addr())
	all := newRooms(names...)
	web := &http1.Server{Handler: all.handler(), Std: &http.Server{ErrorLog: log.Default()}}
	members := all.framesServer()
	served := make(chan error, 2)
	var sides sync.WaitGroup
	if frames != "" {
		beside, err := net.Listen("tcp", frames)
		if err != nil {
			ln.Close()
			return fmt.Errorf("%w; choose another address with -frames", err)
		}
		fmt.Fprintf(stdout, "frames on %v\n", beside.Addr())
		sides.Go(func() { served <- members.Serve(beside) })
	}
	sides.Go(func() { served <- web.Serve(ln) })
	select {
	case err = <-served:
		web.Close()
		members.Close()
	case <-ctx.Done():
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err = errors.Join(web.Shutdown(patience), members.Shutdown(patience))
		cancel()
	}
	sides.Wait()
	all.running.Wait()
	return err
}

// join is a client: it says each line of in and prints what it is sent, until in has ended and then
// the room is silent for a second.
func join(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	c, err := websocket.Dial(ctx, url, websocket.Options{})
	if err != nil {
		return err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(time.Hour, cancel)
	defer silent.Stop()
	var ended atomic.Bool
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if c.Write(ctx, websocket.Text, lines.Bytes()) != nil {
				return // Read says why
			}
		}
		ended.Store(true)
		silent.Reset(time.Second)
	}()
	for {
		_, event, err := c.Read(reading, nil)
		switch {
		case err == nil:
			fmt.Fprintf(out, "%s\n", event)
		case reading.Err() != nil:
			return c.Close(websocket.NormalClosure, "")
		default:
			return err
		}
		if ended.Load() {
			silent.Reset(time.Second)
		}
	}
}
