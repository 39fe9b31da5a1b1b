// Command http1 serves HTTP with hone's package http1, with all of its default limits but
// the number of connections. Its handler is the one of nethttp.
package main

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

func main() {
	engines := []string{engine.Events(engine.Auto).Name(), engine.Events(engine.Offload).Name(), engine.Buffered(0).Name()}
	service.Main(engines, func(o service.Options, ready func(string)) error {
		s := &http1.Server{Handler: web.Handler(o.Pusher), Limits: engine.Limits{Conns: o.Conns}, Std: new(http.Server)}
		if err := s.Engine.UnmarshalText([]byte(o.Engine)); err != nil {
			return err
		}
		if o.TLS {
			cert, err := web.Certificate()
			if err != nil {
				return err
			}
			s.Std.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		}
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		if o.TLS {
			return s.ServeTLS(ln, "", "")
		}
		return s.Serve(ln)
	})
}
