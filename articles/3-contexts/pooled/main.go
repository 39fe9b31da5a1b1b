// Command pooled takes the contexts from a sync.Pool, as echo does.
package main

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/articles/3-contexts/request"
	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	kept atomic.Pointer[request.Context]
	pool sync.Pool
}

func main() {
	counts, s := new(stage.Counts), &server{pool: sync.Pool{New: func() any { return request.New() }}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /customers/{id}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.PathValue("id"), customer) })
	mux.HandleFunc("GET /keep/{id}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.PathValue("id"), s.keep) })
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(s.kept.Load().Param())) })
	stage.Run(counts.Web(mux), counts.Stats)
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, id string, handle func(*request.Context)) {
	c := s.pool.Get().(*request.Context)
	c.Reset(w, r)
	c.SetParam(id)
	handle(c)
	s.pool.Put(c)
}

func customer(c *request.Context) { c.NoContent() }

// keep is a handler that uses its context later, as with a goroutine.
func (s *server) keep(c *request.Context) {
	s.kept.Store(c)
	c.NoContent()
}
