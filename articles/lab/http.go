package lab

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/websocket"
)

// What the HTTP servers answer, and at which paths.
const (
	helloPath = "/hello"
	hello     = "Hello, World!"
	echoPath  = "/echo"
)

const (
	stdStage   = "nethttp"
	http1Stage = "http1"
	wsStdStage = "websocket-nethttp"
	wsHTTP1    = "websocket-http1"
)

// greet is the handler that all servers with net/http's interface use.
func greet(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != helloPath {
		http.NotFound(w, r)
		return
	}
	io.WriteString(w, hello)
}

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

func echoes() *websocket.Upgrader {
	return &websocket.Upgrader{
		Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil },
		Limits:  engine.Limits{Conns: -1},
	}
}

// socketsOnStd is websocket on net/http: connections are hijacked, with one goroutine
// each.
func socketsOnStd() *stage {
	sockets := echoes()
	s := onStd(sockets)
	closeServer := s.stop
	s.stop = func() {
		closeServer()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // do not wait for connections
		sockets.Shutdown(ctx)
	}
	return s
}

func httpStages() map[string]func() (*stage, error) {
	return map[string]func() (*stage, error){
		stdStage:   func() (*stage, error) { return onStd(http.HandlerFunc(greet)), nil },
		http1Stage: func() (*stage, error) { return onHTTP1(http.HandlerFunc(greet)), nil },
		wsStdStage: func() (*stage, error) { return socketsOnStd(), nil },
		wsHTTP1:    func() (*stage, error) { return onHTTP1(echoes()), nil },
	}
}

// webPlan returns the load on an HTTP server.
func (b *bench) webPlan(p *process, path string) load.Plan {
	return load.Plan{Target: load.HTTP{URL: "http://" + p.addr + path}, Conns: quickly(b, 20, 100), Depth: 1,
		For: quickly(b, 100*time.Millisecond, time.Second), Warmup: quickly(b, 20*time.Millisecond, 300*time.Millisecond)}
}
