// Command feed is what bench/streams measures of HTTP handlers that flush, on package
// http1 or on net/http:
//
//	GET /feed     sends an event, and nothing more until the client leaves
//	GET /endless  sends 10,000 events without a pause
//	GET /once     sends an event and ends
//	POST /echo    answers with the request's body
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

// netHTTP is the name of net/http among the engines.
const netHTTP = "net/http"

func main() {
	names := []string{engine.Events(engine.Auto).Name(), engine.Events(engine.Offload).Name(), engine.Buffered(0).Name(), netHTTP}
	service.Main(names, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		if o.Engine == netHTTP {
			ready(ln.Addr().String())
			return http.Serve(ln, handler())
		}
		s := &http1.Server{Handler: handler(), Limits: engine.Limits{Conns: o.Conns}}
		if err := s.Engine.UnmarshalText([]byte(o.Engine)); err != nil {
			return err
		}
		ready(ln.Addr().String())
		return s.Serve(ln)
	})
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /feed", func(w http.ResponseWriter, r *http.Request) {
		if sendEvents(w, 1) == nil {
			<-r.Context().Done()
		}
	})
	mux.HandleFunc("GET /endless", func(w http.ResponseWriter, _ *http.Request) { sendEvents(w, 10_000) })
	mux.HandleFunc("GET /once", func(w http.ResponseWriter, _ *http.Request) { sendEvents(w, 1) })
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body) // an error ends the connection
	})
	return mux
}

// sendEvents sends events as a feed does, each with a flush of its own.
func sendEvents(w http.ResponseWriter, n int) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for i := range n {
		if _, err := fmt.Fprintf(w, "id: %d\ndata: event %d of %d\n\n", i+1, i+1, n); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}
