// Command server is net/http or http1 with the same handlers, as a process of its own that
// tests can attack and measure. Its first line on standard output is its address; it ends
// with its standard input.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/hone-go/hone/http1"
)

func main() {
	name := flag.String("engine", "net/http", "net/http, or the `name` of the engine of http1")
	flag.Parse()
	if err := run(*name); err != nil {
		log.Fatal(err)
	}
}

func run(name string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	std := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	serve, shutdown := std.Serve, std.Shutdown
	stats := func() any { return struct{}{} }
	if name != "net/http" {
		s := &http1.Server{Std: std}
		if err := s.Engine.UnmarshalText([]byte(name)); err != nil {
			return err
		}
		serve, shutdown = s.Serve, s.Shutdown
		stats = func() any { return s.Stats() }
	}
	register(mux, stats)
	fmt.Println("listening on", ln.Addr())
	ended := make(chan error, 1)
	go func() { ended <- serve(ln) }()
	gone := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(gone)
	}()
	select {
	case err := <-ended:
		return err
	case <-gone:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func register(mux *http.ServeMux, stats func() any) {
	large := make([]byte, 1<<20)
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		w.Write(large)
	})
	mux.HandleFunc("GET /sleep", func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(d)
		io.WriteString(w, "slept")
	})
	mux.HandleFunc("POST /upload", upload)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(stats()) })
}

// upload hashes the first file of a form.
func upload(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	part, err := form.NextPart()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.New()
	n, err := io.Copy(sum, part)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %d %s", part.FileName(), n, hex.EncodeToString(sum.Sum(nil)))
}
