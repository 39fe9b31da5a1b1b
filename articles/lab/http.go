package lab

import (
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/tool/load"
)

// onStd serves a handler with net/http as most programs do: without limits.
func onStd(handler http.Handler) *stage {
	server := &http.Server{Handler: handler}
	return &stage{serve: server.Serve, stop: func() { server.Close() }}
}

// onHTTP1 serves the same handler with http1 and all of its limits except the number of
// connections.
func onHTTP1(handler http.Handler) *stage {
	server := &http1.Server{Handler: handler, Limits: engine.Limits{Conns: -1}}
	return &stage{serve: server.Serve, stop: func() { server.Close() }}
}

// webPlan returns the load on an HTTP server.
func (b *bench) webPlan(p *process, path string) load.Plan {
	return load.Plan{Target: load.HTTP{URL: "http://" + p.addr + path}, Conns: quickly(b, 20, 100), Depth: 1,
		For: quickly(b, 100*time.Millisecond, time.Second), Warmup: quickly(b, 20*time.Millisecond, 300*time.Millisecond)}
}
