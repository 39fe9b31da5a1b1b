// Command ws echoes with hone's package websocket on http1, with all of their default limits
// but the number of connections.
package main

import (
	"context"
	"net"
	"net/http"
	"slices"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

func main() {
	service.Main([]string{engine.Events(engine.Auto).Name()}, func(o service.Options, ready func(string)) error {
		echo := &websocket.Upgrader{
			Message: func(_ websocket.Call, dst, message []byte) ([]byte, error) { return append(dst, message...), nil },
		}
		var crowd service.Crowd[websocket.Conn]
		listen := &websocket.Upgrader{
			Open: func(c websocket.Conn, _ *http.Request) error {
				crowd.Add(c)
				return nil
			},
			Closed:  func(c websocket.Conn, _ websocket.Code, _ engine.Reason) { crowd.Remove(c) },
			Message: func(websocket.Call, []byte, []byte) ([]byte, error) { return nil, nil },
		}
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			websocket.Broadcast(context.Background(), slices.Values(crowd.List()), websocket.Prepare(websocket.Binary, message, nil))
		}
		mux := http.NewServeMux()
		mux.Handle(web.EchoPath, echo)
		mux.Handle(web.CrowdPath, listen)
		s := &http1.Server{Handler: mux, Limits: engine.Limits{Conns: o.Conns}, Std: new(http.Server)}
		if err := s.Engine.UnmarshalText([]byte(o.Engine)); err != nil {
			return err
		}
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		return s.Serve(ln)
	})
}
