// Command wsgws echoes with github.com/lxzan/gws on net/http.
package main

import (
	"net"
	"net/http"

	"github.com/lxzan/gws"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

// echo answers every message.
type echo struct{ gws.BuiltinEventHandler }

func (echo) OnPing(c *gws.Conn, payload []byte) { c.WritePong(payload) }

func (echo) OnMessage(c *gws.Conn, message *gws.Message) {
	defer message.Close()
	c.WriteMessage(message.Opcode, message.Bytes())
}

// listeners are pushed to.
type listeners struct {
	gws.BuiltinEventHandler
	crowd *service.Crowd[*gws.Conn]
}

func (l listeners) OnOpen(c *gws.Conn)                  { l.crowd.Add(c) }
func (l listeners) OnClose(c *gws.Conn, _ error)        { l.crowd.Remove(c) }
func (l listeners) OnPing(c *gws.Conn, payload []byte)  { c.WritePong(payload) }
func (listeners) OnMessage(_ *gws.Conn, m *gws.Message) { m.Close() }

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		var crowd service.Crowd[*gws.Conn]
		o.Pusher.Count, o.Pusher.Push = crowd.Len, func(message []byte) {
			all := gws.NewBroadcaster(gws.OpcodeBinary, message)
			defer all.Close()
			crowd.Each(func(c *gws.Conn) { all.Broadcast(c) }) // who is gone is no loss
		}
		serve := func(upgrader *gws.Upgrader) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if c, err := upgrader.Upgrade(w, r); err == nil {
					go c.ReadLoop() // so that what net/http has for the request is let go of
				}
			}
		}
		mux := http.NewServeMux()
		mux.HandleFunc(web.EchoPath, serve(gws.NewUpgrader(echo{}, nil)))
		mux.HandleFunc(web.CrowdPath, serve(gws.NewUpgrader(listeners{crowd: &crowd}, nil)))
		ready(ln.Addr().String())
		return http.Serve(ln, mux)
	})
}
