package handover_test

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/hone-go/hone/handover"
)

// A server that a newer process can replace: start the same command again.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sockets := &handover.Sockets{Path: "/run/app/upgrade"}
	if _, err := sockets.Take(ctx); err != nil {
		log.Fatal(err)
	}
	defer sockets.Close()
	ln, err := sockets.Listen(":8080", func() (net.Listener, error) { return net.Listen("tcp", ":8080") })
	if err != nil {
		log.Fatal(err)
	}
	var srv http.Server
	go func() {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Fatal(err) // a process that took over leaves the old one serving
		}
	}()
	if err := sockets.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	select {
	case <-sockets.Yielded():
		ln.Close()
		<-time.After(time.Second) // clients that were just accepted send their request
	case <-ctx.Done():
	}
	srv.Shutdown(context.Background())
}
