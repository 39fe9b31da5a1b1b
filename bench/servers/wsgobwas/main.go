// Command wsgobwas echoes with github.com/gobwas/ws on net/http, a goroutine for each
// connection, as its manual begins.
package main

import (
	"net"
	"net/http"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		var crowd service.Crowd[net.Conn]
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			frame := ws.MustCompileFrame(ws.NewBinaryFrame(message))
			crowd.Each(func(c net.Conn) { c.Write(frame) }) // who is gone is no loss
		}
		mux := http.NewServeMux()
		mux.HandleFunc(web.EchoPath, func(w http.ResponseWriter, r *http.Request) {
			c, _, _, err := ws.UpgradeHTTP(r, w)
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					message, op, err := wsutil.ReadClientData(c)
					if err != nil || wsutil.WriteServerMessage(c, op, message) != nil {
						return
					}
				}
			}()
		})
		mux.HandleFunc(web.CrowdPath, func(w http.ResponseWriter, r *http.Request) {
			c, _, _, err := ws.UpgradeHTTP(r, w)
			if err != nil {
				return
			}
			crowd.Add(c)
			go func() {
				defer c.Close()
				defer crowd.Remove(c)
				for {
					if _, _, err := wsutil.ReadClientData(c); err != nil {
						return
					}
				}
			}()
		})
		ready(ln.Addr().String())
		return http.Serve(ln, mux)
	})
}
