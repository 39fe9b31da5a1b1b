// Package stage runs the articles' servers: each is a command of its own with the article's port, its
// three figures and its profiles.
package stage

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/observe"
)

// Counts are the three figures that the first article draws.
type Counts struct {
	Connected      atomic.Int64
	Received, Sent atomic.Uint64
}

// Stats returns the counts in the form that package observe exports: hone_connections,
// hone_requests_received_total and hone_responses_sent_total.
func (c *Counts) Stats() engine.Stats {
	sent := c.Sent.Load() // first, so that it is not ahead
	received := c.Received.Load()
	return engine.Stats{Engine: "article", Open: int(c.Connected.Load()), Requests: received, Owed: int(received - sent)}
}

// Web serves a handler with net/http, and counts.
func (c *Counts) Web(handler http.Handler) func(net.Listener) error {
	counted := func(w http.ResponseWriter, r *http.Request) {
		c.Received.Add(1)
		defer c.Sent.Add(1)
		handler.ServeHTTP(w, r)
	}
	return (&http.Server{Handler: http.HandlerFunc(counted), ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.Connected.Add(1)
		case http.StateClosed, http.StateHijacked:
			c.Connected.Add(-1)
		}
	}}).Serve
}

// Run serves on --addr until a signal, and metrics and profiles on --admin. It prints both addresses as
// JSON.
func Run(serve func(net.Listener) error, stats func() engine.Stats) {
	addr := flag.String("addr", "127.0.0.1:8888", "serve on `HOST:PORT`")
	admin := flag.String("admin", "127.0.0.1:8889", "metrics and profiles on `HOST:PORT`, or off")
	flag.Parse()
	if err := run(*addr, *admin, serve, stats); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(addr, admin string, serve func(net.Listener) error, stats func() engine.Stats) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	ready := map[string]string{"addr": ln.Addr().String()}
	if admin != "off" {
		side := &observe.Admin{Stats: stats}
		private, err := side.Listen(admin)
		if err != nil {
			return err
		}
		defer private.Close()
		go side.Serve(private) // until the process ends
		ready["admin"] = private.Addr().String()
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return serve(ln)
}
