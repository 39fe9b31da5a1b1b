// Command route has contexts that refuse to be used after their request.
package main

import (
	"net/http"
	"sync/atomic"

	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/route"
)

type server struct {
	kept atomic.Pointer[route.Ctx]
}

func main() {
	counts, s := new(stage.Counts), new(server)
	mux := new(route.Mux)
	mux.HandleCtx("GET /customers/{id}", customer)
	mux.HandleCtx("GET /keep/{id}", s.keep)
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(s.kept.Load().Param("id"))) })
	stage.Run(counts.Web(mux), counts.Stats)
}

func customer(c route.Ctx) error { return c.NoContent(http.StatusNoContent) }

// keep is a handler that uses its context later, as with a goroutine.
func (s *server) keep(c route.Ctx) error {
	s.kept.Store(&c)
	return c.NoContent(http.StatusNoContent)
}
