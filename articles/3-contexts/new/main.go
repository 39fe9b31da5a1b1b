// Command new makes a context for each request, as the article's echo would without its pool.
package main

import (
	"net/http"
	"sync/atomic"

	"github.com/hone-go/hone/articles/3-contexts/request"
	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	kept atomic.Pointer[request.Context]
}

func main() {
	counts, s := new(stage.Counts), new(server)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /customers/{id}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.PathValue("id"), customer) })
	mux.HandleFunc("GET /keep/{id}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.PathValue("id"), s.keep) })
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(s.kept.Load().Param())) })
	stage.Run(counts.Web(mux), counts.Stats)
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, id string, handle func(*request.Context)) {
	c := request.New()
	c.Reset(w, r)
	c.SetParam(id)
	handle(c)
}

func customer(c *request.Context) { c.NoContent() }

// keep is a handler that uses its context later, as with a goroutine.
func (s *server) keep(c *request.Context) {
	s.kept.Store(c)
	c.NoContent()
}
