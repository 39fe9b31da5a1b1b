// Command wsgorilla echoes with github.com/gorilla/websocket on net/http.
package main

import (
	"net"
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		var crowd service.Crowd[*websocket.Conn]
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			prepared, err := websocket.NewPreparedMessage(websocket.BinaryMessage, message)
			if err != nil {
				panic(err) // there is none
			}
			crowd.Each(func(c *websocket.Conn) { c.WritePreparedMessage(prepared) }) // who is gone is no loss
		}
		var upgrader websocket.Upgrader
		mux := http.NewServeMux()
		mux.HandleFunc(web.EchoPath, func(w http.ResponseWriter, r *http.Request) {
			c, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer c.Close()
			for {
				kind, message, err := c.ReadMessage()
				if err != nil || c.WriteMessage(kind, message) != nil {
					return
				}
			}
		})
		mux.HandleFunc(web.CrowdPath, func(w http.ResponseWriter, r *http.Request) {
			c, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer c.Close()
			crowd.Add(c)
			defer crowd.Remove(c)
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
			}
		})
		ready(ln.Addr().String())
		return http.Serve(ln, mux)
	})
}
