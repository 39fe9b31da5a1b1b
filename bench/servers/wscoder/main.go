// Command wscoder echoes with github.com/coder/websocket on net/http.
package main

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		ctx := context.Background() // a request's ends with the upgrade
		var crowd service.Crowd[*websocket.Conn]
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			crowd.Each(func(c *websocket.Conn) { c.Write(ctx, websocket.MessageBinary, message) }) // who is gone is no loss
		}
		mux := http.NewServeMux()
		mux.HandleFunc(web.EchoPath, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			for {
				kind, message, err := c.Read(ctx)
				if err != nil || c.Write(ctx, kind, message) != nil {
					return
				}
			}
		})
		mux.HandleFunc(web.CrowdPath, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			crowd.Add(c)
			defer crowd.Remove(c)
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
			}
		})
		ready(ln.Addr().String())
		return http.Serve(ln, mux)
	})
}
