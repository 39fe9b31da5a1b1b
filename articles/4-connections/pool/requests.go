package pool

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Request sends "test" and expects "TEST".
func Request(conn net.Conn) error {
	if _, err := conn.Write([]byte("test")); err != nil {
		return err
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != "TEST" {
		return fmt.Errorf("answered %q", answer)
	}
	return nil
}

// Flags are the client's settings.
type Flags struct {
	Addr              string
	Requests, Workers int
}

// Define adds the flags.
func (f *Flags) Define() {
	flag.StringVar(&f.Addr, "addr", "127.0.0.1:8888", "the server's `HOST:PORT`")
	flag.IntVar(&f.Requests, "requests", 500_000, "how many requests")
	flag.IntVar(&f.Workers, "workers", 2000, "how many goroutines send them")
}

// Result is what Run prints.
type Result struct {
	Requests int     `json:"requests"`
	Failed   int64   `json:"failed"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"rate"`
	Dials    int64   `json:"dials"`
}

// Run has goroutines send the requests, handed out by one as in the article, and prints a Result as JSON.
// It counts until the last answer; the article stops its clock when a goroutine takes the last request.
func (f *Flags) Run(request func() error, dials func() int64) {
	work := make(chan struct{})
	var workers sync.WaitGroup
	var failed atomic.Int64
	began := time.Now()
	for range f.Workers {
		workers.Go(func() {
			for range work {
				if err := request(); err != nil && failed.Add(1) == 1 {
					log.Print("the first failure: ", err)
				}
			}
		})
	}
	for range f.Requests {
		work <- struct{}{}
	}
	close(work)
	workers.Wait()
	took := time.Since(began).Seconds()
	json.NewEncoder(os.Stdout).Encode(Result{f.Requests, failed.Load(), took, float64(f.Requests) / took, dials()})
}
