// Command wsnbio echoes with github.com/lesismal/nbio's package websocket, on its own server.
package main

import (
	"errors"
	"net/http"

	"github.com/lesismal/nbio/nbhttp"
	"github.com/lesismal/nbio/nbhttp/websocket"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"pollers"}, func(o service.Options, ready func(string)) error {
		var crowd service.Crowd[*websocket.Conn]
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			crowd.Each(func(c *websocket.Conn) { c.WriteMessage(websocket.BinaryMessage, message) }) // who is gone is no loss
		}
		echo := websocket.NewUpgrader()
		echo.OnMessage(func(c *websocket.Conn, kind websocket.MessageType, message []byte) { c.WriteMessage(kind, message) })
		listen := websocket.NewUpgrader()
		listen.OnOpen(crowd.Add)
		listen.OnClose(func(c *websocket.Conn, _ error) { crowd.Remove(c) })
		mux := http.NewServeMux()
		mux.HandleFunc(web.EchoPath, func(w http.ResponseWriter, r *http.Request) { echo.Upgrade(w, r, nil) })
		mux.HandleFunc(web.CrowdPath, func(w http.ResponseWriter, r *http.Request) { listen.Upgrade(w, r, nil) })
		engine := nbhttp.NewEngine(nbhttp.Config{Network: "tcp", Addrs: []string{o.Addr}, Handler: mux, NPoller: o.Loops, MaxLoad: o.Conns})
		if err := engine.Start(); err != nil {
			return err
		}
		ready(o.Addr)
		engine.Wait()
		return errors.New("the engine has ended")
	})
}
