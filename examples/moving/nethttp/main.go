// Nethttp is a web service that was written for net/http, ported to package http1. before.txt
// is the original; docs/http1.md shows the three lines that differ.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/hone-go/hone/http1"
)

func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "Hello, "+r.PathValue("name")+"!\n")
	})
	mux.HandleFunc("POST /upper", upper)
	return mux
}

func main() {
	std := &http.Server{Addr: "127.0.0.1:8080", Handler: newMux(), ReadHeaderTimeout: 5 * time.Second}
	srv := &http1.Server{Std: std}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() { drained <- srv.Shutdown(context.Background()) })
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-drained; err != nil {
		log.Fatal(err)
	}
}
