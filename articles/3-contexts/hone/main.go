// Command hone is the same on package http1 instead of net/http.
package main

import (
	"net/http"
	"sync/atomic"

	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/route"
)

type server struct {
	kept atomic.Pointer[route.Ctx]
}

func main() {
	s := new(server)
	mux := new(route.Mux)
	mux.HandleCtx("GET /customers/{id}", customer)
	mux.HandleCtx("GET /keep/{id}", s.keep)
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(s.kept.Load().Param("id"))) })
	on := &http1.Server{Handler: mux}
	stage.Run(on.Serve, func() engine.Stats { return on.Stats().Stats })
}

func customer(c route.Ctx) error { return c.NoContent(http.StatusNoContent) }

// keep is a handler that uses its context later, as with a goroutine.
func (s *server) keep(c route.Ctx) error {
	s.kept.Store(&c)
	return c.NoContent(http.StatusNoContent)
}
